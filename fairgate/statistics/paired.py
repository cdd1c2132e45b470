"""Did the candidate grow worse than the baseline by more than a margin? Paired by counterfactual set.

The verdict comes from simultaneous two-sided limits at confidence 1 - alpha: *fail* when some group is clearly worse
than the margin (its whole interval lies beyond), *pass* when every group clearly is not, else *inconclusive*.

Limits of means come from a studentised max-T bootstrap: resample sets, recompute each group's mean and standard
error, keep the largest |t| over the groups. It follows skewed and unequal groups, where t tests raise false alarms.
Two guards keep thin evidence from speaking: the critical value is at least Student's, and n sets, whose signs alone
cannot reach alpha (2^(1-n) > alpha), decide nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from fairgate.errors import StatisticsError
from fairgate.statistics.resampling import FloatArray, set_count_chunks

Harm: TypeAlias = Literal["lower", "higher"]
Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

_FLOOR = 0.25
"""Least standard error of a draw, as a share of the sample's. Where nearly all sets agree exactly, a draw may miss
the few that do not and have no spread at all; an infinite t there would make one changed answer undecidable. With
one changed set of n the limits then reach 5/n, close to the exact binomial limit 5.6/n."""

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
    """(groups,), that the group is worse than the margin; at most alpha exactly where the group passes"""
    verdicts: tuple[Outcome, ...]
    verdict: Outcome
    n_sets: NDArray[np.int64]
    """(groups,), sets that hold the group"""
    sets_needed: int | None
    """Sets with which an inconclusive verdict would settle, nine times in ten, were the estimates the truth. None
    where the verdict is settled, or an estimate sits so near the margin that no number of sets helps."""
    margin: float
    alpha: float
    harm: Harm
    method: Literal["max-t bootstrap", "percentile and basic bootstrap"]
    draws: int

    @property
    def p(self) -> float:
        """The family's smallest adjusted p-value, for a correction over many checks."""
        return float(self.p_adjusted.min())

    @property
    def worst(self) -> int:
        """The group with the most harmful difference."""
        return int(np.argmin(self.delta) if self.harm == "lower" else np.argmax(self.delta))


@dataclass(frozen=True, slots=True)
class _Design:
    """What the test is asked to decide."""

    margin: float
    alpha: float
    harm: Harm

    def __post_init__(self) -> None:
        fits = math.isfinite(self.margin) and self.margin >= 0 and 0 < self.alpha < 1
        if not fits or self.harm not in ("lower", "higher"):
            raise StatisticsError(
                f"margin {self.margin}, alpha {self.alpha} and harm '{self.harm}' are no design of a test.",
                where="paired test",
                remedy="give a margin of at least 0 in the metric's unit, alpha between 0 and 1, harm lower or higher",
            )

    @property
    def sign(self) -> float:
        """Turns differences so that lower is worse."""
        return 1.0 if self.harm == "lower" else -1.0


