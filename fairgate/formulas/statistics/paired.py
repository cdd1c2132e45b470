"""Did the candidate grow worse than the baseline by more than a margin? Paired by counterfactual set.

A group *fails* where it is clearly worse than the margin, *passes* where it clearly is not, and is *inconclusive*
otherwise. Of these two verdicts only one can be wrong, so that each is decided one-sided at alpha: failures among all
groups of all comparisons of a suite (`family`), passes among the groups of the comparison.

A group's *gap* is its distance from the other groups. Closing a gap is no regression, so that a group is harmed only if
its gap fell by more than the margin *and* it is now behind by more than the margin. Both are hypotheses of the family,
and a group fails by the larger of their p-values; it passes if either is refuted among both refutations of all groups.

Limits hold on each side with confidence 1 - alpha for all groups of the comparison at once; both together, with
1 - 2 alpha (where either direction harms, with 1 - alpha).

Means get the evidence of `_limits` (a studentised bootstrap of the sets; an exact test of rare answers), other
statistics that of their own bootstrap draws. n sets whose signs alone cannot reach alpha (2^(1-n) > alpha) decide
nothing, unless all their values are identical: at alpha 0.05, fewer than 6 sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from fairgate.formulas.statistics._limits import SimultaneousLimits, is_mute, limits, mean_evidence
from fairgate.formulas.statistics.entries import Entries
from fairgate.formulas.statistics.family import Evidence, Hypothesis, Side, adjusted
from fairgate.formulas.statistics.images import ImageNumbers, listed
from fairgate.formulas.statistics.paired_result import Design, Harm, Method, Outcome, PairedResult
from fairgate.formulas.statistics.resampling import FloatArray, Source
from fairgate.ground.errors import StatisticsError

_ODDS = 1.28
"""Normal quantile of 0.9: `sets_needed` settles the question with these odds, if the estimate is the truth."""

_HOPELESS = 1000
"""`sets_needed` beyond this many times the present sets is no advice."""

_NEXT_TO_NOTHING = 1e-300
"""The error of what never varies: any distance from a bound is far."""

_TRIED = 8
"""Margins that are tried, each a tenth wider, for one at which a run passes."""


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Evidence on changes where lower is worse, and what it is to decide: a part of a family. Of gaps, `gap` is the
    evidence on the candidate's own."""

    design: Design
    evidence: Evidence
    method: Method
    draws: int
    gap: Evidence | None = None

    @property
    def harms(self) -> list[Hypothesis]:
        """Every way in which a group can be worse; of gaps, everything that must hold for a group to be harmed."""
        evidence, margin = self.evidence, self.design.margin
        harms = [(evidence, evidence.under, -margin)]
        if self.gap is not None:
            return [*harms, (self.gap, self.gap.under, -margin)]
        return [*harms, (evidence, evidence.over, margin)] if self.design.harm == "either" else harms

    @property
    def goods(self) -> list[Hypothesis]:
        """Everything that must hold for a group to pass; of gaps, every way in which a group can pass."""
        evidence, margin = self.evidence, self.design.margin
        goods = [(evidence, evidence.over, -margin)]
        if self.gap is not None:
            return [*goods, (self.gap, self.gap.over, -margin)]
        return [*goods, (evidence, evidence.under, margin)] if self.design.harm == "either" else goods


def paired_test(
    candidate: ArrayLike,
    baseline: ArrayLike,
    *,
    margin: float,
    rng: Source,
    alpha: float = 0.05,
    draws: int = 4000,
    harm: Harm = "lower",
    gap: bool = False,
) -> PairedResult:
    """Test the mean difference of values (sets,) or (sets, groups), one family, at the margin.

    Row i of both is the same counterfactual set; NaN is a group that the set lacks, in both alike. For an
    intersectional regression pass deviations from the set's own mean, with `gap`: a group whose deviation fell is then
    harmed only if it is behind now. `harm` says which direction is worse.
    Identical values give exactly 0 within [0, 0], and pass. Raises StatisticsError for shapes or gaps that differ,
    infinite values, a group with fewer than two sets, and a margin or alpha out of range.
    """
    design = Design(margin, alpha, harm)
    return decided([compare_means(candidate, baseline, design=design, rng=rng, draws=draws, gap=gap)])[0]


