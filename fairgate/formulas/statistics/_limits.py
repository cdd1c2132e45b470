"""Evidence on the groups' mean differences, from resampled sets; and limits that hold for all groups of a comparison.

Resample the sets, recompute each group's mean and standard error, and keep its t: `family` takes the largest over the
groups, in each direction by itself, so that limits follow skewed and unequal differences. The tail of t that a skewed
sample shows is too short by a part of the order skewness^2 / sets, where the few large values are on the other side:
t is divided by 1 + `SKEWED` skewness^2 / sets there. The critical value is at least Student's.

A bootstrap cannot see what no set shows. Where nearly all sets agree exactly, answers that are right or wrong get an
exact test, means over views the test of bounded numbers (both in `answers`); other values the exact binomial limit on
the share of sets that could still differ, times the largest difference in the family.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtri, ndtr, ndtri

from fairgate.formulas.statistics import answers
from fairgate.formulas.statistics.entries import Entries
from fairgate.formulas.statistics.family import Evidence, Side, critical, normal_score, student_t
from fairgate.formulas.statistics.images import ImageNumbers, listed
from fairgate.formulas.statistics.moments import SPARSE_ANSWERS, Moments, moments_of
from fairgate.formulas.statistics.resampling import FloatArray, Resamples, Source

SPARSE = 8
"""A group is sparse where fewer sets depart from its commonest difference: a draw misses all 8 once in 3000."""

SKEWED = 2.0
"""By simulation on lognormal noise (skewness 6): with 1, false alarms of a single group of 50 sets are 6.6%; with 2,
5.8% before the reserve."""

_SILENT = 0.005
"""A group that so many resamples lack is too small to judge: they could say anything of it."""

_ROUND_OFF, _ROUND_OFF_IN_BLOCKS = 1e-12, 1e-5
"""Of a mean square, the part that is rounding: of sums in double and in single precision."""


@dataclass(frozen=True, slots=True)
class SimultaneousLimits:
    """Per group, (groups,): mean, standard error, and how far the simultaneous limits reach below and above."""

    mean: FloatArray
    error: FloatArray
    n_sets: NDArray[np.int64]
    below: FloatArray
    above: FloatArray


def limits(evidence: Evidence, alpha: float) -> SimultaneousLimits:
    """Limits at 1 - alpha on each side, which hold on that side for all groups at once."""
    reach = []
    for side in (evidence.over, evidence.under):
        far = np.full(evidence.mean.size, np.inf)
        if evidence.judged.any():
            far = np.where(evidence.judged, side.reach(critical(evidence, side, alpha)), np.inf)
        reach.append(far)
    return SimultaneousLimits(evidence.mean, evidence.error, evidence.n_sets, below=reach[0], above=reach[1])


def mean_evidence(
    difference: ArrayLike | Entries | ImageNumbers,
    *,
    alpha: float,
    draws: int,
    rng: Source,
    farthest: float | None = None,
) -> Evidence:
    """Evidence from differences of sets in groups, or a table (sets, groups) of them with NaN where a set lacks the
    group; each group is in two sets at least.

    Of means over views, `farthest` is the largest size of a difference; they are no answers, whatever their values.
    Groups too small to show alpha are not judged.
    """
    known = _moments(difference, rng, farthest)
    n, mean, squares, turned = known.n, known.mean, known.squares, known.turned
    freedom = (n - 1).astype(np.float64)
    error = np.sqrt(squares / (n - 1) / n)
    departing, exact = known.departing, turned is not None or farthest is not None
    sparse = (departing < (SPARSE_ANSWERS if exact else SPARSE)) & (exact | (departing < n - 1))
    judged = ~is_mute(n, alpha) | ((mean == 0) & (error == 0))
    dense = np.flatnonzero(~sparse & judged)
    drawn, silent = np.empty((draws, 0)), np.empty(0)
    if dense.size:
        drawn, silent = _drawn(known, dense, error, draws, rng)
    few = silent <= _SILENT
    judged[dense] = few
    dense, drawn = dense[few], drawn[:, few]
    drawn = np.asfortranarray(normal_score(drawn, freedom[dense]))  # it is read by columns
    lacking, not_drawn = np.isnan(drawn), sparse & judged
    thin: _Answers | _Bounded | _Hidden
    if turned is not None:
        thin = _Answers(turned)
    elif farthest is not None:
        thin = _Bounded(known.samples(), farthest)
    else:
        thin = _Hidden(mean, departing, n, _largest(known) if not_drawn.any() else 0.0)
    rival = thin.rival if isinstance(thin, _Answers) and known.apart() else None
    skewness, third, second = np.zeros(n.size), known.cubes / n, squares / n
    skewness[dense] = third[dense] / second[dense] ** 1.5

    def side(direction: float) -> Side:
        """Over (1) or under (-1) a bound; skewness lengthens the tail of t on the side away from its large values."""
        stretch = 1 + SKEWED * np.maximum(-direction * skewness, 0.0) ** 2 / n
        scored = np.where(lacking, direction * np.inf, drawn) if lacking.any() else drawn

        def z(bound: float) -> FloatArray:
            score = thin.z(bound, direction, not_drawn)
            t = direction * (mean[dense] - bound) / error[dense] / stretch[dense]
            score[dense] = normal_score(t, freedom[dense])
            return score

        def reach(critical_z: float) -> FloatArray:
            far = thin.reach(critical_z, direction, not_drawn)
            far[dense] = student_t(critical_z, freedom[dense]) * stretch[dense] * error[dense]
            return far

        return Side(z, reach, scored, dense, exact=turned is not None, rival=rival, direction=direction)

    return Evidence(mean, error, n, judged, under=side(-1.0), over=side(1.0), least=signs(n))


@dataclass(frozen=True, slots=True)
class _Hidden:
    """Evidence of groups whose sets nearly all agree: sets that may still hide a departure of size `largest`."""

    mean: FloatArray
    departing: NDArray[np.int64]
    n: NDArray[np.int64]
    largest: float

    def z(self, bound: float, direction: float, groups: NDArray[np.bool_]) -> FloatArray:
        """Of these groups; minus infinity of the others."""
        distance = direction * (self.mean - bound)
        share = np.divide(distance, self.largest, out=np.full(self.n.size, np.inf), where=self.largest > 0)
        rate = np.minimum(self.departing / self.n + share, 1.0)
        p = np.where(groups & (distance > 0), bdtr(self.departing, self.n, rate), 1.0)
        return np.asarray(-ndtri(p))

    def reach(self, critical_z: float, _: float, groups: NDArray[np.bool_]) -> FloatArray:
        """Of these groups, in either direction."""
        far = hidden(self.departing, self.n, float(ndtr(-critical_z))) * self.largest
        return np.where(groups, far, 0.0)


@dataclass(frozen=True, slots=True)
class _Answers:
    """Evidence of groups of right-or-wrong answers, few of which turned: differences -1, 0 and 1."""

    turned: list[tuple[int, int, int]]
    """Per group, the sets that are lower, those that are higher, and all"""

    def z(self, bound: float, direction: float, groups: NDArray[np.bool_]) -> FloatArray:
        """Of these groups; minus infinity of the others."""
        p = np.ones(len(self.turned))
        test = answers.p_lost_more if direction == -1 else answers.p_lost_less
        for group in np.flatnonzero(groups):
            p[group] = test(*self.turned[group], -bound)
        return np.asarray(-ndtri(p))

    def reach(self, critical_z: float, direction: float, groups: NDArray[np.bool_]) -> FloatArray:
        """Of these groups, in this direction."""
        far = np.zeros(len(self.turned))
        level = float(ndtr(-math.ceil(critical_z * 50) / 50))  # rounded to where limits are found already
        for group in np.flatnonzero(groups):
            lost, won, n = self.turned[group]
            if direction == -1:  # the truth is at most the upper limit of won - lost
                far[group] = (lost - won) / n - answers.least_lost(lost, won, n, level)
            else:
                far[group] = (won - lost) / n - answers.least_lost(won, lost, n, level)
        return far

    def rival(self, bound: float, p: float) -> FloatArray:
        """The chance of such a p in each group, given how many of its answers turned; p itself but at a bound of 0."""
        if bound != 0:
            return np.full(len(self.turned), p)
        return np.array([answers.chance_given_turned(lost + won, n, p) for lost, won, n in self.turned])


@dataclass(frozen=True, slots=True)
class _Bounded:
    """Evidence of groups of numbers, few of which differ: differences of size `farthest` at most, (sets,) a group."""

    samples: list[FloatArray]
    farthest: float

    def z(self, bound: float, direction: float, groups: NDArray[np.bool_]) -> FloatArray:
        """Of these groups; minus infinity of the others."""
        p = np.ones(len(self.samples))
        for group in np.flatnonzero(groups):
            p[group] = answers.p_mean_above(direction * self.samples[group], direction * bound, -self.farthest)
        return np.asarray(-ndtri(p))

    def reach(self, critical_z: float, direction: float, groups: NDArray[np.bool_]) -> FloatArray:
        """Of these groups, in this direction."""
        far = np.zeros(len(self.samples))
        for group in np.flatnonzero(groups):
            towards = direction * self.samples[group]
            far[group] = towards.mean() - answers.least_mean(towards, float(ndtr(-critical_z)), -self.farthest)
        return far


def signs(n: NDArray[np.int64] | FloatArray) -> FloatArray:
    """The smallest p that the signs of n pairs can show, whatever the sizes: no p is smaller."""
    least: FloatArray = 2.0 ** np.maximum(1.0 - n, -1000.0)
    return least


def is_mute(n: NDArray[np.int64] | FloatArray, alpha: float) -> NDArray[np.bool_]:
    """Where the signs of n pairs, 2^(1-n) at their clearest, cannot show the level, whatever the sizes."""
    mute: NDArray[np.bool_] = signs(n) > alpha
    return mute


def hidden(departing: NDArray[np.int64], n: NDArray[np.int64], level: float | FloatArray) -> FloatArray:
    """The share of sets that may still depart beyond those seen: exact binomial limit at this one-sided level."""
    share: FloatArray = bdtri(departing, n, level) - departing / n
    return share


def _moments(difference: ArrayLike | Entries | ImageNumbers, rng: Source, farthest: float | None) -> Moments:
    if isinstance(difference, ImageNumbers):
        known = difference.moments(rng) if isinstance(rng, Resamples) and farthest is None else None
        if known is not None:
            return known
    return moments_of(listed(difference), answers=farthest is None)


def _largest(known: Moments) -> float:
    return departures(np.unique(sample, return_counts=True) for sample in known.samples())[1]


def departures(counted: Iterable[tuple[FloatArray, NDArray[np.int64]]]) -> tuple[NDArray[np.int64], float]:
    """Per group, of its different numbers in order and how many sets have each: the sets that depart from its commonest
    difference; over the family, the largest such departure."""
    departing, largest = [], 0.0
    for values, counts in counted:
        departing.append(counts.sum() - counts.max())
        largest = max(largest, float(np.abs(values[[0, -1]] - values[counts.argmax()]).max()))
    return np.array(departing), largest


def _drawn(
    known: Moments, some: NDArray[np.intp], error: FloatArray, draws: int, rng: Source
) -> tuple[FloatArray, FloatArray]:
    """The t of `some` groups in each resample of the sets (draws, groups), NaN where it has no two sets of the group;
    and the share of such resamples (groups,). Standard errors are of groups, (groups,).

    In float64: multiplicities are exact in float32 too, but tied draws (right-or-wrong answers) would come apart, and
    the product is the smaller part of the time. A spread that rounding alone makes is none.
    """
    sets = rng if isinstance(rng, Resamples) else Resamples(known.n_sets, draws, rng)
    complete = sets.unit is None and bool((known.n[some] == known.n_sets).all())
    of_units = known.by_unit(sets, 1)[:, some]
    centred = of_units / error[some]
    both = [centred, centred**2 if sets.unit is None else known.by_unit(sets, 2)[:, some] / error[some] ** 2]
    moved, squared = sets.drawn(both, draws)
    n = np.float64(known.n_sets) if complete else known.tally(sets, draws)[:, some]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved, squared = moved / n, squared / n
        variance = squared - moved**2
        variance[variance <= squared * (_ROUND_OFF if sets.unit is None else _ROUND_OFF_IN_BLOCKS)] = 0.0
        t = moved * sets.spread(of_units, known.squares[some]) / np.sqrt(variance / (n - 1))
    silent = ~np.isfinite(t)
    t[silent] = np.nan
    return t, silent.mean(axis=0)
