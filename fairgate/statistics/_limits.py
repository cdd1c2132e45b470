"""Simultaneous limits of the groups' mean differences: a studentised max-T bootstrap, and a guard for sparse groups.

Resample the sets, recompute each group's mean and standard error, and keep the largest and the smallest t over the
groups: their tails, alpha/2 each, give limits that hold for all groups at once and follow skewed and unequal
differences. (One symmetric tail of |t| lets right-skewed differences raise false alarms at twice alpha.) The critical
value is at least Student's.

A bootstrap cannot see what no set shows. Where nearly all sets agree exactly, as with right-or-wrong answers, the
group gets the exact binomial limit on the share of sets that could still differ, times the largest difference in the
family; it takes its Bonferroni share of alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtri, stdtr, stdtrit

from fairgate.errors import StatisticsError
from fairgate.statistics.resampling import FloatArray, set_count_chunks

SPARSE = 8
"""A group is sparse where fewer sets depart from its commonest difference: a draw misses all 8 once in 3000."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Per group, (groups,): mean, standard error, and how far the simultaneous limits reach below and above."""

    mean: FloatArray
    error: FloatArray
    n_sets: NDArray[np.int64]
    below: FloatArray
    above: FloatArray
    p_worse: FloatArray
    """For "the truth lies under -margin"; at most alpha exactly where mean + above does"""
    p_not_worse: FloatArray
    """For "the truth lies over -margin"; at most alpha exactly where mean - below does"""


def mean_limits(difference: FloatArray, *, margin: float, alpha: float, draws: int, rng: np.random.Generator) -> Limits:
    """Limits for differences (sets, groups), NaN where a set lacks the group, each group in two sets at least."""
    present = ~np.isnan(difference)
    n = present.sum(axis=0)
    mean, error = _mean_and_error(difference, present)
    departing, largest = _departures(difference, n)
    sparse = (departing < SPARSE) & (departing < n - 1)
    dense = np.flatnonzero(~sparse)
    above, below, p_worse, p_not_worse = (np.zeros(n.size) for _ in range(4))
    if sparse.any():
        share = alpha / n.size / 2
        hidden = bdtri(departing[sparse], n[sparse], share) - departing[sparse] / n[sparse]
        above[sparse] = below[sparse] = hidden * largest
        for p, sign in ((p_worse, -1.0), (p_not_worse, 1.0)):
            p[sparse] = _p_hidden(sign * (mean + margin)[sparse], departing[sparse], n[sparse], largest) * n.size * 2
    if dense.size:
        part = dense.size / n.size
        highest, lowest = _extremes(difference[:, dense], mean[dense], error[dense], draws, rng)
        distance = (mean + margin)[dense] / error[dense]
        student = stdtrit(n[dense] - 1, 1 - alpha / 2)
        cut = draws - 1 - tail(alpha * part / 2, draws)
        above[dense] = np.maximum(lowest[cut], student) * error[dense]
        below[dense] = np.maximum(highest[cut], student) * error[dense]
        p_worse[dense] = _p_extreme(-distance, lowest, n[dense], part)
        p_not_worse[dense] = _p_extreme(distance, highest, n[dense], part)
    # The signs of n pairs cannot show a level under 2^(1-n), whatever their size; identical values need no showing.
    mute = (2.0 ** (1 - n) > alpha) & ~((mean == 0) & (error == 0))
    below[mute] = above[mute] = np.inf
    p_worse, p_not_worse = (np.where(mute, 1.0, np.clip(p, 2.0 ** (1 - n), 1.0)) for p in (p_worse, p_not_worse))
    return Limits(mean, error, n, below, above, p_worse, p_not_worse)


def tail(level: float, draws: int) -> int:
    """How many draws may lie beyond a limit at this level, so that (1 + beyond) / (draws + 1) is at most the level."""
    beyond = math.floor(level * (draws + 1) + 1e-9) - 1
    if beyond < 0:
        raise StatisticsError(
            f"{draws} draws cannot show a level of {level:g}.",
            where="draws",
            remedy=f"take at least {math.ceil(1 / level)} draws",
        )
    return beyond


def _mean_and_error(difference: FloatArray, present: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Mean and standard error per group over the sets that hold it; exactly the value and 0 where all sets agree."""
    n = present.sum(axis=0)
    highest, lowest = np.nanmax(difference, axis=0), np.nanmin(difference, axis=0)
    mean = np.clip(np.where(present, difference, 0.0).sum(axis=0) / n, lowest, highest)
    square = np.where(present, difference - mean, 0.0) ** 2
    return mean, np.sqrt(square.sum(axis=0) / (n - 1) / n)


def _departures(difference: FloatArray, n: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """Per group, the sets that depart from its commonest difference; over the family, the largest such departure."""
    departing, largest = np.zeros_like(n), 0.0
    for group, column in enumerate(difference.T):
        values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        departing[group] = n[group] - counts.max()
        largest = max(largest, float(np.abs(values - values[counts.argmax()]).max()))
    return departing, largest


def _extremes(
    difference: FloatArray, mean: FloatArray, error: FloatArray, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The largest t, and the largest -t, over groups in each resample of the sets: both (draws,), ascending."""
    present = ~np.isnan(difference)
    centred = np.where(present, (difference - mean) / error, 0.0)
    columns = np.concatenate([present, centred, centred**2], axis=1)
    highest, lowest = np.empty(draws), np.empty(draws)
    start = 0
    for counts in set_count_chunks(len(difference), draws, rng):
        n, total, squares = np.split(counts.astype(np.float64) @ columns, 3, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = total / n
            t = drawn / np.sqrt(np.maximum(squares / n - drawn**2, 0.0) / (n - 1))
        # A draw without two sets of a group says nothing on it; counted as extreme, it can only widen the limits.
        silent = np.isnan(t)
        rows = slice(start, start := start + len(counts))
        highest[rows] = np.where(silent, np.inf, t).max(axis=1)
        lowest[rows] = np.where(silent, np.inf, -t).max(axis=1)
    return np.sort(highest), np.sort(lowest)


def _p_extreme(t: FloatArray, extremes: FloatArray, n: NDArray[np.int64], part: float) -> FloatArray:
    """Two-sided adjusted p of t: from the bootstrap (at its part of alpha) or from Student, the larger."""
    beyond = extremes.size - np.searchsorted(extremes, t, side="left")
    p = np.maximum(2 * (1 + beyond) / (extremes.size + 1) / part, 2 * stdtr(n - 1, -t))
    return np.where(t > 0, p, 1.0)


def _p_hidden(distance: FloatArray, departing: NDArray[np.int64], n: NDArray[np.int64], largest: float) -> FloatArray:
    """One-sided p that sets which still hide a departure of size `largest` make up the distance."""
    rate = departing / n + np.divide(distance, largest, out=np.full(n.size, np.inf), where=largest > 0)
    p: FloatArray = np.where(distance > 0, bdtr(departing, n, np.clip(rate, 0.0, 1.0)), 1.0)
    return p
