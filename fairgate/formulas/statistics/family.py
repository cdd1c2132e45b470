"""One step-down max-T over all comparisons of a suite: each group of each comparison is a hypothesis.

Every hypothesis has a score z, on the scale of a standard normal, and those that can be resampled have the z of each
resample about its own estimate. Romano and Wolf (2005): order the hypotheses by z; the p of one is the chance that the
largest resampled z, among it and all that come after it, is as large; adjusted p-values may not fall along the way.
Resamples of the same sets are shared, so that comparisons which say the same thing cost next to nothing; comparisons
on different sets are resampled independently, as they are independent. Where two tables of resamples share sets but
not draws (checks on one subject, and on all), the family is at worst corrected as if they were independent, which is
within a fortieth of Bonferroni's correction under any dependence.

Hypotheses without resamples (answers with an exact test, values that hardly vary) add their own p, as in Holm's method.
At a margin of 0, groups of answers that share no image add less: the chance of a p as small, given how many of their
answers turned. A group of which too few turned to reach that p adds nothing (Tarone 1990; Westfall and Wolfinger 1997).

A tenth of alpha is held in reserve for what a bootstrap does not see: `RESERVE`. Without it, plain normal noise gave
4.5% to 5.3% false alarms at an alpha of 5%, by simulation; docs/evidence/calibration.md has the figures with it. Exact
tests need none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fairgate.formulas.statistics.resampling import FloatArray
from fairgate.ground.errors import StatisticsError

RESERVE = 0.1

MOST_CERTAIN = 37.0
"""The largest z whose p-value is a number above 0."""

Bound: TypeAlias = Callable[[float], FloatArray]
"""From a bound, or a critical z, to values (groups,)."""


@dataclass(frozen=True, slots=True)
class Side:
    """Evidence that truths lie on one side of a bound, for the groups (groups,) of one comparison.

    `z(bound)` is the score of each group, `reach(z)` how far from its estimate a bound must lie to have that score,
    `drawn` (draws, resampled) the scores of the resamples about the estimate, times `direction`, for the groups
    `columns` (resampled,).
    """

    z: Bound
    reach: Bound
    drawn: FloatArray
    columns: NDArray[np.intp]
    exact: bool = False
    """Whether groups without resamples have an exact test, which needs no reserve"""
    rival: Callable[[float, float], FloatArray] | None = None
    """From a bound and a p, the chance (groups,) that a group reaches such a p, given how many of its answers turned;
    for groups that are independent. None: that p"""
    direction: float = 1.0
    """1 or -1: both sides share a table of resamples, which is large"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one comparison, (groups,): the estimates, and the evidence that the truth is under or over a bound.

    `judged` groups are in the family; the others are too small to show alpha whatever their values.
    """

    mean: FloatArray
    error: FloatArray
    n_sets: NDArray[np.int64]
    judged: NDArray[np.bool_]
    under: Side
    over: Side
    least: FloatArray
    """The smallest p that so many sets can show, adjusted or not"""

    @property
    def tested(self) -> NDArray[np.str_]:
        """(groups,), "drawn" if resamples decide a group, "exact" if counts of the few sets that changed do, "no" if it
        is not judged."""
        drawn = np.isin(np.arange(self.mean.size), self.under.columns)
        return np.where(self.judged, np.where(drawn, "drawn", "exact"), "no")


Hypothesis: TypeAlias = tuple[Evidence, Side, float]
"""A comparison, one side of it, and the bound that truths may lie on that side of."""


def adjusted(hypotheses: Sequence[Hypothesis], *, steps: bool = True) -> list[FloatArray]:
    """Adjusted p-values (groups,) for each comparison, a side of it and a bound; 1 for groups that are not judged.

    `steps=False` compares every score with the whole family (a single step), which is never sharper.
    """
    z = np.clip(np.concatenate([side.z(bound) for _, side, bound in hypotheses]), -MOST_CERTAIN, MOST_CERTAIN)
    resampled = [column for evidence, side, _ in hypotheses for column in _columns(side, evidence.mean.size)]
    weight = np.concatenate([_weights(side, evidence.mean.size) for evidence, side, _ in hypotheses])
    judged = np.flatnonzero(np.concatenate([evidence.judged for evidence, _, _ in hypotheses]))
    order = judged[np.argsort(z[judged], kind="stable")]  # the weakest evidence first
    starts = np.cumsum([0] + [evidence.mean.size for evidence, _, _ in hypotheses])
    ascending = z[order]
    largest = None if steps else _joined([resampled[at] for at in order])
    p = np.ones(z.size)
    for at in order:
        if steps:
            largest = _joined([resampled[at]], largest)
        rivals = order[: np.searchsorted(ascending, z[at], side="right")] if steps else order
        p[at] = _p(z[at], largest, float(weight[rivals].sum()), resampled=not weight[at])
        part = int(np.searchsorted(starts, at, side="right")) - 1
        _, side, bound = hypotheses[part]
        if side.rival is not None and weight[at]:
            alone, groups = float(ndtr(-z[at])), rivals[(rivals != at) & (weight[rivals] > 0)] - starts[part]
            groups = groups[(groups >= 0) & (groups < starts[part + 1] - starts[part])]
            p[at] += (side.rival(bound, alone)[groups] - alone).sum()
    for start, end in pairwise([*np.flatnonzero(np.diff(ascending, prepend=-np.inf)), order.size]):
        p[order[start:end]] = p[order[start:end]].max()  # ties
    p[order] = np.maximum.accumulate(p[order][::-1])[::-1]
    least = np.concatenate([evidence.least for evidence, _, _ in hypotheses])
    return np.split(np.clip(p, least, 1.0), starts[1:-1])


def critical(evidence: Evidence, side: Side, alpha: float) -> float:
    """The score whose p, in a single step over this one comparison, is alpha: of limits that hold for all its groups.

    Raises StatisticsError where there are too few draws to show alpha.
    """
    level = alpha * (1 - RESERVE)
    largest = _joined(
        [column for column, judged in zip(_columns(side, evidence.mean.size), evidence.judged, strict=True) if judged]
    )
    weight = float(_weights(side, evidence.mean.size)[evidence.judged].sum())
    if largest is None:
        return float(-ndtri(alpha / max(weight, 1)))
    beyond = np.arange(tail(level, largest.size) + 1)
    passed = np.sort(largest)[::-1][beyond]  # a score just above this has so many draws beyond it
    if weight:  # what the draws beyond leave of alpha goes to the groups without resamples
        left = alpha - (1 + beyond) / (largest.size + 1) / (1 - RESERVE)
        passed = np.maximum(passed, np.where(left > 0, -ndtri(np.maximum(left, 1e-300) / weight), np.inf))
    return float(max(passed.min(), -ndtri(level)))


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


def normal_score(t: FloatArray, freedom: FloatArray) -> FloatArray:
    """Student's t on the scale of a normal z (Wallace 1959): one scale for groups of all sizes."""
    score: FloatArray = t / np.sqrt(freedom)
    np.multiply(score, score, out=score)  # in place: tables of resamples are large
    np.sqrt(np.log1p(score, out=score), out=score)
    score *= np.sqrt(freedom) * (8 * freedom + 1) / (8 * freedom + 3)
    return np.copysign(score, t, out=score)


