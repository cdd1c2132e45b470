"""A baseline in the terminal: what it holds, and how two of them differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairgate.records import CheckResult, RunRecord
from fairgate.reports.words import ABSENT, SYMBOL, bound_words, clean, moment, number, signed, with_interval

if TYPE_CHECKING:
    from rich.table import Table


def kept_lines(record: RunRecord) -> list[str]:
    """Whose record it is: checkpoint, data, commit, and why it was kept."""
    commit = record.environment.git_commit
    return [f"{name}: {said}" for name, said in _facts(record).items()] + [
        f"made: {moment(record.created_at)}, fairgate {clean(record.environment.fairgate, 40)}"
        + (f", at commit {clean(commit[:12], 12)}" if commit else ""),
    ]


def kept_table(record: RunRecord) -> Table:
    """Every check's value at that time."""
    table = _table("check", "value", "bound", "verdict")
    for check in record.checks:
        held = with_interval(number(check.value, check.status), check.lo, check.hi)
        _row(table, clean(check.item, 80), held, bound_words(check), _verdict(check))
    return table


def difference_lines(before: RunRecord, now: RunRecord) -> list[str]:
    """What differs between two records, beside their numbers."""
    one, other = _facts(before), _facts(now)
    lines = [f"{name}: {one[name]} -> {other[name]}" for name in one if one[name] != other[name]]
    if before.probes != now.probes:
        names = [name for name in {**before.probes, **now.probes} if before.probes.get(name) != now.probes.get(name)]
        lines.append(
            f"asked otherwise: {', '.join(clean(name, 60) for name in names)}: values are not comparable there"
        )
    return lines or ["the same checkpoint, on the same data"]


def difference_table(before: RunRecord, now: RunRecord) -> Table:
    """Every check's value in both, and the change."""
    table = _table("check", "before", "now", "change")
    old = {check.item: check for check in before.checks}
    new = {check.item: check for check in now.checks}
    for item in dict.fromkeys([*new, *old]):
        one, other = old.get(item), new.get(item)
        comparable = one is not None and other is not None and None not in (one.value, other.value)
        change = (other.value or 0) - (one.value or 0) if comparable and one and other else None
        _row(table, clean(item, 80), _value(one), _value(other), signed(change))
    return table


def _verdict(check: CheckResult) -> str:
    said = f"{SYMBOL[check.verdict]} {check.verdict}"
    return f"{said}, waived" if check.waived else said


def _facts(record: RunRecord) -> dict[str, str]:
    data, model = record.dataset, record.model
    return {
        "verdict": record.verdict,
        "reason": clean(record.baseline_reason, 300) if record.baseline_reason else "none was given",
        "model": f"{clean(model.uri, 200)} ({clean(model.fingerprint[:12], 12)})",
        "dataset": f"{clean(data.name, 80)}/{clean(data.version, 20)} ({clean(data.fingerprint[:12], 12)})",
    }


def _value(check: CheckResult | None) -> str:
    return ABSENT if check is None else number(check.value, check.status)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=place > 0)
    return table


def _row(table: Table, *cells: str) -> None:
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells))
