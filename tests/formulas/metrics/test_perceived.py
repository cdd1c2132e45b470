"""Shares corrected for a reader's errors, against cases by hand and Rogan and Gladen's formula."""

from __future__ import annotations

import numpy as np
import pytest

from fairgate.formulas.metrics import corrected_shares, share_distance


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


def test_a_distance_is_the_share_of_pictures_that_would_have_to_change() -> None:
    assert share_distance([6, 3, 1], [1, 1, 1]) == pytest.approx(0.6 - 1 / 3)
    assert share_distance([0.2, 0.8], [0.2, 0.8]) == 0.0
    assert share_distance([1, 0], [0, 1]) == 1.0
