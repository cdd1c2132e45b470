"""The tables of audit.html on rankings: MaxSkew of models over subjects, and recall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number
from fairgate.records import AuditRecord, RetrievalAudit, SkewRow, SkewSummary
from fairgate.reports.charts import Scale, Track, finite, largest, percent, scale_for
from fairgate.reports.data_table import (
    SHADES,
    Column,
    Line,
    Table,
    TableCell,
    exact,
    number_cell,
    share_scale,
)

_LINES: Final = 200
_DOTS: Final = 400


def recall_table(probe: RetrievalAudit) -> Table | None:
    """R@k of every model, where there is any."""
    scale = share_scale(x for row in probe.recall for x in (row.value, row.lo, row.hi))
    lines = []
    for row in probe.recall:
        limits = row.value, row.lo, row.hi
        cells = TableCell(track=scale.track(*limits)), number_cell(*limits)
        lines.append(Line(f"{clean(row.model, 80)} R@{row.k}", cells))
    columns = (Column("recall, drawn", "drawn", scale=scale), Column("R@k"))
    key, title = ("recall", probe.name), "R@k of every model"
    return Table(key, title, "model", columns, lines, "bars subjects") if lines else None


def skew_tables(probe: RetrievalAudit) -> list[Table]:
    """For every grouping and k, the subjects of every model on one line, those beyond the fair ranker's 95% marked."""
    tables = []
    for over, k in dict.fromkeys((row.over, row.k) for row in probe.summaries):
        rows = [row for row in probe.skews if (row.over, row.k) == (over, k)]
        scale = scale_for([0.0, *(row.value for row in rows), *(row.null_p95 for row in rows)])
        lines = [
            _strip(row, [skew for skew in rows if skew.model == row.model], scale)
            for row in probe.summaries
            if (row.over, row.k) == (over, k)
        ]
        columns = (
            *(Column("subjects, drawn", "drawn", scale=scale), Column("mean"), Column("median")),
            Column("fair ranker", under="median · 95%", name=_CHANCE.name, aside=_CHANCE.aside),
            Column("beyond 95%", aside="of"),
        )
        legend = (
            *(("●", "within what chance gives"), ("◆", "beyond the fair ranker’s 95% point")),
            *(("null", "fair ranker, median to 95%"), ("▭", "quartiles and median")),
        )
        key, title = ("skew", probe.name, over, str(k)), f"MaxSkew@{k} over {over}"
        tables.append(Table(key, title, "model", columns, lines, "bars subjects", legend=legend, height=34))
    return tables


def _strip(row: SkewSummary, subjects: Sequence[SkewRow], scale: Scale) -> Line:
    dots = [
        (percent(scale.place(subject.value)), subject.value > subject.null_p95)
        for subject in subjects
        if subject.value is not None
    ]
    null = scale.band(row.null_median, row.null_p95, row.null_median)
    track = Track(null=null, box=_box(row, scale), dots=tuple(dots[:_DOTS]))
    beyond = TableCell(f"{row.beyond} of {row.subjects}", value=row.beyond, aside=row.subjects)
    chance = _chance(row.null_median, row.null_p95)
    mean = number_cell(row.mean, row.lo, row.hi)
    return Line(row.model, (TableCell(track=track), mean, number_cell(row.median), chance, beyond))


def _box(row: SkewSummary, scale: Scale) -> dict[str, str] | None:
    """The five numbers of the box, where there are subjects enough and all are finite."""
    five = (row.lowest, row.lower_quartile, row.median, row.upper_quartile, row.highest)
    numbers = [x for x in map(finite, five) if x is not None]
    return scale.box(numbers) if row.subjects >= 3 and len(numbers) == 5 else None


_CHANCE: Final = Column("fair ranker: median · 95%", name="fair ranker, median", aside="fair ranker, 95%")


def _chance(median: float, p95: float) -> TableCell:
    return TableCell(f"{number(median)} · {number(p95)}", value=median, aside=p95)


def _beyond(value: float | None, p95: float, top: float) -> int:
    """The shade of a skew: none within what chance gives."""
    if value is None or value <= p95:
        return 0
    return SHADES if math.isinf(value) else max(1, round(SHADES * value / top))


def skews_table(record: AuditRecord, probe: RetrievalAudit, over: str, k: int, noun: str) -> Table:
    """MaxSkew of every subject and model with the favoured group; shaded beyond the fair ranker's 95% point."""
    by_model = {(row.model, row.subject): row for row in probe.skews if (row.over, row.k) == (over, k)}
    top = largest(row.value for row in by_model.values())
    subjects = list(dict.fromkeys(subject for _, subject in by_model))

    def cell(row: SkewRow) -> TableCell:
        favoured, value = row.favoured + (" (tie)" if row.tied else ""), exact(row.value, row.status)
        shade = _beyond(row.value, row.null_p95, top)
        return TableCell(number(row.value, row.status), favoured, value, aside=favoured, shade=shade)

    lines = []
    for subject in subjects[:_LINES]:
        rows = [by_model[model.name, subject] for model in record.models]
        lines.append(Line(subject, (*map(cell, rows), _chance(rows[0].null_median, rows[0].null_p95))))
    columns = (*(Column(model.name, aside=f"{model.name}, favoured") for model in record.models), _CHANCE)
    key, title = ("skews", probe.name, over, str(k)), f"MaxSkew@{k} over {over}, one by one"
    legend = (("", "under each value: the most favoured group"), ("", "shaded: beyond the fair ranker’s 95% point"))
    return Table(key, title, noun, columns, lines, legend=legend, more=len(subjects) - len(lines))