def compare_means(
    candidate: ArrayLike | Entries | ImageNumbers,
    baseline: ArrayLike | Entries | ImageNumbers,
    *,
    design: Design,
    rng: Source,
    draws: int,
    gap: bool = False,
    farthest: float | None = None,
) -> PairedComparison:
    """The comparison of `paired_test`, before its family is decided, of tables or lists of numbers; of values that are
    means over views, `farthest` is the largest size of a difference."""
    difference: Entries | ImageNumbers
    if isinstance(candidate, ImageNumbers) and isinstance(baseline, ImageNumbers):
        difference = candidate.less(baseline, design.sign, differences)
    else:
        difference = differences(cast(Entries, candidate), cast(Entries, baseline), design.sign)
        farthest = farthest if difference.value.any() else None  # the same values give exactly 0
    find = partial(mean_evidence, alpha=design.alpha, draws=draws, rng=rng, farthest=farthest)
    evidence, own = find(difference), None
    if gap and design.harm != "either":
        own = find(replace(now := listed(candidate), value=design.sign * now.value))
    return PairedComparison(design, evidence, "max-t bootstrap", draws, own)


def paired_statistic_test(
    delta_hat: ArrayLike,
    delta_draws: ArrayLike,
    *,
    n_sets: int,
    margin: float,
    alpha: float = 0.05,
    harm: Harm = "lower",
) -> PairedResult:
    """Test statistics that are no means (fairness, MaxSkew) at the margin, from draws of the difference.

    delta_hat () or (groups,) is the difference in the data; delta_draws (draws,) or (draws, groups) the difference
    in resamples, where each draw takes the *same* sets for both runs. Limits are the wider of the percentile and the
    basic ("reflected") interval, at each end; p-values are the larger of the two. Several groups are one family.
    Nothing is smoothed: a median of few sets has few values, and its limits say so. Raises StatisticsError for values
    that are not numbers, shapes that do not fit, and a margin or alpha out of range.
    """
    design = Design(margin, alpha, harm)
    return decided([compare_draws(delta_hat, delta_draws, n_sets=n_sets, design=design)])[0]


