"""All checks of a suite, decided together: one correction over the whole file, whatever part of it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.metrics import NullSkew
from fairgate.probes import ProbeScores, Rows
from fairgate.randomness import stream
from fairgate.records import CheckResult, GroupResult, Verdict, WorstSet, status_of
from fairgate.statistics import PairedResult, bonferroni, holm, paired_statistic_test, paired_test
from fairgate.suites.catalog import METRICS
from fairgate.suites.cell import Cell, Floats
from fairgate.suites.measure import Measure, measure, resample
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Suite
from fairgate.suites.wording import absolute_reason, no_baseline_reason, regression_reason, thin_reason
from fairgate.suites.worst import worst_sets

Null = Mapping[str, NullSkew]

_THIN: Verdict = "inconclusive"


class Index(Rows, Protocol):
    """The dataset's columns, and how it codes groups; `fairgate.data.Dataset.index` is one."""

    def codes(self, attributes: str | Sequence[str]) -> tuple[NDArray[np.int64], list[str]]: ...


@dataclass(frozen=True, slots=True)
class _Assessed:
    """A check measured and resampled, before the family is decided.

    `by_group`: the paired test compared group by group; the check's own numbers are then those of the group that
    settled it, so that baseline, value and change belong together.
    """

    planned: PlannedCheck
    cell: Cell
    now: Measure
    before: Measure | None
    lo: float
    hi: float
    group_lo: Floats | None
    group_hi: Floats | None
    paired: PairedResult | None

    @property
    def by_group(self) -> bool:
        """Whether `paired` holds a difference for every group."""
        return self.paired is not None and bool(self.now.groups) and len(self.paired.delta) == len(self.now.groups)

    @property
    def telling(self) -> int:
        """Position among the compared differences of the one that settled the test."""
        return 0 if self.paired is None else _telling(self.paired)

    @property
    def worst_group(self) -> str | None:
        """The group that the check names: the one that settled a comparison, or the one that stands worst."""
        if not self.now.groups:
            return None
        if self.by_group:
            return self.now.groups[self.telling]
        higher = METRICS[self.planned.check.metric].better == "higher"
        return self.now.groups[int(np.argmin(self.now.group_values if higher else -self.now.group_values))]


def decide(
    planned: Sequence[PlannedCheck],
    index: Index,
    suite: Suite,
    candidate: Mapping[str, ProbeScores],
    baseline: Mapping[str, ProbeScores] | None,
    null: Null,
) -> list[CheckResult]:
    """Measure, compare and decide every planned check; `null` holds the fair ranker's skew by check item."""
    assessed = [_assess(one, index, suite, candidate, baseline) for one in planned]
    compared = [one for one in assessed if one.paired is not None]
    raw = np.array([one.paired.p for one in compared if one.paired is not None])
    corrected = (holm if suite.decision.correction == "holm" else bonferroni)(raw) if len(raw) else raw
    p_of = {one.planned.item: float(p) for one, p in zip(compared, corrected, strict=True)}
    return [
        _result(one, index, suite, candidate, p_of.get(one.planned.item), null.get(one.planned.item))
        for one in assessed
    ]


def _telling(paired: PairedResult) -> int:
    """The most harmful difference among those with the verdict of the whole test: a group that clearly fell is named
    before a smaller one that only seems to have fallen further."""
    return int(np.argmax(np.where(paired.verdict == paired.overall, paired.harmful, -np.inf)))


def cell_of(index: Index, planned: PlannedCheck) -> Cell:
    """The images that a check is about."""
    everything = np.arange(len(index.subject), dtype=np.int64)
    rows = everything if planned.subject is None else np.flatnonzero(index.subject == planned.subject)
    set_ids, set_code = np.unique(index.set_id[rows], return_inverse=True)
    codings = [index.codes(grouping) for grouping in planned.groupings]
    return Cell(
        rows=rows,
        set_code=set_code.astype(np.int64),
        set_ids=set_ids,
        subject=index.subject[rows],
        group_codes=tuple(np.asarray(codes, dtype=np.int64)[rows] for codes, _ in codings),
        groups=tuple(tuple(names) for _, names in codings),
    )


