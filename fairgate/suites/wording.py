"""Why a check came out as it did, in one sentence that a pull request's author can act on."""

from __future__ import annotations

import numpy as np

from fairgate.records import Verdict
from fairgate.statistics import PairedResult
from fairgate.suites.cell import Cell
from fairgate.suites.measure import Measure
from fairgate.suites.plan import PlannedCheck


def thin_reason(cell: Cell, now: Measure, wanted: int) -> str:
    """Too few sets to judge."""
    if cell.n_sets < wanted or not now.groups:
        return f"only {_count(cell.n_sets, cell)}; the suite judges from {wanted} (groups.min_sets)"
    position = int(np.argmin(now.group_sets))
    held = f"{now.groups[position]} is in only {_count(int(now.group_sets[position]), cell)}"
    return f"{held}; the suite judges from {wanted} (groups.min_sets)"


def no_baseline_reason(planned: PlannedCheck) -> str:
    """Nothing to compare with."""
    if planned.against == "anchor":
        return "there is no anchor to compare with; name one in the suite: `anchor: git:TAG`, file:DIR or model:URI"
    return (
        "there is no baseline to compare with; give git:REF, file:DIR or model:URI with --fairness-baseline "
        "(`fairgate check`: --baseline)"
    )


def absolute_reason(planned: PlannedCheck, now: Measure, bound: float, worst: str | None, verdict: Verdict) -> str:
    """Where the estimate stands against a bound."""
    sign = planned.check.rule.replace("_", " ")
    at = f" ({worst})" if worst else ""
    text = f"{_metric(planned)} is {_number(now.value)}{at}; wanted {sign} {_number(bound)}"
    return f"{text}; the interval reaches over the bound" if verdict == "inconclusive" else text


def regression_reason(
    planned: PlannedCheck,
    cell: Cell,
    now: Measure,
    before: Measure | None,
    paired: PairedResult,
    at: int,
    verdict: Verdict,
) -> str:
    """How far the number that settled the comparison (position `at`) moved, against the margin."""
    check = planned.check
    delta, lo, hi = (float(limits[at]) for limits in (paired.delta, paired.lo, paired.hi))
    moved = "did not move" if delta == 0 else f"{'rose' if delta > 0 else 'fell'} by {_number(abs(delta))}"
    if check.metric == "group_gap":
        moved = f"{moved} against {'the mean of all groups' if cell.unit == 'images' else 'its set-mates'}"
    by_group = bool(now.groups) and len(paired.delta) == len(now.groups)
    if by_group:
        moved = f"{now.groups[at]} {moved}"
    elif before is not None:
        moved = f"{_metric(planned)} {moved}, {_number(before.value)} to {_number(now.value)}"
    if planned.against == "anchor":
        moved = f"since the anchor, {moved}"
    text = f"{moved} [{_number(lo)}, {_number(hi)}]; margin {_number(planned.bound)}"
    if verdict != "inconclusive":
        return text
    if paired.overall == "fail":
        return f"{text}; clear by itself, and not after the correction over all checks of the suite"
    per_group = " per group" if by_group else ""
    needed = paired.sets_to_settle
    settles = f": about {needed:,} {cell.unit}{per_group} would settle it" if needed else ""
    return f"{text}; the interval reaches over the margin{settles}"


def _metric(planned: PlannedCheck) -> str:
    name = {"c_asc": "C-ASC", "p_true": "mean P(true)"}.get(
        planned.check.metric, planned.check.metric.replace("_", " ")
    )
    return name if planned.check.k is None else name.replace("at k", f"at {planned.check.k}")


def _count(number: int, cell: Cell) -> str:
    return f"{number:,} {cell.unit.removesuffix('s') if number == 1 else cell.unit}"


def _number(value: float | None) -> str:
    """As the reports write numbers: a true minus sign."""
    return "–" if value is None else f"{value:.3f}".replace("-", "−")
