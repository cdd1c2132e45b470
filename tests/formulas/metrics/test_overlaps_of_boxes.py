"""Overlaps of boxes: by hand, and against torchvision."""

from __future__ import annotations

import numpy as np
import pytest

from fairgate.formulas.metrics import intersection_over_union
from fairgate.ground.errors import MetricError


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ([0, 0, 4, 2], 1.0),
        ([2, 0, 6, 2], 4 / 12),  # 2 x 2 shared of 8 + 8 - 4
        ([4, 0, 8, 2], 0.0),  # they touch
        ([1, 0, 3, 1], 2 / 8),  # inside
        ([2, 1, 2, 1], 0.0),  # a point
    ],
)
def test_overlaps_by_hand(other: list[float], expected: float) -> None:
    for scale in (1.0, 0.125):
        found = intersection_over_union([[0, 0, 4 * scale, 2 * scale]], scale * np.array([other]))
        assert found.tolist() == [pytest.approx(expected, abs=1e-15)]


def test_a_box_without_area_overlaps_with_none_not_even_itself() -> None:
    flat = [[2, 1, 2, 1], [0, 0, 4, 0]]
    assert intersection_over_union(flat, flat).tolist() == [0.0, 0.0]


def test_the_box_that_ends_before_it_begins_is_named() -> None:
    right, wrong = [[0, 0, 4, 2]] * 3, [[0, 0, 4, 2], [5, 5, 2, 9], [3, 3, 4, 2]]
    for name, pair in (("boxes", (wrong, right)), ("others", (right, wrong))):
        with pytest.raises(MetricError, match=f"^2 of {name} end before they begin") as caught:
            intersection_over_union(*pair)
        assert caught.value.where == f"{name}: first at pair 1"


def test_overlaps_are_torchvisions() -> None:
    import torch
    from torchvision.ops import box_iou

    rng = np.random.default_rng(0)
    boxes, others = (
        np.concatenate([at, at + rng.uniform(1, 60, (200, 2))], 1) for at in rng.uniform(0, 60, (2, 200, 2))
    )
    expected = box_iou(torch.from_numpy(boxes), torch.from_numpy(others)).diagonal().numpy()
    assert (expected > 0).sum() > 50
    np.testing.assert_allclose(intersection_over_union(boxes, others), expected, rtol=1e-13)
