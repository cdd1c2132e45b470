"""S and differential S of a check: by hand, as the published formula gives them, silent where groups are alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.metrics import association, differential_association, pair_choices
from fairgate.ground.errors import MetricError
from fairgate.metrics import METRICS, Cell, Measure, MetricRequest
from fairgate.probes import ProbeScores

GOLDEN = Path(__file__).parents[1] / "golden" / "diffusion_classifier.json"
PAIRS = [case for case in json.loads(GOLDEN.read_text())["cases"] if "err_XA" in case]


def measured(metric: str, shares: Any, group: Any, sets: Any = None) -> Measure:
    """A metric of one word's shares (images,), two groups X (0) and Y (1), of sets or of single images."""
    share, codes = np.asarray(shares, dtype=float), np.asarray(group)
    names, set_code = np.unique(np.arange(len(share)) if sets is None else np.asarray(sets), return_inverse=True)
    subject = np.array(["person"] * len(share))
    cell = Cell(np.arange(len(share)), set_code, names, subject, (codes,), (("x", "y"),))
    settings = METRICS[metric].Settings()
    request = MetricRequest("check", metric, "pairs", settings, crossings=(("group",),), words=("doctor",))
    return METRICS[metric].measure(request, cell, [ProbeScores(share)])


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: f"{len(case['err_XA'])}-images")
def test_the_published_formula_is_met(case: dict[str, Any]) -> None:
    expected = case["outputs"]["tie=0.5"]
    x, y = (pair_choices(case[f"err_{side}A"], case[f"err_{side}B"]) for side in "XY")
    assert x.mean() == pytest.approx(expected["S_X"], abs=1e-12)
    assert x.mean() == pytest.approx(association(case["err_XA"], case["err_XB"]), abs=1e-12)
    soft = pair_choices(case["err_XA"], case["err_XB"], soft=True)
    assert soft.mean() == pytest.approx(association(case["err_XA"], case["err_XB"], soft=True), abs=1e-12)
    shares = [*x.mean(axis=(1, 2)), *y.mean(axis=(1, 2))]
    groups = [0] * len(x) + [1] * len(y)
    found = measured("differential_association", shares, groups)
    assert found.group_values == pytest.approx([expected["S_diff"], -expected["S_diff"]], abs=1e-12)
    assert found.value == pytest.approx(abs(differential_association(expected["S_X"], expected["S_Y"])), abs=1e-12)
    highest = measured("association", shares, groups)
    assert highest.group_values == pytest.approx([expected["S_X"], expected["S_Y"]], abs=1e-12)
    assert highest.value == pytest.approx(max(expected["S_X"], expected["S_Y"]), abs=1e-12)


def test_by_hand() -> None:
    found = measured("differential_association", [1.0, 0.0, 0.5, 0.5], [0, 1, 0, 1], sets=[0, 0, 1, 1])
    assert found.group_values.tolist() == [0.5, -0.5]  # x: (1 + 0.5) / 2, y: (0 + 0.5) / 2
    assert found.badness.tolist() == [1.0, 0.0]
    drawn = found.draw(np.array([[2, 0], [0, 2]], dtype=np.int32))
    assert drawn.value.tolist() == [1.0, 0.0]


shares = st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.6, 1.0]), min_size=4, max_size=40)


@settings(deadline=None)
@given(share=shares, order=st.randoms())
def test_neither_order_nor_copies_matter_and_swapped_lists_change_the_sign(share: list[float], order: Any) -> None:
    groups = [place % 2 for place in range(len(share))]
    plain = measured("differential_association", share, groups)
    places = list(range(len(share)))
    order.shuffle(places)
    moved = measured("differential_association", [share[at] for at in places], [groups[at] for at in places])
    doubled = measured("differential_association", share * 2, groups * 2)
    swapped = measured("differential_association", [1 - one for one in share], groups)
    for other in (moved, doubled):
        assert other.group_values == pytest.approx(plain.group_values, abs=1e-12)
    assert swapped.group_values == pytest.approx(-plain.group_values, abs=1e-12)
    assert 0 <= plain.value <= 1


@given(share=shares)
def test_groups_that_are_alike_are_silent(share: list[float]) -> None:
    found = measured("differential_association", [*share, *share], [0] * len(share) + [1] * len(share))
    assert found.value == pytest.approx(0.0, abs=1e-12)


def test_losses_of_different_images_are_refused() -> None:
    with pytest.raises(MetricError, match="errors_a holds 2 images and errors_b 1"):
        pair_choices([[1.0], [2.0]], [[1.0]])
