"""A median's interval from its order statistics: two of the values, chosen by the binomial distribution alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fairgate.formulas.statistics import Interval, Unavailable, median_interval
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream


def test_the_limits_of_ten_values_are_the_second_from_either_end() -> None:
    values = np.array([5.0, 1, 9, 2, 8, 3, 7, 4, 6, 10])
    # P(at most 1 of 10 below) = 11 / 1024 = 0.011, P(at most 2) = 0.055
    assert median_interval(values) == Interval(5.5, 2.0, 9.0, "order statistics", 0)
    assert median_interval(values) == median_interval(values, alpha=0.05)
    wide = median_interval(values, alpha=0.01)
    assert isinstance(wide, Interval)
    assert (wide.lo, wide.hi) == (1.0, 10.0)


def test_a_level_that_is_reached_exactly_is_enough() -> None:
    values = np.arange(10.0)
    exact = 2 * 11 / 1024
    inside, outside = median_interval(values, alpha=exact), median_interval(values, alpha=exact * 0.999)
    assert isinstance(inside, Interval)
    assert isinstance(outside, Interval)
    assert (inside.lo, outside.lo) == (1.0, 0.0)


@pytest.mark.parametrize("sets", [1, 5])
def test_five_sets_are_too_few_and_six_are_enough(sets: int) -> None:
    assert median_interval(np.arange(float(sets))) == Unavailable(f"{sets} sets are too few")
    assert median_interval(np.arange(6.0)) == Interval(2.5, 0.0, 5.0, "order statistics", 0)


@pytest.mark.parametrize("sets", [7, 50, 301])
def test_it_covers_a_skewed_median_as_often_as_the_binomial_says(sets: int) -> None:
    rng = stream(0, "median", sets)
    intervals = [median_interval(rng.exponential(size=sets)) for _ in range(600)]
    covered = np.mean([isinstance(one, Interval) and one.lo <= np.log(2) <= one.hi for one in intervals])
    below = int(binom.ppf(0.025, sets, 0.5))
    expected = 1 - 2 * binom.cdf(below - 1, sets, 0.5)
    assert expected >= 0.95
    assert covered == pytest.approx(expected, abs=0.025)


@pytest.mark.parametrize(
    ("values", "alpha", "problem"),
    [
        ([1.0, np.nan], 0.05, "1 of them not finite"),
        ([1.0, np.inf, -np.inf], 0.05, "2 of them not finite"),
        ([[1.0, 2.0]], 0.05, r"values \(1, 2\)"),
        ([1.0, 2.0], 0.0, "alpha 0.0"),
        ([1.0, 2.0], 1.0, "alpha 1.0"),
    ],
)
def test_values_that_have_no_median_are_refused(values: Any, alpha: float, problem: str) -> None:
    with pytest.raises(StatisticsError, match=problem) as error:
        median_interval(values, alpha=alpha)
    assert error.value.where == "median_interval"
    assert error.value.remedy
