"""Did the candidate grow worse than the baseline by more than a margin? Paired by counterfactual set.

The verdict comes from simultaneous two-sided limits at confidence 1 - alpha: *fail* when some group is clearly worse
than the margin (its whole interval lies beyond), *pass* when every group clearly is not, else *inconclusive*.

Means get the limits of `_limits` (a studentised max-T bootstrap of the sets), other statistics those of their own
bootstrap draws. Thin evidence does not speak: n sets, whose signs alone cannot reach alpha (2^(1-n) > alpha), decide
nothing unless all their values are identical. At alpha 0.05 that is fewer than 6 sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.errors import StatisticsError
from fairgate.statistics._limits import Limits, is_mute, mean_limits, tail
from fairgate.statistics.draws import FloatArray, Source

Harm: TypeAlias = Literal["lower", "higher", "either"]
Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]
Method: TypeAlias = Literal["max-t bootstrap", "percentile and basic bootstrap"]

_ODDS = 1.28
"""Normal quantile of 0.9: `sets_needed` settles the question with these odds, if the estimate is the truth."""

_HOPELESS = 1000
"""`sets_needed` beyond this many times the present sets is no advice."""


@dataclass(frozen=True, slots=True)
class PairedResult:
    """Candidate minus baseline per group, in the metric's own unit, with what may be concluded at the margin."""

    delta: FloatArray
    """(groups,)"""
    lo: FloatArray
    """(groups,), simultaneous lower limits"""
    hi: FloatArray
    """(groups,), simultaneous upper limits"""
    p_adjusted: FloatArray
    """(groups,), that the group is not worse than the margin; at most alpha exactly where the group fails"""
    p_not_worse: FloatArray
    """(groups,), that the group is worse than the margin; at most alpha where the group passes, unless identical"""
    verdict: NDArray[np.str_]
    """(groups,), "pass", "fail" or "inconclusive" """
    overall: Outcome
    """Of the family: *fail* where a group fails, else *inconclusive* where one is, else *pass*"""
    n_sets: NDArray[np.int64]
    """(groups,), sets that hold the group"""
    sets_needed: FloatArray
    """(groups,), sets with which an inconclusive group would settle, nine times in ten, were its estimate the truth.
    NaN where it is settled; infinite where the estimate sits so near the margin that no number of sets helps."""
    margin: float
    alpha: float
    harm: Harm
    method: Method
    draws: int

    @property
    def p(self) -> float:
        """The family's smallest adjusted p-value, for a correction over many checks."""
        return float(self.p_adjusted.min())

    @property
    def harmful(self) -> FloatArray:
        """(groups,), how harmful each difference is: the more, the worse."""
        return {"lower": -self.delta, "higher": self.delta, "either": np.abs(self.delta)}[self.harm]

    @property
    def worst(self) -> int:
        """The group with the most harmful difference."""
        return int(np.argmax(self.harmful))

    @property
    def sets_to_settle(self) -> int | None:
        """Sets that would settle an inconclusive family: until its first group fails, or else until all have passed.

        None where the verdict is settled, or where no number of sets helps.
        """
        if self.overall != "inconclusive":
            return None
        open_, falling = self.verdict == "inconclusive", self.harmful > self.margin
        needed = self.sets_needed
        answer = needed[open_ & falling].min() if (open_ & falling).any() else needed[open_].max()
        return int(answer) if np.isfinite(answer) else None

    def outcome(self, group: int) -> Outcome:
        """The verdict of one group."""
        outcome: Outcome = self.verdict[group].item()
        return outcome


@dataclass(frozen=True, slots=True)
class Design:
    """What the test is asked to decide."""

    margin: float
    alpha: float
    harm: Harm

    def __post_init__(self) -> None:
        fits = math.isfinite(self.margin) and self.margin >= 0 and 0 < self.alpha < 1
        if not fits or self.harm not in ("lower", "higher", "either"):
            raise StatisticsError(
                f"margin {self.margin}, alpha {self.alpha} and harm '{self.harm}' are no design of a test.",
                where="paired test",
                remedy="give a margin of at least 0 in the metric's unit, alpha between 0 and 1, harm lower, higher "
                "or either",
            )

    @property
    def sign(self) -> float:
        """Turns differences so that lower is worse."""
        return -1.0 if self.harm == "higher" else 1.0


def paired_test(
    candidate: ArrayLike,
    baseline: ArrayLike,
    *,
    margin: float,
    rng: Source,
    alpha: float = 0.05,
    draws: int = 4000,
    harm: Harm = "lower",
) -> PairedResult:
    """Test the mean difference of values (sets,) or (sets, groups), one family, at the margin.

    Row i of both is the same counterfactual set; NaN is a group that the set lacks, in both alike. For an
    intersectional regression pass deviations from the set's own mean. `harm` says which direction is worse.
    Identical values give exactly 0 within [0, 0], and pass. Raises StatisticsError for shapes or gaps that differ,
    infinite values, a group with fewer than two sets, and a margin or alpha out of range.
    """
    design = Design(margin, alpha, harm)
    difference = design.sign * differences(candidate, baseline)
    limits = mean_limits(difference, alpha=alpha, draws=draws, rng=rng)
    return decided(design, limits, "max-t bootstrap", draws)


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
    basic ("reflected") interval, at each end; p-values are the larger of the two. A family of several is corrected by
    Bonferroni. Nothing is smoothed: a median of few sets has few values, and its limits say so. Raises
    StatisticsError for values that are not numbers, shapes that do not fit, and a margin or alpha out of range.
    """
    design = Design(margin, alpha, harm)
    delta, table, reach = reach_of_draws(design, delta_hat, delta_draws)
    n = np.full(delta.shape, n_sets)
    mute = is_mute(n, alpha) & ((table != 0).any(axis=0) | (delta != 0))
    limits = Limits(
        mean=delta,
        error=table.std(axis=0, ddof=1),
        n_sets=n,
        below=np.where(mute, np.inf, reach),
        above=np.where(mute, np.inf, reach),
        p_under=lambda bound: np.where(mute, 1.0, _p_of_draws(-table, -delta, -bound)),
        p_over=lambda bound: np.where(mute, 1.0, _p_of_draws(table, delta, bound)),
    )
    return decided(design, limits, "percentile and basic bootstrap", len(table))


def reach_of_draws(
    design: Design, delta_hat: ArrayLike, delta_draws: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimates (groups,) where lower is worse, their draws (draws, groups) ascending, and how far limits reach."""
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
    cut = tail(design.alpha / delta.size / 2, len(table))
    table = np.sort(table, axis=0)
    # The wider of percentile (low, high) and basic (2 delta - high, 2 delta - low) reaches equally far both ways.
    reach = np.maximum(delta - table[cut], table[len(table) - 1 - cut] - delta)
    return delta, table, reach


