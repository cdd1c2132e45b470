"""Shares corrected for a reader's errors, against cases by hand and Rogan and Gladen's formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import corrected_change, corrected_shares, share_distance
from fairgate.ground.errors import MetricError


def test_of_two_groups_it_is_rogan_and_gladens_formula() -> None:
    sensitivity, specificity = 70 / 100, 190 / 200
    for seen in (0.1, 0.3, 0.6):
        found = corrected_shares([seen, 1 - seen], [[70, 30], [10, 190]]).shares[0]
        assert found == pytest.approx((seen + specificity - 1) / (sensitivity + specificity - 1), abs=1e-14)


def test_a_reader_that_overlooks_one_group_more_often_does_not_hide_it() -> None:
    """100 women and 100 men, of whom 50 and 100 are read: a share of women of one third."""
    assert corrected_shares([50, 100], [[50, 0, 50], [0, 100, 0]]).shares.tolist() == [0.5, 0.5]


def test_a_reader_without_errors_changes_nothing_and_three_groups_come_back() -> None:
    known = np.array([0.5, 0.3, 0.2])
    rates = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.05, 0.9]])
    assert corrected_shares(known, np.eye(3)).shares == pytest.approx(known, abs=1e-15)
    assert corrected_shares(known @ rates, 1000 * rates).shares == pytest.approx(known, abs=1e-14)


def test_a_share_below_0_is_0_and_said() -> None:
    found = corrected_shares([[1, 99], [30, 70]], [[90, 10], [10, 90]])
    assert found.clipped.tolist() == [True, False]
    assert found.shares[0].tolist() == [0.0, 1.0]


def test_every_row_is_corrected_by_its_own_reader() -> None:
    perceived = np.array([[3.0, 7.0, 1.0], [20.0, 1.0, 4.0]])
    confusion = np.array([[[8, 1, 1], [0, 9, 1], [2, 0, 8]], [[50, 0, 9], [5, 60, 2], [1, 7, 70]]])
    found = corrected_shares(perceived, confusion)
    rows = [corrected_shares(*row) for row in zip(perceived, confusion, strict=True)]
    np.testing.assert_allclose(found.shares, [row.shares for row in rows], rtol=1e-13)
    assert found.clipped.tolist() == [bool(row.clipped) for row in rows] == [True, False]
    counts = np.concatenate([confusion, np.full((2, 3, 1), 5)], axis=2)
    for shares, row, known in zip(corrected_shares(perceived, counts).shares, perceived, counts, strict=True):
        assert shares == pytest.approx(corrected_shares(row, known).shares, rel=1e-13)


def test_counts_of_few_bits_have_the_same_shares() -> None:
    perceived, confusion = np.array([3001, 7001], np.float16), np.array([[801, 200], [50, 950]], np.float16)
    found = corrected_shares(perceived, confusion).shares
    np.testing.assert_array_equal(found, corrected_shares(perceived.tolist(), confusion.tolist()).shares)
    assert share_distance(perceived, [1, 1]) == share_distance(perceived.tolist(), [1, 1])


def test_a_share_of_exactly_0_is_no_error_of_the_reader() -> None:
    found = corrected_shares([5, 0], np.eye(2))
    assert (found.shares.tolist(), bool(found.clipped)) == ([1.0, 0.0], False)


def test_shares_that_cancel_leave_the_one_above_0() -> None:
    """Twice the first group less twice the second would be perceived as both alike."""
    found = corrected_shares([1, 1], [[3, 1, 0], [2, 0, 2]])
    assert (found.shares.tolist(), bool(found.clipped)) == ([1.0, 0.0], True)


@pytest.mark.parametrize(
    ("perceived", "confusion", "problem"),
    [
        (1.0, [[9, 1], [1, 9]], "^0 group is declared"),
        ([1, 1], np.ones((2, 4)), r"the confusion has shape \(2, 4\), and 2 groups are perceived"),
        ([1, 1], np.ones((1, 2, 5)), r"the confusion has shape \(1, 2, 5\)"),
        ([[1, 1], [0, 0]], np.eye(2), "^perceived holds counts"),
        ([1, np.inf], np.eye(2), "^perceived holds counts"),
        ([1e308, 1e308], np.eye(2), "^perceived holds counts"),
        ([1, 1], [[2, 1], [np.nan, 1]], "^confusion holds counts"),
        ([1, 1], [[2, -1], [0, 1]], "^confusion holds counts"),
        ([1, 1], [[2, 2], [1, 1]], "^the reader perceives two groups alike"),
    ],
)
def test_counts_that_fit_no_shares_are_refused(perceived: Any, confusion: Any, problem: str) -> None:
    with np.errstate(over="ignore"), pytest.raises(MetricError, match=problem):
        corrected_shares(perceived, confusion)


def test_a_distance_is_the_share_of_pictures_that_would_have_to_change() -> None:
    assert share_distance([6, 3, 1], [1, 1, 1]) == pytest.approx(0.6 - 1 / 3)
    assert share_distance([0.2, 0.8], [0.2, 0.8]) == 0.0
    assert share_distance([1, 0], [0, 1]) == 1.0


def test_every_row_has_the_distance_to_its_own_target() -> None:
    shares, wanted = np.array([[6.0, 3.0, 1.0], [0.0, 2.0, 2.0]]), np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 9.0]])
    expected = [float(share_distance(*row)) for row in zip(shares, wanted, strict=True)]
    assert share_distance(shares, wanted) == pytest.approx(expected)
    assert expected == pytest.approx([0.6 - 1 / 3, 0.5])
    assert share_distance(shares[0], wanted) == pytest.approx([0.6 - 1 / 3, 0.8])


@pytest.mark.parametrize(
    ("shares", "wanted", "problem"),
    [
        (1.0, [1.0], "^0 group is declared"),
        ([1, 2], [1, 1, 1], r"shares of shape \(2,\) and \(3,\) are"),
        ([[1, 2], [0, 0]], [1, 1], r"shares of shape \(2, 2\) and \(2,\) are"),
        ([1e308, 1e308], [1, 1], r"shares of shape \(2,\) and \(2,\) are"),
        ([1, 2], [1, np.nan], r"shares of shape \(2,\) and \(2,\) are"),
        ([1, 2], [[1, 1], [0, 0]], r"shares of shape \(2,\) and \(2, 2\) are"),
    ],
)
def test_shares_without_a_distance_are_refused(shares: Any, wanted: Any, problem: str) -> None:
    with np.errstate(over="ignore"), pytest.raises(MetricError, match=problem):
        share_distance(shares, wanted)


def test_a_change_is_the_difference_of_two_corrected_shares() -> None:
    """Rogan and Gladen before and after; false alarms cancel."""
    known = np.array([[80.0, 20.0], [30.0, 70.0]])
    before, after = 0.35, 0.6  # perceived: 0.1 and 0.6 show it
    shares = [corrected_shares([seen, 1 - seen], known).shares[0] for seen in (before, after)]
    assert shares == pytest.approx([0.1, 0.6])
    assert corrected_change(after - before, known) == pytest.approx(shares[1] - shares[0])


def test_every_change_is_corrected_by_its_own_reader_and_ends_at_1() -> None:
    found = corrected_change([0.3, 0.3, 0.3], [[[10, 0], [0, 10]], [[8, 2], [2, 8]], [[6, 4], [4, 6]]])
    assert found == pytest.approx([0.3, 0.5, 1.0])