def paired_test(
    candidate: ArrayLike,
    baseline: ArrayLike,
    *,
    margin: float,
    rng: np.random.Generator,
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
    design = _Design(margin, alpha, harm)
    difference = design.sign * _differences(candidate, baseline)
    present = np.isfinite(difference)
    n_sets = present.sum(axis=0)
    delta, error = _mean_and_error(difference, present)
    extremes = _max_t(difference, present, delta, error, draws, rng)
    decidable = (2.0 ** (1 - n_sets) <= alpha) | ((difference == 0) | ~present).all(axis=0)
    critical = np.where(
        decidable,
        np.maximum(extremes[len(extremes) - 1 - _tail(alpha, draws)], stdtrit(n_sets - 1, 1 - alpha / 2)),
        np.inf,
    )
    reach = np.where(decidable & (error == 0), 0.0, critical * np.where(error > 0, error, 1.0))
    distance = delta + margin
    return _result(
        design,
        delta,
        reach=reach,
        error=error,
        p_adjusted=np.where(decidable, _p_values(-distance, error, extremes, n_sets), 1.0),
        p_not_worse=np.where(decidable, _p_values(distance, error, extremes, n_sets), 1.0),
        n_sets=n_sets,
        method="max-t bootstrap",
        draws=draws,
    )


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
    design = _Design(margin, alpha, harm)
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
    decidable = (2.0 ** (1 - n_sets) <= alpha) | ((table == 0).all(axis=0) & (delta == 0))
    cut = _tail(alpha / delta.size / 2, len(table))
    table = np.sort(table, axis=0)
    low, high = table[cut], table[len(table) - 1 - cut]
    # The wider of percentile (low, high) and basic (2 delta - high, 2 delta - low) reaches equally far both ways.
    reach = np.maximum(delta - low, high - delta)
    return _result(
        design,
        delta,
        reach=np.where(decidable, reach, np.inf),
        error=table.std(axis=0, ddof=1),
        p_adjusted=np.where(decidable, _p_of_draws(-table, -delta, margin), 1.0),
        p_not_worse=np.where(decidable, _p_of_draws(table, delta, -margin), 1.0),
        n_sets=np.full(delta.shape, n_sets),
        method="percentile and basic bootstrap",
        draws=len(table),
    )


def _differences(candidate: ArrayLike, baseline: ArrayLike) -> FloatArray:
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


def _mean_and_error(difference: FloatArray, present: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Mean and standard error per group over the sets that hold it; exactly 0 where the sets agree."""
    n = present.sum(axis=0)
    mean = np.where(present, difference, 0.0).sum(axis=0) / n
    square = np.where(present, difference - mean, 0.0) ** 2
    agree = np.nanmax(difference, axis=0) == np.nanmin(difference, axis=0)
    return mean, np.where(agree, 0.0, np.sqrt(square.sum(axis=0) / (n - 1) / n))


def _max_t(
    difference: FloatArray,
    present: NDArray[np.bool_],
    mean: FloatArray,
    error: FloatArray,
    draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """The largest |t| over groups in each resample of the sets, (draws,) ascending: the family's null distribution."""
    centred = np.where(present, difference - mean, 0.0)
    columns = np.concatenate([present, centred, centred**2], axis=1)
    floor = np.where(error > 0, _FLOOR * error, 1.0)
    parts = []
    for counts in set_count_chunks(len(difference), draws, rng):
        n, total, squares = np.split(counts.astype(np.float64) @ columns, 3, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = total / n
            spread = np.sqrt(np.maximum(squares / n - drawn**2, 0.0) / (n - 1))
            t = np.abs(drawn) / np.fmax(spread, floor)
        t[n == 0] = np.inf
        parts.append(np.where(error > 0, t, 0.0).max(axis=1))
    return np.sort(np.concatenate(parts))


def _tail(level: float, draws: int) -> int:
    """How many draws may lie beyond a limit at this level, so that (1 + beyond) / (draws + 1) is at most the level."""
    beyond = math.floor(level * (draws + 1) + 1e-9) - 1
    if beyond < 0:
        raise StatisticsError(
            f"{draws} draws cannot show a level of {level:g}.",
            where="draws",
            remedy=f"take at least {math.ceil(1 / level)} draws",
        )
    return beyond


def _p_values(distance: FloatArray, error: FloatArray, extremes: FloatArray, n_sets: NDArray[np.int64]) -> FloatArray:
    """Adjusted p per group that the truth lies `distance` away or more: of the bootstrap or Student, the larger."""
    t = np.where(error > 0, distance / np.where(error > 0, error, 1.0), np.where(distance > 0, np.inf, -np.inf))
    beyond = len(extremes) - np.searchsorted(extremes, t, side="left")
    p = np.maximum((1 + beyond) / (len(extremes) + 1), 2 * stdtr(n_sets - 1, -np.abs(t)))
    return np.where(t > 0, np.minimum(p, 1.0), 1.0)


def _p_of_draws(ordered: FloatArray, delta: FloatArray, bound: float) -> FloatArray:
    """Bonferroni-adjusted two-sided p per group that the truth is at or below `bound`."""
    beyond = np.maximum((ordered <= bound).sum(axis=0), (2 * delta - ordered <= bound).sum(axis=0))
    p: FloatArray = np.minimum(2 * delta.size * (1 + beyond) / (len(ordered) + 1), 1.0)
    return p


def _result(
    design: _Design,
    delta: FloatArray,
    *,
    reach: FloatArray,
    error: FloatArray,
    n_sets: NDArray[np.int64],
    p_adjusted: FloatArray,
    p_not_worse: FloatArray,
    method: Literal["max-t bootstrap", "percentile and basic bootstrap"],
    draws: int,
) -> PairedResult:
    """Verdicts from limits where lower is worse, then everything turned back to the metric's own direction."""
    worse, not_worse = delta + reach < -design.margin, delta - reach > -design.margin
    # The same values give 0 within [0, 0]: not worse than any margin, also not than a margin of 0.
    not_worse |= (delta == 0) & (reach == 0)
    verdicts: tuple[Outcome, ...] = tuple(
        "fail" if bad else "pass" if good else "inconclusive" for bad, good in zip(worse, not_worse, strict=True)
    )
    verdict: Outcome = "fail" if "fail" in verdicts else "inconclusive" if "inconclusive" in verdicts else "pass"
    delta_out = design.sign * delta + 0.0  # no negative zero
    return PairedResult(
        delta=delta_out,
        lo=delta_out - reach,
        hi=delta_out + reach,
        p_adjusted=p_adjusted,
        p_not_worse=p_not_worse,
        verdicts=verdicts,
        verdict=verdict,
        n_sets=n_sets,
        sets_needed=_sets_needed(delta + design.margin, reach, error, n_sets) if verdict == "inconclusive" else None,
        margin=design.margin,
        alpha=design.alpha,
        harm=design.harm,
        method=method,
        draws=draws,
    )


def _sets_needed(distance: FloatArray, reach: FloatArray, error: FloatArray, n_sets: NDArray[np.int64]) -> int | None:
    """Sets that would settle an inconclusive family: the first failing group settles it, or else all must pass."""
    open_ = np.abs(distance) <= reach
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = ((reach + _ODDS * error) / distance) ** 2
    needed = np.ceil(factor * n_sets)
    failing = open_ & (distance < 0)
    answer = needed[failing].min() if failing.any() else needed[open_].max()
    return int(answer) if answer <= _HOPELESS * n_sets.max() else None
