"""Mutual information of dimensions with an attribute: as Wang et al.'s code has it, and what any estimate must obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.metrics import mutual_information
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

CASES = json.loads((Path(__file__).parents[2] / "golden" / "clip_clip.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case['labels'])} images")
def test_values_and_order_are_those_of_the_authors_code(case: dict[str, Any]) -> None:
    found = mutual_information(case["features"], case["labels"])
    np.testing.assert_allclose(found, case["outputs"]["wang.mutual_information_2d"], atol=1e-9)
    order = np.argsort(found, kind="stable").tolist()
    kept = case["outputs"]["wang.order_ascending(keep first num_clip)"]
    assert order[: len(kept)] == kept


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case['labels'])} images")
def test_similarities_of_what_is_left_are_gensynths(case: dict[str, Any]) -> None:
    features, text = np.array(case["features"]), np.array(case["text"])
    order = np.argsort(mutual_information(features, case["labels"]), kind="stable")
    kept = order[: features.shape[1] - case["clipped"]]
    images, texts = (one[:, kept] / np.linalg.norm(one[:, kept], axis=1, keepdims=True) for one in (features, text))
    expected = case["outputs"]["sim_clip_then_normalize(gensynth)"]
    np.testing.assert_allclose(texts @ images.T, expected, atol=1e-9)


def test_two_equal_halves_told_apart_in_full_have_ln_2_without_smoothing() -> None:
    for bins in (2, 3, 64):
        found = mutual_information([[0.0], [0.0], [1.0], [1.0]], [0, 0, 1, 1], bins=bins, sigma=0.0)
        assert found == pytest.approx([np.log(2)], abs=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 2**16), scale=st.floats(0.1, 10), shift=st.floats(-5, 5), swapped=st.booleans())
def test_it_knows_neither_scale_nor_shift_nor_names_nor_order(
    seed: int, scale: float, shift: float, swapped: bool
) -> None:
    rng = stream(seed, "features")
    labels = np.arange(60) % 2
    # multiples of 1/8: no value is so near to the edge of a bin that rounding moves it across
    features = rng.integers(0, 8, (60, 3)) / 8 + labels[:, None] * np.array([0.0, 0.25, 2.0])
    order = rng.permutation(60)
    features[0], features[1] = 0.0, 4.0  # the span that the bins divide
    codes = (1 - labels if swapped else labels)[order]
    found = mutual_information(features, labels, bins=9)
    np.testing.assert_allclose(mutual_information(features[order], codes, bins=9), found, atol=1e-9)
    moved = mutual_information(np.round(features * 8) * 2.0 ** round(np.log2(scale)) + round(shift), labels, bins=9)
    np.testing.assert_allclose(moved, found, atol=1e-9)


@pytest.mark.parametrize(
    ("features", "labels", "more"),
    [
        ([[0.0], [np.nan]], [0, 1], {}),
        ([[0.0], [1.0]], [0, 1, 1], {}),
        ([[0.0], [1.0]], [0, 0], {}),
        ([[0.0], [1.0]], [0, -1], {}),
        ([[0.0], [1.0]], [0, 1], {"bins": 1}),
        ([[0.0], [1.0]], [0, 1], {"sigma": -1.0}),
    ],
)
def test_what_tells_nothing_is_refused(features: Any, labels: Any, more: dict[str, Any]) -> None:
    with pytest.raises(MetricError):
        mutual_information(features, np.array(labels), **more)
