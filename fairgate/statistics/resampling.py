"""Intervals of means and medians, over counterfactual sets. The images of a set are not independent: sets are drawn.

A draw is a row of multiplicities (`draws`), from which every statistic is computed. A median also has an exact interval
from its order statistics, whatever the distribution, without resampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from fairgate.errors import StatisticsError
from fairgate.statistics.draws import Counts, FloatArray, Source, set_count_chunks


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate between its limits at confidence 1 - alpha, and how they were found."""

    estimate: float
    lo: float
    hi: float
    method: Literal["percentile", "extreme", "reflected", "order statistics"]
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
    values: ArrayLike, sets: int | ArrayLike, rng: Source, n: int = 10_000, *, alpha: float = 0.05
) -> Interval:
    """Percentile interval of the mean of values (rows,) by n resamples of sets.

    `sets`: the set code 0..sets-1 of each row, or the number of sets (then values are one per set). Raises
    StatisticsError for values that are not finite and fewer than two sets.
    """
    value = np.asarray(values, dtype=np.float64)
    code = np.arange(sets) if isinstance(sets, int) else np.asarray(sets)
    n_sets = int(code.max(initial=-1)) + 1
    if value.ndim != 1 or code.shape != value.shape or not np.isfinite(value).all() or np.unique(code).size < n_sets:
        raise StatisticsError(
            f"{value.size} values of shape {value.shape}, {int((~np.isfinite(value)).sum())} of them not finite, "
            f"do not fit {n_sets} sets.",
            where="values",
            remedy="pass finite values (rows,) with the set code 0, 1, ... of each, or one per set and their number",
        )
    if n_sets < 2:
        raise StatisticsError(
            f"{n_sets} set cannot be resampled.", where="sets", remedy="score at least two sets, better thirty"
        )
    total = np.bincount(code, value, minlength=n_sets)
    rows = np.bincount(code, minlength=n_sets).astype(np.float64)

    def mean(counts: Counts) -> FloatArray:
        return np.asarray((counts @ total) / (counts @ rows))

    estimate = float(mean(np.ones((1, n_sets), dtype=np.int32))[0])
    draws = np.concatenate([mean(chunk) for chunk in set_count_chunks(n_sets, n, rng)])
    lo, hi = np.quantile(draws, [alpha / 2, 1 - alpha / 2])
    return Interval(estimate=estimate, lo=float(lo), hi=float(hi), method="percentile", draws=n)


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