def differences(candidate: ArrayLike, baseline: ArrayLike) -> FloatArray:
    """Candidate minus baseline, (sets, groups), after the checks that make the pairs pairs."""
    new, old = np.asarray(candidate, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if new.shape != old.shape or new.ndim not in (1, 2) or new.size == 0:
        raise StatisticsError(
            f"the candidate's values have shape {new.shape}, the baseline's {old.shape}.",
            where="paired test",
            remedy="pass (sets,) or (sets, groups) over the sets that both runs scored, in the same order",
        )
    gaps = np.isnan(new)
    if (gaps != np.isnan(old)).any() or np.isinf(new).any() or np.isinf(old).any():
        first = int(np.argwhere((gaps != np.isnan(old)) | np.isinf(new) | np.isinf(old))[0][0])
        raise StatisticsError(
            "the two runs do not lack the same groups in the same sets, or hold infinite values.",
            where=f"paired test: first in set {first}",
            remedy="score both runs on the same images; NaN may stand only for a group that a set does not have",
        )
    difference: FloatArray = (new - old).reshape(len(new), -1)
    few = np.flatnonzero((~np.isnan(difference)).sum(axis=0) < 2)
    if few.size:
        raise StatisticsError(
            f"fewer than two sets hold the groups {few.tolist()}.",
            where="paired test",
            remedy="leave out groups below the suite's min_sets, and report them as not tested",
        )
    return difference


def _p_of_draws(ordered: FloatArray, delta: FloatArray, bound: float) -> FloatArray:
    """Bonferroni-adjusted two-sided p per group that the truth is at or below `bound`."""
    beyond = np.maximum((ordered <= bound).sum(axis=0), (2 * delta - ordered <= bound).sum(axis=0))
    p: FloatArray = np.minimum(2 * delta.size * (1 + beyond) / (len(ordered) + 1), 1.0)
    return p


def decided(design: Design, limits: Limits, method: Method, draws: int) -> PairedResult:
    """Verdicts from limits where lower is worse, then everything turned back to the metric's own direction."""
    margin = design.margin
    worse, p_worse = limits.mean + limits.above < -margin, limits.p_under(-margin)
    not_worse, p_not_worse = limits.mean - limits.below > -margin, limits.p_over(-margin)
    if design.harm == "either":
        worse, p_worse = worse | (limits.mean - limits.below > margin), np.minimum(p_worse, limits.p_over(margin))
        not_worse &= limits.mean + limits.above < margin
        p_not_worse = np.maximum(p_not_worse, limits.p_under(margin))
    # The same values give 0 within [0, 0]: not worse than any margin, also not than a margin of 0.
    not_worse |= (limits.mean == 0) & (limits.below == 0) & (limits.above == 0)
    verdict = np.where(worse, "fail", np.where(not_worse, "pass", "inconclusive"))
    overall: Outcome = "fail" if worse.any() else "pass" if not_worse.all() else "inconclusive"
    below, above = (limits.above, limits.below) if design.harm == "higher" else (limits.below, limits.above)
    delta = design.sign * limits.mean + 0.0  # no negative zero
    return PairedResult(
        delta=delta,
        lo=delta - below,
        hi=delta + above,
        p_adjusted=p_worse,
        p_not_worse=p_not_worse,
        verdict=verdict,
        overall=overall,
        n_sets=limits.n_sets,
        sets_needed=np.where(verdict == "inconclusive", _sets_needed(limits, design), np.nan),
        margin=design.margin,
        alpha=design.alpha,
        harm=design.harm,
        method=method,
        draws=draws,
    )


def _sets_needed(limits: Limits, design: Design) -> FloatArray:
    """Per group, the sets that settle on which side of the margin the estimate stands."""
    distance, reach = _toward(limits.mean + design.margin, limits.below, limits.above)
    if design.harm == "either":  # the nearer margin is the last to be settled
        mirrored = _toward(design.margin - limits.mean, limits.above, limits.below)
        nearer = np.abs(mirrored[0]) < np.abs(distance)
        distance, reach = np.where(nearer, mirrored[0], distance), np.where(nearer, mirrored[1], reach)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.ceil(((reach + _ODDS * limits.error) / distance) ** 2 * limits.n_sets)
    return np.where(needed <= _HOPELESS * limits.n_sets, needed, np.inf)


def _toward(distance: FloatArray, below: FloatArray, above: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far the estimates stand over a margin, and the limit that looks at it."""
    return distance, np.where(distance < 0, above, below)
