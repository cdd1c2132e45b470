"""Why a check came out as it did, in one sentence that a pull request's author can act on."""

from __future__ import annotations

import numpy as np

from fairgate.records import Verdict
from fairgate.statistics import PairedResult
from fairgate.suites.measure import Cell, Measure
from fairgate.suites.plan import PlannedCheck


def thin_reason(cell: Cell, now: Measure, wanted: int) -> str:
    """Too few sets to judge."""
    if cell.n_sets < wanted or not now.groups:
        return f"only {cell.n_sets} sets; the suite judges from {wanted} (groups.min_sets)"
    position = int(np.argmin(now.group_sets))
    held = f"{now.groups[position]} is in only {now.group_sets[position]} sets"
    return f"{held}; the suite judges from {wanted} (groups.min_sets)"


def no_baseline_reason() -> str:
    """Nothing to compare with."""
    return "there is no baseline to compare with; give one with --fairness-baseline file:DIR or model:URI"


def absolute_reason(planned: PlannedCheck, now: Measure, bound: float, worst: str | None, verdict: Verdict) -> str:
    """Where the estimate stands against a bound."""
    sign = planned.check.rule.replace("_", " ")
    at = f" ({worst})" if worst else ""
    text = f"{_metric(planned)} is {_number(now.value)}{at}; wanted {sign} {_number(bound)}"
    return f"{text}; the interval reaches over the bound" if verdict == "inconclusive" else text


def regression_reason(
    planned: PlannedCheck,
    now: Measure,
    before: Measure | None,
    paired: PairedResult,
    worst: str | None,
    verdict: Verdict,
) -> str:
    """How far the worst of the compared numbers moved, against the margin."""
    check = planned.check
    delta, lo, hi = (float(limits[paired.worst]) for limits in (paired.delta, paired.lo, paired.hi))
    moved = "did not move" if delta == 0 else f"{'rose' if delta > 0 else 'fell'} by {_number(abs(delta))}"
    if check.metric == "group_gap":
        moved = f"{moved} against its set-mates"
    if worst and len(paired.delta) == len(now.groups):
        moved = f"{worst} {moved}"
    elif before is not None:
        moved = f"{_metric(planned)} {moved}, {_number(before.value)} to {_number(now.value)}"
    text = f"{moved} [{_number(lo)}, {_number(hi)}]; margin {_number(check.bound)}"
    if verdict == "inconclusive":
        needed = f": about {paired.sets_needed:,} sets would settle it" if paired.sets_needed else ""
        return f"{text}; the interval reaches over the margin{needed}"
    return text


def _metric(planned: PlannedCheck) -> str:
    name = planned.check.metric.replace("_", " ")
    return name if planned.check.k is None else name.replace("at k", f"at {planned.check.k}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