def student_t(z: float, freedom: FloatArray) -> FloatArray:
    """The inverse of `normal_score`."""
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    t: FloatArray = np.sign(z) * np.sqrt(freedom * np.expm1((z / scale) ** 2 / freedom))
    return t


def _columns(side: Side, groups: int) -> list[FloatArray | None]:
    """The resampled scores of every group, None where it has none."""
    columns: list[FloatArray | None] = [None] * groups
    for column, group in enumerate(side.columns):
        own = side.drawn[:, column]
        columns[group] = own if side.direction == 1 else -own
    return columns


def _weights(side: Side, groups: int) -> FloatArray:
    """What a group without resamples adds to the p of a family, in units of its own p; 0 where it has resamples."""
    weights = np.full(groups, 1.0 if side.exact else 1 / (1 - RESERVE))
    weights[side.columns] = 0.0
    return weights


def _joined(columns: Sequence[FloatArray | None], largest: FloatArray | None = None) -> FloatArray | None:
    """The largest score of each resample over these columns and those before; None where no group has resamples."""
    for column in columns:
        if column is not None:
            largest = column if largest is None else np.maximum(largest, column)
    return largest


def _p(z: float, largest: FloatArray | None, weight: float, *, resampled: bool) -> float:
    """The chance of a score as large among resampled groups, and Bonferroni's share of those without resamples."""
    alone = float(ndtr(-z))
    joint = 0.0 if largest is None else (1 + np.count_nonzero(largest >= z)) / (largest.size + 1) / (1 - RESERVE)
    return float(max(joint + weight * alone, alone / (1 - RESERVE) if resampled else 0.0))
