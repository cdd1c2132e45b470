"""A failing check in the terminal: the reason, then the numbers behind it."""

from __future__ import annotations

from fairgate.records import CheckResult, WorstSet
from fairgate.reports.remarks import beside
from fairgate.reports.words import no_interval_words, null_words, tie_words

GROUPS_SHOWN = 12


def explain_check(check: CheckResult) -> list[str]:
    """Lines for pytest's failure section."""
    lines = [f"{check.item}: {check.verdict}", *check.reason.splitlines()]
    lines += beside(check)
    lines += [words for words in (null_words(check), tie_words(check), no_interval_words(check)) if words]
    if check.groups:
        lines += ["", *(_group_line(check, position) for position in range(min(len(check.groups), GROUPS_SHOWN)))]
        if len(check.groups) > GROUPS_SHOWN:
            lines.append(f"  ... and {len(check.groups) - GROUPS_SHOWN} more groups in report.html")
    if check.worst_sets:
        lines += ["", worst_set_line(check.worst_sets[0])]
    return lines


def worst_set_line(worst: WorstSet) -> str:
    """`worst set doctor-0012: light × male 0.91, dark × female 0.22 (nurse)`."""
    members = ", ".join(
        f"{one.group} {number(one.value)}" + (f" ({one.predicted})" if one.predicted else "") for one in worst.members
    )
    return f"worst set {worst.set_id}: {members}"


def number(value: float | None) -> str:
    """Three decimals, or a dash for what was not measured."""
    return "–" if value is None else f"{value:.3f}"


def _group_line(check: CheckResult, position: int) -> str:
    one = check.groups[position]
    parts = [f"  {'>' if one.group == check.worst_group else ' '} {one.group:<24}", f"now {number(one.value)}"]
    if one.baseline is not None:
        parts.append(f"baseline {number(one.baseline)}")
    if one.delta is not None:
        parts.append(f"delta {one.delta:+.3f} [{number(one.delta_lo)}, {number(one.delta_hi)}]")
    elif one.lo is not None:
        parts.append(f"[{number(one.lo)}, {number(one.hi)}]")
    parts.append(f"{one.n_sets} sets")
    return "  ".join(parts)
