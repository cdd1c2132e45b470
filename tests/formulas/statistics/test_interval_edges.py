"""Edges of the intervals of extremes, and of resamples that tests share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from fairgate.formulas.statistics import Interval, Resamples, Unavailable, extreme_interval, set_counts, skew_interval
from fairgate.ground.randomness import stream


def test_every_subject_is_widened_for_its_own_skewness() -> None:
    steady, tailed = np.tile([1.0, -1.0], 200), np.tile([3.0, -1.0, -1.0, -1.0], 100)
    for sign in (1.0, -1.0):
        draws = np.stack([np.stack([steady, steady / 2]), np.stack([steady, sign * tailed])]).transpose(2, 0, 1)
        found = extreme_interval(np.zeros((2, 2)), draws, n_sets=50)
        assert isinstance(found, Interval)
        error = draws.std(axis=0, ddof=1) * np.sqrt(50 / 49)
        tail = np.array([[0.0], [2 / np.sqrt(3)]])  # the first subject's groups have none
        above, below = (tail, 0.0 * tail) if sign > 0 else (0.0 * tail, tail)

        def reach(level: float, tail: np.ndarray, error: np.ndarray = error) -> np.ndarray:
            t = student.ppf(1 - level, 49)
            return np.asarray((t + tail * (2 * t**2 + 1) / 6) * error)

        def fine(level: float) -> float:
            return 1 - (1 - level) ** 0.5

        high, middle = reach(0.025, above).max(axis=1), reach(0.5, above).max(axis=1)
        assert found.hi == pytest.approx(middle.mean() + np.sqrt(((high - middle) ** 2).sum()) / 2)
        low, middle = (-reach(fine(level), below).min(axis=1) for level in (0.025, 0.5))
        assert found.lo == pytest.approx(middle.mean() - np.sqrt(((low - middle) ** 2).sum()) / 2)


def test_values_of_nothing_but_zeros_have_shown_no_spread() -> None:
    draws = np.stack([np.tile([1.0, -1.0], 50), np.zeros(100)], axis=1)
    assert extreme_interval([0.0, 0.0], draws, n_sets=50) == Unavailable(
        "all sets agree on group 1: its spread is unseen"
    )


def test_the_group_that_resamples_lose_is_named_and_two_draws_are_enough() -> None:
    draws = stream(0, "lost").normal(size=(2, 3, 2))
    assert isinstance(extreme_interval(np.zeros((3, 2)), draws, n_sets=50), Interval)
    draws[1, 0, 1] = np.nan
    assert extreme_interval(np.zeros((3, 2)), draws, n_sets=50, names=["a", "b"]) == Unavailable(
        "b stands in so few sets that resamples lose it"
    )


def test_shares_of_one_trial_have_wide_limits_and_few_sets_have_none() -> None:
    share, draws = np.array([1.0, 0.5]), np.tile([[1.0, 0.25], [1.0, 0.75]], (50, 1))
    found = extreme_interval(share, draws, n_sets=6, trials=[1, 8])
    assert isinstance(found, Interval)
    assert found.hi == 1.0
    assert extreme_interval(share, draws, n_sets=5, trials=[1, 8]) == Unavailable("5 sets are too few")


def test_one_draw_may_be_asked_of_shared_resamples_and_nobody_changes_them() -> None:
    shared = Resamples(4, 2, stream(0, "shared"))
    np.testing.assert_array_equal(set_counts(4, 1, shared), set_counts(4, 2, stream(0, "shared"))[:1])
    shared.rows(4, 2)[0, 0] += 1  # a copy
    np.testing.assert_array_equal(shared.rows(4, 2), set_counts(4, 2, stream(0, "shared")))


def test_skews_of_few_sets_have_no_interval() -> None:
    draws = np.log(np.tile([[0.9, 1.1], [1.1, 0.9]], (50, 1)))
    assert skew_interval([0.0, 0.0], draws, k=10, images=[20, 20], n_sets=5) == Unavailable("5 sets are too few")
    assert isinstance(skew_interval([0.0, 0.0], draws, k=10, images=[20, 20], n_sets=6), Interval)
