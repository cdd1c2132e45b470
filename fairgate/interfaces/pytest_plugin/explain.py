"""What pytest shows of a failing check: the finding and the numbers."""

from __future__ import annotations

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number, share_words, signed
from fairgate.records import CheckResult, GroupResult, RunRecord, WorstSet
from fairgate.reports import SYMBOL, by_attribute, inert, no_interval_words, noted_sentence, unit_of

GROUPS_SHOWN = 12


def explain_check(check: CheckResult, record: RunRecord) -> list[str]:
    """Lines for pytest's failure section, about a check of a record."""
    unit = unit_of(record)
    if check.verdict == "error":
        problem, *more = [_safe(line) for line in check.reason.splitlines()] or [""]
        lines = [f"not judged: {problem}", *more]
    else:  # pytest's short summary shows the first line, after the item's name
        lines = [f"{check.verdict}: {inert(noted_sentence(check, record))}"]
    if without := no_interval_words(check):
        lines.append(without)
    if check.groups:
        shown = _shown(check)
        lines += ["", *(_group_line(check, group, unit) for group in shown)]
        if len(check.groups) > len(shown):
            lines.append(f"  ... and {share_words(len(check.groups) - len(shown), 'more group')} in report.html")
    if check.worst_sets:
        lines += ["", worst_set_line(check.worst_sets[0])]
    return lines


def worst_set_line(worst: WorstSet) -> str:
    """`worst set doctor-0012: light × male 0.91, dark × female 0.22 (nurse)`, or `worst image`, if it is alone."""
    members = ", ".join(
        f"{member.group} {number(member.value)}" + (f" ({member.predicted})" if member.predicted else "")
        for member in worst.members
    )
    return f"worst {'image' if len(worst.members) == 1 else 'set'} {worst.set_id}: {members}"


def _safe(line: str) -> str:
    """A line of an error, which may quote names of groups or a file, with its indentation."""
    return line[: len(line) - len(line.lstrip())] + inert(clean(line))


def _shown(check: CheckResult) -> list[GroupResult]:
    """Every group that did not pass, and others up to a number, attribute after attribute, the worst first."""
    groups = [group for _, members in by_attribute(check) for group in members]
    open_ = [group for group in groups if group.verdict in ("fail", "inconclusive")]
    passed = [group for group in groups if group.verdict not in ("fail", "inconclusive")]
    shown = {id(group) for group in [*open_, *passed[: max(0, GROUPS_SHOWN - len(open_))]]}
    return [group for group in groups if id(group) in shown]


def _group_line(check: CheckResult, group: GroupResult, unit: str) -> str:
    worst = group.verdict == "fail" or (group.group == check.worst_group and not check.failing_groups)
    mark = SYMBOL[group.verdict] if group.verdict else " "
    parts = [f"  {'>' if worst else ' '} {clean(group.group, 80):<24} {mark}", f"now {number(group.value)}"]
    if group.baseline is not None:
        parts.append(f"baseline {number(group.baseline)}")
    if group.delta is not None:
        parts.append(f"delta {signed(group.delta)} [{number(group.delta_lo)}, {number(group.delta_hi)}]")
    elif group.lo is not None:
        parts.append(f"[{number(group.lo)}, {number(group.hi)}]")
    small = check.min_sets is not None and group.n_sets < check.min_sets
    parts.append(
        share_words(group.n_sets, unit) + (f", too few to judge (groups.min_sets: {check.min_sets})" if small else "")
    )
    return "  ".join(parts)
