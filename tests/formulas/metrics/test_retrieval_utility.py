"""Bias@K, entropy and R@K: cases counted by hand, what they must refuse, and their default arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    bias_at_k,
    bias_of_counts,
    counts_at_k_weighted,
    entropy_of_counts,
    normalized_entropy_at_k,
    recall_at_k,
    skew_of_counts,
)
from fairgate.ground.errors import MetricError

SCORES = np.array([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.4, 0.5, 0.6, 0.7, 0.8, 0.9]])
MIXED = np.array([0, -1, 0, 1, -1, 1])


def test_undefined_images_hold_places_of_bias_and_are_not_counted() -> None:
    # Top 4: 0 . 0 1 | 1 . 1 0, with one undefined image each.
    assert bias_at_k(SCORES, MIXED, 4) == pytest.approx([1 / 3, -1 / 3])
    # Defined only: 0 0 1 1, twice; top 3 is two of one and one of the other.
    assert bias_at_k(SCORES, MIXED, 3, defined_first=True) == pytest.approx([1 / 3, -1 / 3])
    assert bias_at_k(SCORES, MIXED, 3) == pytest.approx([1.0, -1.0])


def test_bias_is_zero_where_neither_group_is_shown() -> None:
    labels = np.array([-1, -1, 0, 1])
    assert bias_at_k([[4.0, 3.0, 2.0, 1.0]], labels, 2).tolist() == [0.0]
    assert bias_at_k([[4.0, 3.0, 2.0, 1.0]], labels, 2, defined_first=True).tolist() == [0.0]
    assert bias_of_counts(0, 0) == 0


def test_bias_compares_the_two_groups_that_are_named() -> None:
    ranking = [[4.0, 3.0, 2.0, 1.0, 0.0]], np.array([2, 2, 1, 0, 0]), 4
    assert bias_at_k(*ranking, groups=3)[0] == 0
    assert bias_at_k(*ranking, groups=3, first=2)[0] == pytest.approx(1 / 3)
    assert bias_at_k(*ranking, groups=3, first=0, second=2)[0] == pytest.approx(-1 / 3)


def test_entropy_counted_by_hand() -> None:
    labels = np.array([0, 0, 0, 1, 2, 3])
    expected = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) / np.log(4)
    assert normalized_entropy_at_k(SCORES, labels, 4, groups=4) == pytest.approx([expected, 1.0])
    assert normalized_entropy_at_k(SCORES, labels, 3, groups=4)[0] == 0
    assert entropy_of_counts([1, 1, 1]) == pytest.approx(1.0)
    one_group = entropy_of_counts([0, 9])
    assert one_group == 0
    assert not np.signbit(one_group)


def test_undefined_images_are_dropped_before_entropy() -> None:
    assert normalized_entropy_at_k(SCORES, MIXED, 4, groups=2) == pytest.approx([1.0, 1.0])


def test_recall_with_one_positive_a_query() -> None:
    assert recall_at_k(SCORES, np.array([2, 3]), 2) == 0.0
    assert recall_at_k(SCORES, np.array([2, 3]), 3) == 1.0
    assert recall_at_k(SCORES, np.array([0, 0]), 5) == 0.5
    assert recall_at_k(SCORES, np.array([0, 0]), 6) == 1.0
    assert recall_at_k(SCORES, np.array([5, 0]), 1) == 0.0


def test_recall_with_several_positives_is_a_share_or_a_hit() -> None:
    positives = np.array([[1, 0, 0, 0, 0, 1], [1, 1, 1, 1, 0, 0]], dtype=bool)
    # Top 3: one of two, one of four.
    assert recall_at_k(SCORES, positives, 3) == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert recall_at_k(SCORES, positives, 3, several="any") == 1.0
    assert recall_at_k(SCORES, positives, 1, several="any") == 0.5


def test_a_group_is_shown_the_same_whether_k_is_given_or_summed() -> None:
    expected = np.log([0.75 / 0.5, 0.25 / 0.5])
    assert skew_of_counts([3, 1], [10, 10]) == pytest.approx(expected)
    assert skew_of_counts([3, 1], [10, 10], k=4) == pytest.approx(expected)
    assert skew_of_counts([3, 3], [10, 10], k=4) == pytest.approx(np.log([1.5, 1.5]))


def test_every_row_is_compared_with_its_own_gallery() -> None:
    found = skew_of_counts([3, 1], [[10, 10], [30, 10]])
    assert found == pytest.approx(np.array([[np.log(1.5), np.log(0.5)], [0.0, 0.0]]))


def test_counts_of_resampled_galleries_feed_every_metric_of_counts() -> None:
    weights = np.array([[1, 1, 1, 1], [3, 0, 1, 0], [0, 0, 0, 4]])
    shown = counts_at_k_weighted(np.array([0, 1, 0, 1]), weights, 3, groups=2)
    assert shown.tolist() == [[2, 1], [3, 0], [0, 3]]
    assert bias_of_counts(shown[:, 0], shown[:, 1]) == pytest.approx([1 / 3, 1, -1])
    assert entropy_of_counts(shown)[1:].tolist() == [0, 0]


BIAS_REFUSALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "k beyond the images": ({"k": 7}, "k is 7, but 6 images", "between 1 and 6"),
    "k beyond the defined": ({"k": 5, "defined_first": True}, "k is 5, but 4 images", "between 1 and 4"),
    "nothing defined": ({"labels": np.full(6, -1)}, "have no image", "declare only"),
    "an absent group": ({"groups": 3}, r"codes \[2\]", "add images"),
    "one group": ({"groups": 1, "second": 0}, "group 0 with group 0", "two different groups"),
    "NaN": ({"scores": SCORES * np.nan}, "not finite", "no number there"),
    "the same group twice": ({"second": 0}, "group 0 with group 0", "between 0 and 1"),
    "an undeclared first": ({"first": 2}, "group 2 with group 1, of 2", "between 0 and 1"),
    "an undeclared second": ({"second": 2}, "group 0 with group 2, of 2", "between 0 and 1"),
    "undefined as a group": ({"first": -1}, "group -1", "between 0 and 1"),
    "labels too few": ({"labels": MIXED[:5]}, "there are 6 images", "one code per image"),
}


@pytest.mark.parametrize("case", BIAS_REFUSALS)
def test_bias_refuses(case: str) -> None:
    change, problem, remedy = BIAS_REFUSALS[case]
    with pytest.raises(MetricError, match=problem) as caught:
        bias_at_k(**{"scores": SCORES, "labels": MIXED, "k": 2} | change)
    assert caught.value.where
    assert remedy in caught.value.remedy


RECALL_REFUSALS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "k beyond the images": ({"k": 7}, "k is 7, but 6 images", "k", "between 1 and 6"),
    "k is zero": ({"k": 0}, "k is 0", "k", "between 1 and 6"),
    "NaN": ({"scores": SCORES * np.nan}, "not finite", "scores", "no number there"),
    "a query without positives": (
        {"positives": np.arange(12).reshape(2, 6) > 6},
        "1 of 2 queries have no positive",
        "first at query 0",
        "cannot be found",
    ),
    "a position too far": (
        {"positives": np.array([0, 6])},
        "position 6, outside 0..5",
        "first at query 1",
        "not in it",
    ),
    "a position below 0": ({"positives": np.array([-1, 0])}, "position -1, outside 0..5", "first at query 0", "not in"),
    "too few positions": ({"positives": np.array([0])}, r"shape \(1,\)", "positives", r"shape (2,), or bool"),
    "positions that are no integers": ({"positives": np.array([0.0, 1.0])}, "float64", "positives", "one position"),
    "marks of another shape": ({"positives": np.ones((2, 5), bool)}, r"shape \(2, 5\)", "positives", "shape (2, 6)"),
    "an unknown reading": ({"several": "best"}, "'best'", "several", "'share'"),
}


@pytest.mark.parametrize("case", RECALL_REFUSALS)
def test_recall_refuses(case: str) -> None:
    change, problem, where, remedy = RECALL_REFUSALS[case]
    with pytest.raises(MetricError, match=problem) as caught:
        recall_at_k(**{"scores": SCORES, "positives": np.array([0, 5]), "k": 2} | change)
    assert where in caught.value.where
    assert remedy in caught.value.remedy


def test_the_entropy_of_nothing_is_refused() -> None:
    with pytest.raises(MetricError, match="no images") as caught:
        entropy_of_counts([[1, 1], [0, 0]])
    assert caught.value.where == "shown"
    assert "no distribution" in caught.value.remedy
    with pytest.raises(MetricError, match="at least two"):
        entropy_of_counts([7])
