"""The mean of numbers between known limits, such as shares of views that are right: a test for few that differ.

Gaffke's statistic (2005; Learned-Miller and Thomas 2020): add one number at the limit, weigh all by a uniform
Dirichlet draw, and take the probability that the weighted mean is not beyond the bound. For right-or-wrong numbers it
is the exact binomial test (Clopper and Pearson 1934). Validity for all bounded numbers is a conjecture, which
simulation supports (docs/evidence/views.md).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from fairgate.formulas.statistics.resampling import FloatArray

_POINTS = np.arange(1600) * 0.05
"""Where the integral is taken, in standard deviations of the tilted sum."""


def p_mean_above(sample: FloatArray, bound: float, lowest: float) -> float:
    """Evidence that the mean of numbers (n,), none of which can be below `lowest`, is above a bound.

    >>> round(p_mean_above(np.zeros(50), -0.05, -1.0), 4)  # 0.95^50, as of 50 answers none of which turned
    0.0769
    """
    values, counts = np.unique(np.append(sample, lowest), return_counts=True)
    return _p(tuple(values.tolist()), tuple(counts.tolist()), bound)


def least_mean(sample: FloatArray, level: float, lowest: float) -> float:
    """Lower limit of that mean at a one-sided level: a bound that is rejected, near the largest such."""
    below, above = lowest, float(sample.mean())
    while above - below > 1e-4 * (above - lowest + 1e-9):
        middle = (below + above) / 2
        below, above = (middle, above) if p_mean_above(sample, middle, lowest) <= level else (below, middle)
    return below


@lru_cache(maxsize=65_536)
def _p(values: tuple[float, ...], counts: tuple[int, ...], bound: float) -> float:
    """The chance that a sum of exponentials, with weights `values` less the bound, is at most 0.

    Its moment generating function is inverted along the line through its saddle point.
    """
    weight, times = np.array(values) - bound, np.array(counts, dtype=np.float64)
    if weight.max() <= 0:
        return 1.0
    if weight.min() >= 0:
        return 0.0
    left, right = 1 / weight.min(), 1 / weight.max()
    low, high = left, right
    for _ in range(100):
        at = (low + high) / 2
        low, high = (low, at) if (times * weight / (1 - at * weight)).sum() > 0 else (at, high)
    at = min(at, 0.02 * left)  # of a large p the pole at 0 is near, or on the other side
    spread = math.sqrt((times * (weight / (1 - at * weight)) ** 2).sum())
    line = at + 1j * _POINTS / spread
    inside = np.exp(-(times[:, None] * np.log(1 - weight[:, None] * line)).sum(axis=0)) / -line
    return float(np.clip(np.trapezoid(inside.real, _POINTS) / spread / np.pi, 0.0, 1.0))
