"""The interval of a median from its order statistics: exact, whatever the distribution, and no resampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from fairgate.errors import StatisticsError
from fairgate.statistics.extremes import Unavailable
from fairgate.statistics.resampling import Interval


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
