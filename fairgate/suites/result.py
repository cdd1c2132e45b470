"""An assessed check becomes a result: its verdict, its numbers, and what a report shows of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairgate.errors import FairgateError
from fairgate.metrics import NullSkew
from fairgate.probes import ProbeScores
from fairgate.records import CheckResult, GroupResult, Verdict, WorstSet, status_of
from fairgate.statistics import PairedResult
from fairgate.suites.assessed import Assessed
from fairgate.suites.catalog import METRICS
from fairgate.suites.cell import Index
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Suite
from fairgate.suites.wording import absolute_reason, no_baseline_reason, regression_reason, thin_reason
from fairgate.suites.worst import worst_sets

_THIN: Verdict = "inconclusive"


def result_of(
    one: Assessed, index: Index, suite: Suite, p_adjusted: float | None, null: NullSkew | None
) -> CheckResult:
    """Decide an assessed check; `p_adjusted` is its p after the correction over the suite."""
    check, paired, ties = one.planned.check, one.paired, one.ties
    verdict, reason = _decided(one, suite, p_adjusted)
    value, lo, hi, how, baseline = _shown(one)
    at = one.telling
    return CheckResult(
        id=check.id,
        subject=one.planned.subject,
        word=one.planned.word,
        against=one.planned.against,
        metric=_metric(one.planned),
        probe=check.probe,
        over=one.planned.over,
        rule=check.rule,
        better=METRICS[check.metric].better,
        value=value,
        status=status_of(value),
        lo=lo,
        hi=hi,
        interval=how,
        bound=one.planned.bound,
        baseline=baseline,
        delta=float(paired.delta[at]) if paired else None if baseline is None else value - baseline,
        delta_lo=None if paired is None else float(paired.lo[at]),
        delta_hi=None if paired is None else float(paired.hi[at]),
        p_adjusted=p_adjusted,
        null_median=None if null is None else null.median,
        null_p95=None if null is None else null.p95,
        tie_at_k=None if ties is None else ties.decided,
        tie_lo=None if ties is None else ties.lowest,
        tie_hi=None if ties is None else ties.highest,
        verdict=verdict,
        n_sets=one.cell.n_sets,
        sets_needed=paired.sets_to_settle if paired is not None and verdict == "inconclusive" else None,
        reason=reason,
        worst_group=one.worst_group,
        groups=_groups(one),
        worst_sets=_worst_sets(one, index) if verdict != "pass" else [],
    )


def undecided(planned: PlannedCheck, error: FairgateError) -> CheckResult:
    """A check that could not be computed: an error that says why, never a pass."""
    check = planned.check
    return CheckResult(
        id=check.id,
        subject=planned.subject,
        word=planned.word,
        against=planned.against,
        metric=_metric(planned),
        probe=check.probe,
        over=planned.over,
        rule=check.rule,
        better=METRICS[check.metric].better,
        value=None,
        status="absent",
        bound=planned.bound,
        verdict="error",
        n_sets=0,
        reason=str(error),
    )


def _metric(planned: PlannedCheck) -> str:
    """The metric with its k: `max_skew_at_100`."""
    check = planned.check
    return check.metric if check.k is None else check.metric.replace("_at_k", f"_at_{check.k}")


def _decided(one: Assessed, suite: Suite, p_adjusted: float | None) -> tuple[Verdict, str]:
    fewest = min([one.cell.n_sets, *one.now.group_sets.tolist()])
    if fewest < suite.groups.min_sets:
        return _THIN, thin_reason(one.cell, one.now, suite.groups.min_sets)
    if one.planned.check.no_worse_than is None:
        return _absolute(one)
    if one.paired is None or p_adjusted is None:
        return _THIN, no_baseline_reason(one.planned)
    return _regression(one, one.paired, suite, p_adjusted)


def _regression(one: Assessed, paired: PairedResult, suite: Suite, p_adjusted: float) -> tuple[Verdict, str]:
    """Clearly worse than the margin after correction: fail. Clearly not: pass. Otherwise the evidence is too thin."""
    verdict: Verdict = "inconclusive"
    if paired.overall == "pass":
        verdict = "pass"
    elif p_adjusted <= suite.decision.alpha:
        verdict = "fail"
    return verdict, regression_reason(one.planned, one.cell, one.now, one.before, paired, one.telling, verdict)


def _absolute(one: Assessed) -> tuple[Verdict, str]:
    """The estimate against the bound; with `decide: interval` the whole interval, which is thin where there is none."""
    check, limits = one.planned.check, one.limits
    bound = one.planned.bound

    def good(value: float) -> bool:
        return value >= bound if check.at_least is not None else value <= bound

    verdict: Verdict = "pass" if good(one.now.value) else "fail"
    if check.decide == "interval":
        if limits.lo is None or limits.hi is None:
            return _THIN, f"{absolute_reason(one.planned, one.now, bound, one.worst_group, verdict)}; {limits.how}"
        sides = {good(limits.lo), good(limits.hi)}
        verdict = "inconclusive" if len(sides) > 1 else "pass" if sides == {True} else "fail"
    return verdict, absolute_reason(one.planned, one.now, bound, one.worst_group, verdict)


def _shown(one: Assessed) -> tuple[float, float | None, float | None, str, float | None]:
    """Value, its interval and how that was found, and the baseline's value: of the telling group where groups were
    compared."""
    before, limits = one.before, one.limits
    if not one.by_group or limits.group_lo is None or limits.group_hi is None:
        return one.now.value, limits.lo, limits.hi, limits.how, None if before is None else before.value
    at = one.telling
    baseline = None if before is None else float(before.group_values[at])
    value, lo, hi = (float(numbers[at]) for numbers in (one.now.group_values, limits.group_lo, limits.group_hi))
    return value, lo, hi, limits.group_how, baseline


def _worst_sets(one: Assessed, index: Index) -> list[WorstSet]:
    """The sets to look at; none for a regression that could not be tested: there is nothing they would speak for."""
    if one.planned.check.no_worse_than is not None and one.paired is None:
        return []
    before = one.before if one.paired else None
    scores = _averaged(one.answers)
    return worst_sets(one.cell, index, scores, one.now, before, group=one.worst_group if one.by_group else None)


def _averaged(answers: Sequence[ProbeScores]) -> ProbeScores:
    """One number per image: of several words, the mean similarity."""
    return answers[0] if len(answers) == 1 else ProbeScores(np.mean([one.value for one in answers], axis=0))


def _groups(one: Assessed) -> list[GroupResult]:
    now, before, limits = one.now, one.before, one.limits
    paired = one.paired if one.by_group else None
    results = []
    for position, name in enumerate(now.groups):
        value = float(now.group_values[position])
        results.append(
            GroupResult(
                group=name,
                value=value,
                status=status_of(value),
                lo=None if limits.group_lo is None else float(limits.group_lo[position]),
                hi=None if limits.group_hi is None else float(limits.group_hi[position]),
                baseline=None if before is None else float(before.group_values[position]),
                delta=None if paired is None else float(paired.delta[position]),
                delta_lo=None if paired is None else float(paired.lo[position]),
                delta_hi=None if paired is None else float(paired.hi[position]),
                p_adjusted=None if paired is None else float(paired.p_adjusted[position]),
                verdict=None if paired is None else paired.outcome(position),
                n_images=int(now.group_images[position]),
                n_sets=int(now.group_sets[position]),
            )
        )
    return results
