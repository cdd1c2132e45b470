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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtri, stdtr, stdtrit

from fairgate.errors import StatisticsError
from fairgate.statistics.draws import FloatArray, Source, weight_pieces

SPARSE = 8
"""A group is sparse where fewer sets depart from its commonest difference: a draw misses all 8 once in 3000."""


Bound: TypeAlias = Callable[[float], FloatArray]
"""From a bound to p-values (groups,)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Per group, (groups,): mean, standard error, and how far the simultaneous limits reach below and above."""

    mean: FloatArray
    error: FloatArray
    n_sets: NDArray[np.int64]
    below: FloatArray
    above: FloatArray
    p_under: Bound
    """Evidence that the truth lies under a bound; at most alpha exactly where mean + above does"""
    p_over: Bound
    """Evidence that the truth lies over a bound; at most alpha exactly where mean - below does"""


def mean_limits(difference: FloatArray, *, alpha: float, draws: int, rng: Source) -> Limits:
    """Limits for differences (sets, groups), NaN where a set lacks the group, each group in two sets at least."""
    present = ~np.isnan(difference)
    n = present.sum(axis=0)
    mean, error = _mean_and_error(difference, present)
    departing, largest = departures(column[~np.isnan(column)] for column in difference.T)
    sparse = (departing < SPARSE) & (departing < n - 1)
    dense = np.flatnonzero(~sparse)
    part = dense.size / n.size
    above, below = np.zeros(n.size), np.zeros(n.size)
    if sparse.any():
        above[sparse] = below[sparse] = hidden(departing[sparse], n[sparse], alpha / n.size / 2) * largest
    highest = lowest = np.empty(0)
    if dense.size:
        highest, lowest = _extremes(difference[:, dense], mean[dense], error[dense], draws, rng)
        student = stdtrit(n[dense] - 1, 1 - alpha / 2)
        cut = draws - 1 - tail(alpha * part / 2, draws)
        above[dense] = np.maximum(lowest[cut], student) * error[dense]
        below[dense] = np.maximum(highest[cut], student) * error[dense]
    mute = is_mute(n, alpha) & ~((mean == 0) & (error == 0))
    below[mute] = above[mute] = np.inf

    def p_value(distance: FloatArray, extremes: FloatArray) -> FloatArray:
        """Two-sided adjusted p of a mean that stands this far on the wrong side of a bound."""
        p = np.ones(n.size)
        p[sparse] = _p_hidden(distance[sparse], departing[sparse], n[sparse], largest) * n.size * 2
        if dense.size:
            p[dense] = _p_extreme(distance[dense] / error[dense], extremes, n[dense], part)
        return np.where(mute, 1.0, np.clip(p, 2.0 ** (1 - n), 1.0))

    return Limits(
        *(mean, error, n, below, above),
        p_under=lambda bound: p_value(bound - mean, lowest),
        p_over=lambda bound: p_value(mean - bound, highest),
    )


def is_mute(n: NDArray[np.int64] | FloatArray, alpha: float) -> NDArray[np.bool_]:
    """Where the signs of n pairs, 2^(1-n) at their clearest, cannot show the level, whatever the sizes."""
    mute: NDArray[np.bool_] = 2.0 ** (1 - n) > alpha
    return mute


def hidden(departing: NDArray[np.int64], n: NDArray[np.int64], level: float | FloatArray) -> FloatArray:
    """The share of sets that may still depart beyond those seen: exact binomial limit at this one-sided level."""
    share: FloatArray = bdtri(departing, n, level) - departing / n
    return share


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


def departures(samples: Iterable[FloatArray]) -> tuple[NDArray[np.int64], float]:
    """Per group, the sets that depart from its commonest difference; over the family, the largest such departure."""
    departing, largest = [], 0.0
    for sample in samples:
        values, counts = np.unique(sample, return_counts=True)
        departing.append(sample.size - counts.max())
        largest = max(largest, float(np.abs(values[[0, -1]] - values[counts.argmax()]).max()))
    return np.array(departing), largest


def _extremes(
    difference: FloatArray, mean: FloatArray, error: FloatArray, draws: int, rng: Source
) -> tuple[FloatArray, FloatArray]:
    """The largest t, and the largest -t, over groups in each resample of the sets: both (draws,), ascending.

    In float64: multiplicities are exact in float32 too, but tied draws (right-or-wrong answers) would come apart, and
    the product is the smaller part of the time.
    """
    present = ~np.isnan(difference)
    complete = bool(present.all())
    centred = np.where(present, (difference - mean) / error, 0.0)
    columns = np.concatenate([centred, centred**2] + ([] if complete else [present]), axis=1)
    groups = mean.size
    highest, lowest = np.empty(draws), np.empty(draws)
    start = 0
    for weights in weight_pieces(len(difference), draws, rng):
        sums = weights @ columns
        n = np.float64(len(difference)) if complete else sums[:, 2 * groups :]
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = sums[:, :groups] / n
            t = drawn / np.sqrt(np.maximum(sums[:, groups : 2 * groups] / n - drawn**2, 0.0) / (n - 1))
        rows = slice(start, start := start + len(weights))
        highest[rows], lowest[rows] = extremes_of(t)
    return np.sort(highest), np.sort(lowest)


def extremes_of(t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The largest t and the largest -t of each draw (draws, groups).

    A draw without two sets of a group says nothing on it; counted as extreme, it can only widen the limits.
    """
    silent = np.isnan(t).any(axis=1)
    return np.where(silent, np.inf, t.max(axis=1)), np.where(silent, np.inf, -t.min(axis=1))


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
