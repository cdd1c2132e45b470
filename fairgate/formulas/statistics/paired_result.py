"""What a paired test decides: its design, and the result of every group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.statistics.resampling import FloatArray
from fairgate.ground.errors import StatisticsError

Harm: TypeAlias = Literal["lower", "higher", "either"]
Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]
Method: TypeAlias = Literal["max-t bootstrap", "max-t bootstrap within groups", "percentile and basic bootstrap"]


@dataclass(frozen=True, slots=True)
class PairedResult:
    """Candidate minus baseline per group, in the metric's own unit, with what may be concluded at the margin."""

    delta: FloatArray
    """(groups,)"""
    lo: FloatArray
    """(groups,), lower limits that hold at 1 - alpha for all groups at once"""
    hi: FloatArray
    """(groups,), upper limits, likewise; the two together hold at 1 - 2 alpha"""
    p_adjusted: FloatArray
    """(groups,), that the group is not worse than the margin, adjusted for the whole family (of a suite's comparisons);
    at most alpha exactly where the group fails"""
    p_not_worse: FloatArray
    """(groups,), that the group is worse than the margin, adjusted for the groups of this comparison; at most alpha
    where the group passes, unless identical"""
    verdict: NDArray[np.str_]
    """(groups,), "pass", "fail" or "inconclusive" """
    overall: Outcome
    """Of the family: *fail* where a group fails, else *inconclusive* where one is, else *pass*"""
    n_sets: NDArray[np.int64]
    """(groups,), sets that hold the group"""
    sets_needed: FloatArray
    """(groups,), sets with which an inconclusive group would settle, nine times in ten, were its estimate the truth.
    NaN where it is settled; infinite where the estimate sits so near the margin that no number of sets helps."""
    margin_decided: FloatArray
    """(groups,), of an inconclusive group, a margin at which the comparison passes on these very sets.
    NaN where it is settled, or would be alone; infinite where no such margin is known"""
    clear_alone: NDArray[np.bool_]
    """(groups,), whether a group that does not fail would, were this comparison the whole family"""
    tested: NDArray[np.str_]
    """(groups,), "drawn" where resamples decide, "exact" where counts of the few sets that changed do, "no" of a group
    that is too small to test"""
    gap: FloatArray
    """(groups,), the candidate's gap where gaps are compared, else NaN: a group is harmed only if it is behind"""
    margin: float
    alpha: float
    harm: Harm
    method: Method
    draws: int

    @property
    def p(self) -> float:
        """The smallest adjusted p-value of its groups."""
        return float(self.p_adjusted.min())

    @property
    def harmful(self) -> FloatArray:
        """(groups,), how harmful each difference is: the more, the worse. Of gaps, no more than the group is behind."""
        if self.harm == "either":
            return np.abs(self.delta)
        sign = 1.0 if self.harm == "higher" else -1.0
        return np.fmin(sign * self.delta, sign * self.gap)

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

    @property
    def margin_to_settle(self) -> float | None:
        """A margin at which all groups pass on these very sets; None where none is known, or a group seems to have
        fallen further than the margin."""
        open_ = self.verdict == "inconclusive"
        if self.overall != "inconclusive" or (open_ & (self.harmful > self.margin)).any():
            return None
        margin = float(self.margin_decided[open_].max())
        return margin if math.isfinite(margin) and margin > self.margin else None

    def within(self, span: float) -> PairedResult:
        """The same with no limit or margin farther from 0 than a difference can be, `span`; an infinite limit, which
        says that there is no evidence, stays.

        Where few of many differences are large, a resample without them has next to no spread, and Student's t no end.
        """
        lo, hi = (np.where(np.isfinite(end), np.clip(end, -span, span), end) for end in (self.lo, self.hi))
        margin = np.where(self.margin_decided >= span, np.inf, self.margin_decided)
        return replace(self, lo=lo, hi=hi, margin_decided=margin)

    def outcome(self, group: int) -> Outcome:
        """The verdict of one group."""
        outcome: Outcome = self.verdict[group].item()
        return outcome


BY_GROUP = (
    *("delta", "lo", "hi", "p_adjusted", "p_not_worse", "verdict", "n_sets"),
    *("sets_needed", "margin_decided", "clear_alone", "tested", "gap"),
)
"""Fields of `PairedResult` that have an entry for every group."""


@dataclass(frozen=True, slots=True)
class Design:
    """The margin of a test, its level, and the direction that harms."""

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
    def alpha_each_side(self) -> float:
        """Of limits: where either direction harms, a truth on the margin can be failed on both sides."""
        return self.alpha / 2 if self.harm == "either" else self.alpha

    @property
    def sign(self) -> float:
        """Turns differences so that lower is worse."""
        return -1.0 if self.harm == "higher" else 1.0


def not_judged(design: Design, delta: FloatArray, n_sets: NDArray[np.int64], *, draws: int) -> PairedResult:
    """Groups that are too small to compare: how far they moved (groups,), and no verdict."""
    ones, never = np.ones(delta.size), np.full(delta.size, np.inf)
    return PairedResult(
        delta=delta,
        lo=-never,
        hi=never,
        p_adjusted=ones,
        p_not_worse=ones,
        verdict=np.full(delta.size, "inconclusive"),
        overall="inconclusive",
        n_sets=n_sets,
        sets_needed=never,
        margin_decided=never,
        clear_alone=np.zeros(delta.size, dtype=bool),
        tested=np.full(delta.size, "no", dtype="<U5"),
        gap=np.full(delta.size, np.nan),
        margin=design.margin,
        alpha=design.alpha,
        harm=design.harm,
        method="max-t bootstrap",
        draws=draws,
    )
