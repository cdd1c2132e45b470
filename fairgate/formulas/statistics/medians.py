"""Medians under multiplicities of sets; and a median's exact interval from its order statistics, whatever the
distribution, without resampling.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.formulas.statistics.resampling import Counts, FloatArray, Interval, Unavailable
from fairgate.ground.errors import StatisticsError


def weighted_median(values: ArrayLike, weights: Counts, unit: NDArray[np.int64] | None = None) -> FloatArray:
    """Median of values (rows,) under each draw's multiplicities of the rows, or of their blocks `unit` (rows,), (draws,
    rows or blocks) -> (draws,).

    As np.median of the repeated values: the mean of the middle two where their number is even. Only values near the
    middle are counted one by one: within five standard deviations of a resampled median's rank, or more if one is not.
    """
    value = np.asarray(values, dtype=np.float64)
    order = np.argsort(value, kind="stable")
    ranked, place, rows = value[order], order if unit is None else unit[order], value.size
    total = (weights @ np.bincount(place, minlength=weights.shape[1]))[:, None]
    reach = 1 + int(2.5 * np.sqrt(rows))
    while True:
        start, stop = max(0, rows // 2 - reach), min(rows, rows // 2 + reach)
        below = (weights @ np.bincount(place[:start], minlength=weights.shape[1]))[:, None]
        reached = np.cumsum(weights[:, place[start:stop]], axis=1, dtype=np.int32) + below.astype(np.int32)
        if ((below <= (total - 1) // 2) & (reached[:, -1:] > total // 2)).all():
            break
        reach *= 4
    lower = start + (reached <= (total - 1) // 2).sum(axis=1)
    upper = start + (reached <= total // 2).sum(axis=1)
    medians: FloatArray = (ranked[lower] + ranked[upper]) / 2.0
    return medians


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
    from scipy.special import bdtr  # 0.12 s to import

    ranked, n = np.sort(value), value.size
    below = int((bdtr(np.arange(n), n, 0.5) <= alpha / 2).sum())
    if not below:
        return Unavailable(f"{n} sets are too few")
    return Interval(float(np.median(ranked)), float(ranked[below - 1]), float(ranked[n - below]), "order statistics", 0)