def compare_draws(
    delta_hat: ArrayLike, delta_draws: ArrayLike, *, n_sets: int | NDArray[np.int64], design: Design
) -> PairedComparison:
    """The comparison of `paired_statistic_test`, before its family is decided; `n_sets` of all groups, or (groups,)."""
    delta = design.sign * np.atleast_1d(np.asarray(delta_hat, dtype=np.float64))
    table = design.sign * np.asarray(delta_draws, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.shape[1:] != delta.shape or not np.isfinite(delta).all() or not np.isfinite(table).all():
        raise StatisticsError(
            f"{int((~np.isfinite(table)).sum())} of {table.size} drawn differences, of shape {table.shape}, are not "
            f"finite or do not fit estimates of shape {delta.shape}.",
            where="delta_draws",
            remedy="give finite draws (draws, groups); for MinSkew choose a k that shows every group, or another zero",
        )
    error = table.std(axis=0, ddof=1)
    away = np.abs(table - delta).max(axis=0)
    scale = np.where(np.ptp(table, axis=0) > 0, error, np.where(away > 0, away, _NEXT_TO_NOTHING))
    score = (table - delta) / scale
    n = np.broadcast_to(n_sets, delta.shape)
    judged = ~(is_mute(n, design.alpha) & ((table != 0).any(axis=0) | (delta != 0)))

    def side(direction: float) -> Side:
        return Side(
            z=lambda bound: direction * (delta - bound) / scale,
            reach=lambda critical_z: critical_z * np.where(away > 0, scale, 0.0),
            drawn=_wider(direction * score),
            columns=np.arange(delta.size),
        )

    evidence = Evidence(delta, error, n, judged, under=side(-1.0), over=side(1.0), least=np.zeros(delta.size))
    return PairedComparison(design, evidence, "percentile and basic bootstrap", len(table))


def _wider(score: FloatArray) -> FloatArray:
    """Draws (draws, groups) whose upper tail is the longer one of the two, in the order of the given draws.

    The tail above is that of the basic interval, the one below that of the percentile interval.
    """
    order = np.argsort(score, axis=0, kind="stable")
    ascending = np.take_along_axis(score, order, axis=0)
    wider = np.empty_like(score)
    np.put_along_axis(wider, order, np.maximum(ascending, -ascending[::-1]), axis=0)
    return wider


def differences(candidate: ArrayLike | Entries, baseline: ArrayLike | Entries, sign: float) -> Entries:
    """Candidate minus baseline of the groups of sets, times the sign; after the checks that make the pairs pairs."""
    shape, other = (each.shape if isinstance(each, Entries) else np.shape(each) for each in (candidate, baseline))
    if shape != other or len(shape) not in (1, 2) or 0 in shape:
        raise StatisticsError(
            f"the candidate's values have shape {shape}, the baseline's {other}.",
            where="paired test",
            remedy="pass (sets,) or (sets, groups) over the sets that both runs scored, in the same order",
        )
    new, old = Entries.of(candidate), Entries.of(baseline)
    apart = np.empty(0, dtype=np.int64) if new.is_placed_as(old) else np.setxor1d(new.keys(), old.keys())  # sorts
    broken = [side.having(infinite).keys() for side in (new, old) if (infinite := np.isinf(side.value)).any()]
    if first := [int(each.min()) for each in (apart, *broken) if each.size]:
        raise StatisticsError(
            "the two runs do not lack the same groups in the same sets, or hold infinite values.",
            where=f"paired test: first in set {min(first) // new.shape[1]}",
            remedy="score both runs on the same images; NaN may stand only for a group that a set does not have",
        )
    few = np.flatnonzero(new.sets() < 2)
    if few.size:
        raise StatisticsError(
            f"fewer than two sets hold the groups {few.tolist()}.",
            where="paired test",
            remedy="leave out groups below the suite's min_sets, and report them as not tested",
        )
    return replace(new, value=sign * (new.value - old.value))


def decided(comparisons: Sequence[PairedComparison], *, steps: bool = True) -> list[PairedResult]:
    """Decide comparisons of one alpha as a family: a group fails by its p among the groups of all of them.

    A group passes by its p among the groups of its own comparison. `steps=False`: failures take a single step.
    """
    if not comparisons:
        return []
    p_worse = iter(adjusted([harm for comparison in comparisons for harm in comparison.harms], steps=steps))
    return [_decided(comparison, [next(p_worse) for _ in comparison.harms]) for comparison in comparisons]


def _decided(comparison: PairedComparison, p_harms: Sequence[FloatArray]) -> PairedResult:
    """Verdicts where lower is worse, then everything turned back to the metric's own direction."""
    design, evidence, margin = comparison.design, comparison.evidence, comparison.design.margin
    interval = limits(evidence, design.alpha_each_side)
    own = None if comparison.gap is None else limits(comparison.gap, design.alpha_each_side)
    p_worse: FloatArray = np.min(p_harms, axis=0) if own is None else np.max(p_harms, axis=0)
    p_goods = [adjusted([good])[0] for good in comparison.goods] if own is None else adjusted(comparison.goods)
    p_not_worse: FloatArray = np.max(p_goods, axis=0) if own is None else np.min(p_goods, axis=0)
    worse = p_worse <= design.alpha
    # The same values give 0 within [0, 0]: not worse than any margin, also not than a margin of 0.
    still = (interval.mean == 0) & (interval.below == 0) & (interval.above == 0)
    not_worse = ~worse & ((p_not_worse <= design.alpha) | still)
    alone = adjusted(comparison.harms)
    p_alone: FloatArray = np.min(alone, axis=0) if own is None else np.max(alone, axis=0)
    verdict = np.where(worse, "fail", np.where(not_worse, "pass", "inconclusive"))
    open_ = verdict == "inconclusive"
    overall: Outcome = "fail" if worse.any() else "pass" if not_worse.all() else "inconclusive"
    low, high = interval.mean - interval.below, interval.mean + interval.above
    # What a step settled lies beyond the margin (Hsu and Berger 1999), also where a single step would not say so.
    by_change = not_worse & (p_goods[0] <= design.alpha)
    low = np.where(by_change, np.maximum(low, np.minimum(-margin, interval.mean)), low)
    if design.harm == "either":
        high = np.where(not_worse, np.minimum(high, np.maximum(margin, interval.mean)), high)
        low = np.where(worse & (interval.mean > 0), np.maximum(low, margin), low)
    high = np.where(worse & (interval.mean < 0), np.minimum(high, -margin), high)
    clear = high < -margin
    clear |= (low > margin) & (design.harm == "either")
    if own is not None:
        clear &= own.mean + own.above < -margin
    lo, hi = (-high, -low) if design.harm == "higher" else (low, high)
    return PairedResult(
        delta=design.sign * interval.mean + 0.0,  # no negative zero
        lo=lo + 0.0,
        hi=hi + 0.0,
        p_adjusted=p_worse,
        p_not_worse=p_not_worse,
        verdict=verdict,
        overall=overall,
        n_sets=interval.n_sets,
        sets_needed=np.where(
            open_,
            np.where(clear, _in_family(p_worse, p_alone, interval, design), _sets_needed(interval, own, design)),
            np.nan,
        ),
        margin_decided=np.where(open_ & ~clear, _margin_decided(comparison, interval, own, open_), np.nan),
        clear_alone=clear & ~worse,
        tested=evidence.tested,
        gap=np.full(worse.size, np.nan) if own is None else design.sign * own.mean + 0.0,
        margin=margin,
        alpha=design.alpha,
        harm=design.harm,
        method=comparison.method,
        draws=comparison.draws,
    )


def _sets_needed(change: SimultaneousLimits, own: SimultaneousLimits | None, design: Design) -> FloatArray:
    """Per group, the number of sets that settles on which side of the margin the estimate lies; of gaps, those of the
    change and of the gap itself: both must be beyond the margin for a failure, and either within it for a pass."""
    needed = _settles(change, design)
    if own is None:
        return needed
    also, margin = _settles(own, design), design.margin
    fell, behind = change.mean < -margin, own.mean < -margin
    passes = np.minimum(np.where(fell, np.inf, needed), np.where(behind, np.inf, also))
    return np.where(fell & behind, np.maximum(needed, also), passes)


def _margin_decided(
    comparison: PairedComparison, change: SimultaneousLimits, own: SimultaneousLimits | None, open_: NDArray[np.bool_]
) -> float:
    """A margin at which the open groups pass on these very sets, by the same test: the first that does of their limit
    and a few wider ones; of gaps, either may pass. Infinite where none is known."""
    sides: list[FloatArray] = [limits.below - limits.mean for limits in (change, own) if limits is not None]
    if comparison.design.harm == "either":
        sides = [np.maximum(sides[0], change.above + change.mean)]
    margin = float(np.min(sides, axis=0)[open_].max(initial=0.0)) * (1 + 1e-9)  # past the limit, not on it
    for _ in range(_TRIED if comparison.design.margin < margin < np.inf else 0):
        wider = replace(comparison, design=replace(comparison.design, margin=margin))
        if (_p_not_worse(wider)[open_] <= comparison.design.alpha).all():
            return margin
        margin *= 1.1
    return np.inf


def _p_not_worse(comparison: PairedComparison) -> FloatArray:
    """Per group, the p by which it passes at the comparison's margin."""
    if comparison.gap is not None:
        best: FloatArray = np.min(adjusted(comparison.goods), axis=0)
        return best
    worst: FloatArray = np.max([adjusted([good])[0] for good in comparison.goods], axis=0)
    return worst


def _in_family(p_worse: FloatArray, p_alone: FloatArray, interval: SimultaneousLimits, design: Design) -> FloatArray:
    """Per group, the number of sets with which what fails alone fails in the whole family: the score of p alone grows
    with their root, and the family corrects it as now."""
    with np.errstate(divide="ignore"):
        wanted = _ODDS - ndtri(design.alpha * p_alone / p_worse)
        needed = np.ceil((wanted / ndtri(p_alone)) ** 2 * interval.n_sets)
    return np.where(needed <= _HOPELESS * interval.n_sets, needed, np.inf)


def _settles(limits: SimultaneousLimits, design: Design) -> FloatArray:
    distance, reach = _toward(limits.mean + design.margin, limits.below, limits.above)
    if design.harm == "either":  # the nearer margin is the last to be settled
        mirrored = _toward(design.margin - limits.mean, limits.above, limits.below)
        nearer = np.abs(mirrored[0]) < np.abs(distance)
        distance, reach = np.where(nearer, mirrored[0], distance), np.where(nearer, mirrored[1], reach)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.ceil(((reach + _ODDS * limits.error) / distance) ** 2 * limits.n_sets)
    return np.where(needed <= _HOPELESS * limits.n_sets, needed, np.inf)


def _toward(distance: FloatArray, below: FloatArray, above: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distance of the estimates above a margin, and the reach of the limit on that side."""
    return distance, np.where(distance < 0, above, below)
