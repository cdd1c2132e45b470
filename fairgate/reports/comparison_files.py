"""An audit as text: tidy CSV with one number a row, LaTeX tables, and tables and lines for a terminal.

Without pandas: what a file says of a number is the record's own formatting, and its import costs half a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import ABSENT
from fairgate.ground.text import csv_text
from fairgate.records import (
    AuditRecord,
    ClassificationAudit,
    EffectRow,
    ImplicitAudit,
    MetricsAudit,
    ProbeAudit,
    RecordPart,
    RetrievalAudit,
)
from fairgate.reports import comparison_findings as words
from fairgate.reports.comparison_page import overview
from fairgate.reports.data_table import Column, Table, TableCell, printed, table_id
from fairgate.reports.formatting import at_most, metric_words
from fairgate.reports.trade_off import trade_off_table

if TYPE_CHECKING:
    from rich.table import Table as TextTable

COLUMNS: Final = (
    *("table", "probe", "model", "compared_with", "subject", "over", "group", "quantity"),
    *("value", "lo", "hi", "p", "p_adjusted", "null_median", "null_p95", "n_sets", "detail", "notice"),
)


_FORMULA: Final = tuple("=+-@＝＋－＠")


def render_csv(*records: AuditRecord) -> str:
    """Every number of the audit, one a row, in UTF-8 with a header. Empty is what does not apply or was not measured.

    Of several audits, a column names the suite. Every row repeats the dataset's notice: rows travel without their file.
    """
    columns = ("suite", *COLUMNS) if len(records) > 1 else COLUMNS
    lines = []
    for record in records:
        for probe in (*record.probes, *record.metrics):
            whole = {"suite": record.suite, "notice": record.dataset.notice, "probe": probe.name}
            for row in _rows(probe):
                cells = whole | {name: value for name, value in row.items() if value is not None}
                lines.append([csv_cell(cells.get(name)) for name in columns])
    return csv_text(columns, lines)


def _rows(probe: ProbeAudit | MetricsAudit) -> Iterator[dict[str, object]]:
    if isinstance(probe, MetricsAudit):
        return (
            _line("metrics", row, group=row.worst_group, quantity=metric_words(row), detail=row.check)
            for row in probe.rows
        )
    if isinstance(probe, ClassificationAudit):
        return _classification(probe)
    return _implicit(probe) if isinstance(probe, ImplicitAudit) else _retrieval(probe)


def csv_cell(value: object) -> object:
    """Numbers as they are; text on one line, and never what a spreadsheet would take for a formula.

    A text that starts like one gets an apostrophe before it, also where its sign is of full width.
    """
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(table: str, row: RecordPart, **cells: object) -> dict[str, object]:
    """A row of the CSV: every field of the record's row that is named like a column, and `cells`."""
    return {"table": table, **{name: getattr(row, name, None) for name in COLUMNS[2:]}, **cells}


def _classification(probe: ClassificationAudit) -> Iterator[dict[str, object]]:
    for row in probe.fairness:
        if row.fairness is not None:
            yield _line("models", row, quantity="fairness", value=row.fairness)
        right = {"value": row.accuracy, "lo": row.accuracy_lo, "hi": row.accuracy_hi}
        yield _line("models", row, quantity="accuracy", **right)
    for pair in probe.pairs:
        models = {"model": pair.second, "compared_with": pair.first}
        if pair.delta is not None:
            tests = {"p": pair.p_mood, "p_adjusted": pair.p_mood_adjusted}
            yield _line("pairs", pair, **models, quantity="fairness", value=pair.delta, **tests, detail="Mood")
            spread = {"value": pair.spread_delta, "lo": pair.spread_lo, "hi": pair.spread_hi}
            detail = f"paired; {pair.conclusion}; {pair.agreement}"
            quantity = "mean spread inside a set"
            yield _line("pairs", pair, **models, quantity=quantity, **spread, p_adjusted=pair.p_paired, detail=detail)
        accuracy = {"value": pair.accuracy_delta, "lo": pair.accuracy_lo, "hi": pair.accuracy_hi}
        yield _line(
            "pairs", pair, **models, quantity="accuracy", **accuracy, p_adjusted=pair.p_accuracy, detail="paired"
        )
    yield from _effects(probe.effects)
    for mistaken in probe.taken:
        detail = f"{mistaken.count} of {mistaken.total} images"
        yield _line(
            "taken for", mistaken, quantity=mistaken.predicted, value=mistaken.count / mistaken.total, detail=detail
        )


def _effects(effects: Sequence[EffectRow]) -> Iterator[dict[str, object]]:
    for effect in effects:
        yield _line("effects", effect, compared_with=effect.reference, quantity=effect.outcome, value=effect.effect)


def _implicit(probe: ImplicitAudit) -> Iterator[dict[str, object]]:
    for row in probe.groups:
        mean, within = "mean P(positive label)", "P(positive label) within sets"
        yield _line("implicit", row, quantity=mean, value=row.mean, n_sets=None, detail=probe.positive)
        yield _line("implicit", row, quantity=within, value=row.within_sets, lo=None, hi=None, detail=probe.positive)
    for spread in probe.spreads:
        yield _line("implicit", spread, quantity=spread.metric, detail=probe.positive)
    yield from _effects(probe.effects)


def _retrieval(probe: RetrievalAudit) -> Iterator[dict[str, object]]:
    for recall in probe.recall:
        yield _line("models", recall, quantity=f"R@{recall.k}")
    for row in probe.skews:
        tied = "tied at k" if row.tied else None
        yield _line("skew", row, group=row.favoured, quantity=f"MaxSkew@{row.k}", detail=tied)