def _assess(
    planned: PlannedCheck,
    index: Index,
    suite: Suite,
    candidate: Mapping[str, ProbeScores],
    baseline: Mapping[str, ProbeScores] | None,
) -> _Assessed:
    check, rule = planned.check, suite.decision
    cell = cell_of(index, planned)
    now = measure(check.metric, cell, candidate[check.probe], k=check.k, desired=check.desired)
    before = None
    if baseline is not None and check.probe in baseline:
        before = measure(check.metric, cell, baseline[check.probe], k=check.k, desired=check.desired)
    testable = now.group_sets.min(initial=2) >= 2  # one set has no spread; `min_sets` says so below
    compared = before is not None and check.no_worse_than is not None and testable
    # A test of means draws resamples of its own; other statistics are compared in these.
    both = [now, before] if compared and before is not None and now.paired is None else [now]
    drawn = resample(both, cell.n_sets, rule.draws, stream(rule.seed, "sets", suite.suite, planned.item))
    lo, hi = _percentiles(drawn[0][0], rule.alpha)
    groups = drawn[0][1]
    group_lo, group_hi = _percentiles(groups, rule.alpha) if groups is not None else (None, None)
    paired = None
    if compared and before is not None:
        paired = _compare(planned, suite, now, before, drawn[0][0] - drawn[-1][0])
    return _Assessed(planned, cell, now, before, float(lo), float(hi), group_lo, group_hi, paired)


def _percentiles(draws: Floats, alpha: float) -> tuple[Any, Any]:
    """Percentile interval along the draws. A resample whose statistic is infinite (an absent group) stays infinite."""
    lo, hi = np.nanquantile(draws, [alpha / 2, 1 - alpha / 2], axis=0, method="inverted_cdf")
    return lo, hi


def _compare(planned: PlannedCheck, suite: Suite, now: Measure, before: Measure, deltas: Floats) -> PairedResult:
    check, rule = planned.check, suite.decision
    harm: Literal["lower", "higher"] = "lower" if METRICS[check.metric].better == "higher" else "higher"
    if now.paired is not None and before.paired is not None:
        return paired_test(
            now.paired,
            before.paired,
            margin=check.bound,
            alpha=rule.alpha,
            rng=stream(rule.seed, "paired", suite.suite, planned.item),
            draws=rule.draws,
            harm=harm,
        )
    return paired_statistic_test(
        now.value - before.value, deltas, n_sets=len(now.badness), margin=check.bound, alpha=rule.alpha, harm=harm
    )


def _result(
    one: _Assessed,
    index: Index,
    suite: Suite,
    candidate: Mapping[str, ProbeScores],
    p_adjusted: float | None,
    null: NullSkew | None,
) -> CheckResult:
    check, paired = one.planned.check, one.paired
    fewest = min([one.cell.n_sets, *one.now.group_sets.tolist()])
    worst, at = one.worst_group, one.telling
    if fewest < suite.groups.min_sets:
        verdict, reason = _THIN, thin_reason(one.cell, one.now, suite.groups.min_sets)
    elif check.no_worse_than is None:
        verdict, reason = _absolute(one, worst)
    elif paired is None or p_adjusted is None:
        verdict, reason = _THIN, no_baseline_reason()
    else:
        verdict, reason = _regression(one, paired, suite, p_adjusted)
    value, lo, hi, baseline = _shown(one)
    return CheckResult(
        id=check.id,
        subject=one.planned.subject,
        metric=check.metric if check.k is None else check.metric.replace("_at_k", f"_at_{check.k}"),
        probe=check.probe,
        over=one.planned.over,
        rule=check.rule,
        better=METRICS[check.metric].better,
        value=value,
        status=status_of(value),
        lo=lo,
        hi=hi,
        interval=f"{1 - suite.decision.alpha:.0%} bootstrap of {one.cell.unit}, percentile",
        bound=check.bound,
        baseline=baseline,
        delta=float(paired.delta[at]) if paired else None if baseline is None else value - baseline,
        delta_lo=None if paired is None else float(paired.lo[at]),
        delta_hi=None if paired is None else float(paired.hi[at]),
        p_adjusted=p_adjusted,
        null_median=None if null is None else null.median,
        null_p95=None if null is None else null.p95,
        verdict=verdict,
        n_sets=one.cell.n_sets,
        sets_needed=paired.sets_to_settle if paired is not None and verdict == "inconclusive" else None,
        reason=reason,
        worst_group=worst,
        groups=_groups(one),
        worst_sets=_worst_sets(one, index, candidate[check.probe]) if verdict != "pass" else [],
    )


