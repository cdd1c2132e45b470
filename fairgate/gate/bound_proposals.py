"""Bounds for a suite that has no baseline yet, from what its model was measured to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fairgate.metrics import METRICS
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import Check, Suite


def proposed_bounds(record: RunRecord, suite: Suite) -> dict[str, float]:
    """By id of a check with a bound, a stricter one: the bad end of the interval of its worst group, to 2 decimals.

    Of a check with several items (`by: subject`), that of the worst. No bound is weaker than the suite's own. Nothing
    is proposed where a value has no interval, or one without width, which shows no noise; a group's is then that of the
    check, which are limits of the worst group.
    """
    of_check: dict[str, list[CheckResult]] = {}
    for result in record.checks:
        of_check.setdefault(result.id, []).append(result)
    bounds = {}
    for check in suite.checks:
        ends = [end for result in of_check.get(check.id, ()) for end in _bad_ends(result, check)]
        if check.no_worse_than is not None or not ends or None in ends:
            continue
        known = [end for end in ends if end is not None]
        lower = check.rule == "at_least"
        bound = math.floor(round(min(known) * 100, 6)) / 100 if lower else math.ceil(round(max(known) * 100, 6)) / 100
        if bound > check.bound if lower else bound < check.bound:
            bounds[check.id] = bound
    return bounds


def _bad_ends(result: CheckResult, check: Check) -> Sequence[float | None]:
    """Of every group with enough sets, or of the check without groups, the bad end of its interval; and what a fair
    ranker reaches, since a stricter bound would be refused."""
    kind = METRICS[check.metric].spec.group_bound
    groups = [group for group in result.groups if group.n_sets >= (result.min_sets or 0)]
    parts = groups if kind != "none" and result.groups else [result]
    ends: list[float | None] = [] if result.null_p95 is None else [result.null_p95]
    # a group without an error resamples to one value; the limits of the worst group do not
    for part in (result if part.lo == part.hi else part for part in parts):
        if part.lo is None or part.hi is None or part.lo >= part.hi:
            ends.append(None)
        elif kind == "size" and check.rule == "at_most":
            ends.append(max(abs(part.lo), abs(part.hi)))
        else:
            ends.append(part.lo if check.rule == "at_least" else part.hi)
    return ends


def proposal_lines(bounds: Mapping[str, float], suite: Suite, *, written: bool) -> list[str]:
    """What is proposed, a line a check, with the bound that it replaces."""
    if not bounds:
        return ["no bound of the suite can be tightened to what was measured here"]
    head = "bounds written into the suite" if written else "bounds that this checkpoint meets (`--propose` writes them)"
    checks = {check.id: check for check in suite.checks}
    return [
        f"{head}, from the worst group's interval:",
        *(f"  {id_}: {checks[id_].rule}: {bound:.2f}  (now {checks[id_].bound:g})" for id_, bound in bounds.items()),
    ]
