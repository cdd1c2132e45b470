"""Intervals of means and medians, over counterfactual sets. The images of a set are not independent: sets are drawn.

A draw is a row of multiplicities (`draws`), from which every statistic is computed. A median also has an exact interval
from its order statistics, whatever the distribution, without resampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtr, ndtri

from fairgate.errors import StatisticsError
from fairgate.statistics.draws import CHUNK, Counts, FloatArray, Source, set_count_chunks

Statistic: TypeAlias = Callable[[Counts], FloatArray]
"""From multiplicities (draws, sets) to one value per draw (draws,)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate between its limits at confidence 1 - alpha, and how they were found."""

    estimate: float
    lo: float
    hi: float
    method: Literal["percentile", "bca", "extreme", "reflected", "order statistics"]
    draws: int


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No interval, because none that could be given would cover. Reports print the reason."""

    reason: str


def weighted_median(values: ArrayLike, weights: Counts) -> FloatArray:
    """Median of values (rows,) under each draw's multiplicities (draws, rows) -> (draws,).

    As np.median of the repeated values: the mean of the middle two where their number is even.
    """
    value = np.asarray(values, dtype=np.float64)
    order = np.argsort(value, kind="stable")
    ranked = value[order]
    reached = np.cumsum(weights[:, order], axis=1, dtype=np.int32)
    total = reached[:, -1:]
    lower = (reached <= (total - 1) // 2).sum(axis=1)
    upper = (reached <= total // 2).sum(axis=1)
    medians: FloatArray = (ranked[lower] + ranked[upper]) / 2.0
    return medians


def bootstrap(
    values_or_function: ArrayLike | Statistic,
    sets: int | ArrayLike,
    rng: Source,
    n: int = 10_000,
    *,
    statistic: Literal["mean", "median"] = "mean",
    alpha: float = 0.05,
    method: Literal["percentile", "bca"] = "percentile",
) -> Interval:
    """Interval of a statistic by n resamples of sets.

    `values_or_function`: values (rows,), of which `statistic` is taken, or a function from multiplicities
    (draws, sets) to (draws,). `sets`: the set code 0..sets-1 of each row, or the number of sets (then values are one
    per set). BCa corrects bias and skewness and needs a jackknife; it is refused for medians, where that fails.
    Raises StatisticsError for values that are not finite and fewer than two sets.
    """
    n_sets, of = _statistic(values_or_function, sets, statistic)
    if n_sets < 2:
        raise StatisticsError(
            f"{n_sets} set cannot be resampled.", where="sets", remedy="score at least two sets, better thirty"
        )
    if method == "bca" and statistic == "median" and not callable(values_or_function):
        raise StatisticsError(
            "BCa needs a jackknife, which is not consistent for a median.",
            where="method",
            remedy="use method='percentile'",
        )
    estimate = float(of(np.ones((1, n_sets), dtype=np.int32))[0])
    draws = np.concatenate([of(chunk) for chunk in set_count_chunks(n_sets, n, rng)])
    levels = np.array([alpha / 2, 1 - alpha / 2])
    if method == "bca":
        levels = _bca_levels(levels, estimate, draws, _jackknife(of, n_sets))
    lo, hi = np.quantile(draws, levels)
    return Interval(estimate=estimate, lo=float(lo), hi=float(hi), method=method, draws=n)


def _statistic(
    given: ArrayLike | Statistic, sets: int | ArrayLike, statistic: Literal["mean", "median"]
) -> tuple[int, Statistic]:
    """The number of sets, and the statistic as a function of multiplicities."""
    code = np.arange(sets) if isinstance(sets, int) else np.asarray(sets)
    n_sets = int(code.max(initial=-1)) + 1
    if callable(given):
        return n_sets, given
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1 or code.shape != values.shape or not np.isfinite(values).all() or np.unique(code).size < n_sets:
        raise StatisticsError(
            f"{values.size} values of shape {values.shape}, {int((~np.isfinite(values)).sum())} of them not finite, "
            f"do not fit {n_sets} sets.",
            where="values",
            remedy="pass finite values (rows,) with the set code 0, 1, ... of each, or one per set and their number",
        )
    if statistic == "median":
        return n_sets, (lambda counts: weighted_median(values, counts[:, code]))
    total = np.bincount(code, values, minlength=n_sets)
    rows = np.bincount(code, minlength=n_sets).astype(np.float64)
    return n_sets, (lambda counts: (counts @ total) / (counts @ rows))


def _jackknife(of: Statistic, n_sets: int) -> FloatArray:
    """The statistic with each set left out once."""
    step = max(1, CHUNK // n_sets)
    parts = []
    for start in range(0, n_sets, step):
        left_out = np.arange(start, min(start + step, n_sets))
        counts = np.ones((left_out.size, n_sets), dtype=np.int32)
        counts[np.arange(left_out.size), left_out] = 0
        parts.append(of(counts))
    return np.concatenate(parts)


def _bca_levels(levels: FloatArray, estimate: float, draws: FloatArray, left_out: FloatArray) -> FloatArray:
    """Efron's bias-corrected and accelerated levels (Efron 1987), for the quantiles of `draws`."""
    below = (draws < estimate).mean() + (draws == estimate).mean() / 2
    deviation = left_out.mean() - left_out
    spread = (deviation**2).sum()
    if spread == 0:
        return levels
    acceleration = (deviation**3).sum() / (6 * spread**1.5)
    bias = ndtri(np.clip(below, 1 / (draws.size + 1), draws.size / (draws.size + 1)))
    z = bias + ndtri(levels)
    adjusted: FloatArray = ndtr(bias + z / (1 - acceleration * z))
    return adjusted


def median_interval(values: ArrayLike, *, alpha: float = 0.05) -> Interval | Unavailable:
    """Interval for the median of independent values (sets,), such as the stds of sets: holds in 1 - alpha at least.

    Its limits are two of the values: each value lies under the median or over it like a coin, so that the r-th
    smallest lies over it with probability P(Binomial(sets, 1/2) < r), at most alpha / 2. (The bootstrap's percentiles
    stay a little short of 95%.) `Unavailable` where not even the smallest value is safe: under 6 sets at alpha 0.05.
    Raises StatisticsError for values that are not finite and an alpha out of range.
    """
    value = np.asarray(values, dtype=np.float64)
    if value.ndim != 1 or not np.isfinite(value).all() or not 0 < alpha < 1:
        raise StatisticsError(
            f"values {value.shape}, {int((~np.isfinite(value)).sum())} of them not finite, and alpha {alpha} "
            "make no interval.",
            where="median_interval",
            remedy="pass one finite value per set, and alpha between 0 and 1",
        )
    ranked, n = np.sort(value), value.size
    below = int((bdtr(np.arange(n), n, 0.5) <= alpha / 2).sum())
    if not below:
        return Unavailable(f"{n} sets are too few")
    return Interval(float(np.median(ranked)), float(ranked[below - 1]), float(ranked[n - below]), "order statistics", 0)