def _shown(one: _Assessed) -> tuple[float, float, float, float | None]:
    """Value, its interval, and the baseline's value: of the telling group where groups were compared."""
    before = one.before
    if not one.by_group or one.group_lo is None or one.group_hi is None:
        return one.now.value, one.lo, one.hi, None if before is None else before.value
    at = one.telling
    baseline = None if before is None else float(before.group_values[at])
    return float(one.now.group_values[at]), float(one.group_lo[at]), float(one.group_hi[at]), baseline


def _worst_sets(one: _Assessed, index: Index, scores: ProbeScores) -> list[WorstSet]:
    """The sets to look at; none for a regression that could not be tested: there is nothing they would speak for."""
    if one.planned.check.no_worse_than is not None and one.paired is None:
        return []
    before = one.before if one.paired else None
    return worst_sets(one.cell, index, scores, one.now, before, group=one.worst_group if one.by_group else None)


def _regression(one: _Assessed, paired: PairedResult, suite: Suite, p_adjusted: float) -> tuple[Verdict, str]:
    """Clearly worse than the margin after correction: fail. Clearly not: pass. Otherwise the evidence is too thin."""
    verdict: Verdict = "inconclusive"
    if paired.overall == "pass":
        verdict = "pass"
    elif p_adjusted <= suite.decision.alpha:
        verdict = "fail"
    return verdict, regression_reason(one.planned, one.cell, one.now, one.before, paired, one.telling, verdict)


def _absolute(one: _Assessed, worst: str | None) -> tuple[Verdict, str]:
    check = one.planned.check
    bound = check.bound

    def good(value: float) -> bool:
        return value >= bound if check.at_least is not None else value <= bound

    verdict: Verdict = "pass" if good(one.now.value) else "fail"
    if check.decide == "interval":
        sides = {good(one.lo), good(one.hi)}
        verdict = "inconclusive" if len(sides) > 1 else "pass" if sides == {True} else "fail"
    return verdict, absolute_reason(one.planned, one.now, bound, worst, verdict)


def _groups(one: _Assessed) -> list[GroupResult]:
    now, before, paired = one.now, one.before, one.paired
    by_group = one.by_group
    results = []
    for position, name in enumerate(now.groups):
        value = float(now.group_values[position])
        results.append(
            GroupResult(
                group=name,
                value=value,
                status=status_of(value),
                lo=None if one.group_lo is None else float(one.group_lo[position]),
                hi=None if one.group_hi is None else float(one.group_hi[position]),
                baseline=None if before is None else float(before.group_values[position]),
                delta=float(paired.delta[position]) if by_group and paired else None,
                delta_lo=float(paired.lo[position]) if by_group and paired else None,
                delta_hi=float(paired.hi[position]) if by_group and paired else None,
                p_adjusted=float(paired.p_adjusted[position]) if by_group and paired else None,
                verdict=paired.outcome(position) if by_group and paired else None,
                n_images=int(now.group_images[position]),
                n_sets=int(now.group_sets[position]),
            )
        )
    return results