def render_latex(*records: AuditRecord) -> str:
    """The overview tables for a paper (booktabs), as audit.html exports them. Every caption has the notice; of several
    audits, it and the label name the suite."""
    head = f"% Made by fairgate {_tex(records[0].environment.fairgate)}; needs \\usepackage{{booktabs}}."
    tables = [
        _latex(record, probe, table, (record.suite,) if len(records) > 1 else ())
        for record in records
        for probe, table in overview(record)
    ]
    if (beside := trade_off_table(records)) is not None:
        tables.append(_tex_table(beside, f"{_tex(beside.title)}.", table_id(*beside.key)))
    return "\n\n".join([head, *tables]) + "\n"


def _latex(record: AuditRecord, probe: ProbeAudit | MetricsAudit, table: Table, suite: Sequence[str]) -> str:
    """One table. Its label is `tab:` and the id of the same table in the page."""
    note = f" {_tex(record.dataset.notice)}" if record.dataset.notice else ""
    of_suite = "".join(f"suite {_tex(name)}, " for name in suite)
    caption = f"{_tex(table.title)}, {of_suite}probe {_tex(probe.name)}, {record.n_sets:,} sets.{note}"
    return _tex_table(table, caption, table_id(*suite, *table.key))


def _tex_table(table: Table, caption: str, label: str) -> str:
    """A table with its caption, which is LaTeX already."""
    header = [_tex(table.first), *(_heading(column) for _, column in table.printed)]
    rows = [
        [_tex(line.name), *(_value(line.cells[at], is_p=column.kind == "p") for at, column in table.printed)]
        for line in table.rows
    ]
    lines = [
        *("\\begin{table}", "\\centering", f"\\caption{{{caption}}}", f"\\label{{tab:{label}}}"),
        f"\\begin{{tabular}}{{l{''.join('l' if column.kind == 'text' else 'r' for _, column in table.printed)}}}",
        *("\\toprule", " & ".join(header) + " \\\\", "\\midrule", *(" & ".join(row) + " \\\\" for row in rows)),
        *("\\bottomrule", "\\end{tabular}", "\\end{table}"),
    ]
    return "\n".join(lines)


def _heading(column: Column) -> str:
    """The heading of a column; in brackets, what is in brackets after its numbers."""
    name = column.name or column.shown
    return _tex(f"{name} ({column.aside.rpartition(', ')[2]})" if column.aside else name)


def _value(cell: TableCell, *, is_p: bool) -> str:
    """A number with its limits, and what belongs to it in brackets; a text as it is exported."""
    if cell.value is None:
        return "--" if cell.text == ABSENT else _tex(cell.export or cell.text)
    limits = "" if cell.lo is None or cell.hi is None else f" [{_number(cell.lo)}, {_number(cell.hi)}]"
    aside = cell.aside if isinstance(cell.aside, str | None) else _number(cell.aside)
    text = "$<$0.001" if is_p and cell.value < 0.001 else _number(cell.value)
    return text + limits + (f" ({_tex(aside) if isinstance(cell.aside, str) else aside})" if aside else "")


_TEX: Final = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
    **{"<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}"},
    **{"[": "{[}", "]": "{]}", "*": "{*}"},  # at the start of a row, `\\\\` before it would take them for its own
    **{"×": "$\\times$", "Δ": "$\\Delta$", "’": "'", "−": "$-$", "→": "$\\to$", "·": "$\\cdot$"},
}


def _tex(text: str) -> str:
    """Foreign text without a command in it."""
    return "".join(_TEX.get(character, character) for character in clean(text))


def _number(value: float) -> str:
    """Three decimals everywhere, as a paper's columns and the page's script have them; counts are whole numbers."""
    if math.isinf(value):
        return "$\\infty$" if value > 0 else "$-\\infty$"
    text = str(abs(value)) if isinstance(value, int) else f"{abs(value):.3f}"
    return text if value >= 0 else f"$-${text}"


_FINDINGS: Final = 8


def audit_tables(record: AuditRecord, width: int = 120) -> Iterator[TextTable]:
    """The overview tables of the audit without their drawings, for a terminal of `width` columns; the rest is in
    audit.html and audit.csv."""
    return (part for probe, table in overview(record) for part in printed(probe.name, table, width=width))


def audit_lines(record: AuditRecord) -> list[str]:
    """Plain lines after the tables: findings, what could not be computed, how to read, the notice."""
    lines = at_most([f"• {text}" for text in words.findings(record)], _FINDINGS, "  and {} more in the report")
    if small := words.small_differences(record):
        lines.append(f"  {small}")
    several = sum(isinstance(probe, ClassificationAudit) for probe in record.probes) > 1
    for probe in record.probes:
        if isinstance(probe, ClassificationAudit):
            of_probe = f"{clean(probe.name, 60)}: " if several else ""
            for why, pairs in words.disagreements(probe.pairs).items():
                named = ", ".join(f"{clean(pair.first, 24)} → {clean(pair.second, 24)}" for pair in pairs)
                lines.append(f"* {of_probe}{clean(named, 200)}: {why}")
        lines += words.refusal_words(probe.refusals)
    lines += [line for further in record.metrics for line in words.refusal_words(further.refusals)]
    lines += words.refused_words(record)
    lines += [f"left out: {clean(over)}: {clean(reason)}" for over, reason in record.left_out.items()]
    lines.append(f"reproduce: {clean(record.command)}")
    if record.dataset.notice:
        lines.append(f"note: {clean(record.dataset.notice)}")
    return lines
