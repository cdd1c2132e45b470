"""An audit in a terminal: one table per question, findings first, the notice last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fairgate.errors import clean
from fairgate.records import AuditRecord, ClassificationAudit
from fairgate.reports.comparison_findings import disagreements, findings, refusal_words, small_differences
from fairgate.reports.comparison_tables import overview
from fairgate.reports.data_table import Column, Table, TableCell
from fairgate.reports.formatting import at_most
from fairgate.reports.text_table import text_table

if TYPE_CHECKING:
    from rich.table import Table as TextTable

_FINDINGS: Final = 8
_ROWS: Final = 20
_COLUMNS: Final = 7
"""Columns of numbers that a table of models or subjects has in a terminal."""


def audit_tables(record: AuditRecord) -> Iterator[TextTable]:
    """The overview tables of the audit without their drawings; the rest is in audit.html and audit.csv."""
    return (_printed(probe.name, table) for probe, table in overview(record))


def _printed(probe: str, table: Table) -> TextTable:
    measured = [(at, column) for at, column in enumerate(table.columns) if column.kind != "drawn"]
    columns, rows = measured[:_COLUMNS], table.rows[:_ROWS]
    cut = [f"first {_ROWS} of {len(table.rows)} rows"] if len(table.rows) > _ROWS else []
    cut += [f"first {_COLUMNS} of {len(measured)} columns"] if len(measured) > _COLUMNS else []
    between = "\n" if len(columns) > 4 else " "
    text = text_table(
        (clean(table.first, 40), *(_heading(column) for _, column in columns)),
        ([clean(line.shown or line.name, 60), *(_cell(line.cells[at], between) for at, _ in columns)] for line in rows),
        title=clean(f"{probe}: {table.title}", 200) + (f" ({', '.join(cut)})" if cut else ""),
        wrap_first=True,
    )
    if any(cell.why for line in rows for cell in line.cells):
        text.caption = "* Mood’s test and the paired test disagree, for the reason below"
    return text


def _heading(column: Column) -> str:
    name = clean(f"{column.shown} {column.under}", 40)
    return name if column.kind == "text" else f">{name}"


def _cell(cell: TableCell, between: str) -> str:
    """A number, and its limits or what else belongs to it; `*` where a pair's tests disagree."""
    parts = [cell.text, "*"] if cell.why else [cell.text, cell.under]
    return (" " if cell.why else between).join(clean(part, 60) for part in parts if part)


def audit_lines(record: AuditRecord) -> list[str]:
    """Plain lines after the tables: findings, what could not be computed, how to read, the notice."""
    lines = at_most([f"• {text}" for text in findings(record)], _FINDINGS, "  and {} more in the report")
    if small := small_differences(record):
        lines.append(f"  {small}")
    several = sum(isinstance(probe, ClassificationAudit) for probe in record.probes) > 1
    for probe in record.probes:
        if isinstance(probe, ClassificationAudit):
            of_probe = f"{clean(probe.name, 60)}: " if several else ""
            for pairs, why in disagreements(pair for pair in probe.pairs if pair.subject is None):
                named = ", ".join(f"{clean(pair.first, 24)} → {clean(pair.second, 24)}" for pair in pairs)
                lines.append(f"* {of_probe}{clean(named, 200)}: {why}")
        lines += refusal_words(probe.refusals)
    lines += [line for further in record.metrics for line in refusal_words(further.refusals)]
    lines += [f"left out: {clean(over)}: {clean(reason)}" for over, reason in record.left_out.items()]
    lines.append(f"reproduce: {clean(record.command)}")
    if record.dataset.notice:
        lines.append(f"note: {clean(record.dataset.notice)}")
    return lines
