"""An audit as files for other tools: tidy CSV with one number a row, and LaTeX tables."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from fairgate.errors import clean
from fairgate.number_format import ABSENT
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
from fairgate.reports.comparison_tables import overview
from fairgate.reports.data_table import Column, Table, TableCell
from fairgate.reports.formatting import metric_words

COLUMNS: Final = (
    *("table", "probe", "model", "compared_with", "subject", "over", "group", "quantity"),
    *("value", "lo", "hi", "p", "p_adjusted", "null_median", "null_p95", "n_sets", "detail", "notice"),
)


_FORMULA: Final = tuple("=+-@＝＋－＠")


def render_csv(record: AuditRecord) -> str:
    """Every number of the audit, one a row, in UTF-8 with a header. Empty is what does not apply or was not measured.

    Every row repeats the dataset's notice: rows travel without their file.
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    notice = record.dataset.notice or ""
    for probe in (*record.probes, *record.metrics):
        for row in _rows(probe):
            filled = {key: _cell(value) for key, value in row.items() if value is not None}
            writer.writerow({"probe": _cell(probe.name), "notice": _cell(notice)} | filled)
    return buffer.getvalue()


def _rows(probe: ProbeAudit | MetricsAudit) -> Iterator[dict[str, object]]:
    if isinstance(probe, MetricsAudit):
        return (
            _line("metrics", row, group=row.worst_group, quantity=metric_words(row.metric), detail=row.check)
            for row in probe.rows
        )
    if isinstance(probe, ClassificationAudit):
        return _classification(probe)
    return _implicit(probe) if isinstance(probe, ImplicitAudit) else _retrieval(probe)


def _cell(value: object) -> object:
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
            said = f"paired; {pair.conclusion}; {pair.agreement}"
            quantity = "mean spread inside a set"
            yield _line("pairs", pair, **models, quantity=quantity, **spread, p_adjusted=pair.p_paired, detail=said)
        accuracy = {"value": pair.accuracy_delta, "lo": pair.accuracy_lo, "hi": pair.accuracy_hi}
        yield _line(
            "pairs", pair, **models, quantity="accuracy", **accuracy, p_adjusted=pair.p_accuracy, detail="paired"
        )
    yield from _effects(probe.effects)
    for one in probe.taken:
        said = f"{one.count} of {one.total} images"
        yield _line("taken for", one, quantity=one.predicted, value=one.count / one.total, detail=said)


def _effects(effects: Sequence[EffectRow]) -> Iterator[dict[str, object]]:
    for one in effects:
        yield _line("effects", one, compared_with=one.reference, quantity=one.outcome, value=one.effect)


def _implicit(probe: ImplicitAudit) -> Iterator[dict[str, object]]:
    for row in probe.groups:
        mean, within = "mean P(positive label)", "P(positive label) within sets"
        yield _line("implicit", row, quantity=mean, value=row.mean, n_sets=None, detail=probe.positive)
        yield _line("implicit", row, quantity=within, value=row.within_sets, detail=probe.positive)
    yield from _effects(probe.effects)


def _retrieval(probe: RetrievalAudit) -> Iterator[dict[str, object]]:
    for recall in probe.recall:
        yield _line("models", recall, quantity=f"R@{recall.k}")
    for row in probe.skews:
        tied = "tied at k" if row.tied else None
        yield _line("skew", row, group=row.favoured, quantity=f"MaxSkew@{row.k}", detail=tied)
    for one in probe.within:
        yield _line("skew within", one, quantity=f"MaxSkew@{one.k} within {one.fixed}")
    for apart in probe.differences:
        groups, quantity = f"{apart.highest} against {apart.lowest}", f"relative difference within {apart.fixed}"
        yield _line("skew within", apart, group=groups, quantity=quantity)


def render_latex(record: AuditRecord) -> str:
    """The audit's overview tables for a paper (booktabs), as audit.html exports them. Every caption has the notice."""
    head = f"% Made by fairgate {_tex(record.environment.fairgate)}; needs \\usepackage{{booktabs}}."
    return "\n\n".join([head, *(_latex(record, probe, table) for probe, table in overview(record))]) + "\n"


def _latex(record: AuditRecord, probe: ProbeAudit | MetricsAudit, table: Table) -> str:
    """One table. Its label is `tab:` and the id of the same table in audit.html."""
    note = f" {_tex(record.dataset.notice)}" if record.dataset.notice else ""
    caption = f"{_tex(table.title)}, probe {_tex(probe.name)}, {record.n_sets:,} sets.{note}"
    columns = [(at, column) for at, column in enumerate(table.columns) if column.kind != "drawn"]
    header = [_tex(table.first), *(_heading(column) for _, column in columns)]
    rows = [
        [_tex(line.name), *(_value(line.cells[at], is_p=column.kind == "p") for at, column in columns)]
        for line in table.rows
    ]
    lines = [
        *("\\begin{table}", "\\centering", f"\\caption{{{caption}}}", f"\\label{{tab:{table_id(*table.key)}}}"),
        f"\\begin{{tabular}}{{l{''.join('l' if column.kind == 'text' else 'r' for _, column in columns)}}}",
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


def table_id(*parts: str) -> str:
    """What a table is called in audit.html, its downloads and audit.tex: the same for the same question in every audit.

    Characters that an id cannot hold are replaced, and a digest keeps such names distinct.

    >>> table_id("pairs", "hard_labels"), table_id("effects", "labels", "correct", "skin_tone × gender", "line cook")
    ('pairs.hard_labels', 'effects.labels.correct.skin_tone-x-gender.line-cook-6ad1b5')
    """
    return ".".join(filter(None, map(_id_part, parts)))


def _id_part(text: str) -> str:
    crossed = text.replace(" × ", "-x-")
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", crossed).strip("-")[:60]
    return plain if plain == crossed else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:6]}".strip("-")
