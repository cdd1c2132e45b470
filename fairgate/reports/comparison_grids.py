"""Tables of shaded numbers in audit.html: F_M by subject, who is taken for whom, skews, implicit associations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from fairgate.records import Status
from fairgate.records.comparison import (
    AuditRecord,
    ClassificationAudit,
    ImplicitAudit,
    RelativeDifference,
    RetrievalAudit,
    SkewRow,
    TakenFor,
    WithinRow,
)
from fairgate.reports.comparison_findings import most_taken, percent_of
from fairgate.reports.comparison_terminal import percent_words
from fairgate.reports.formatting import number, signed

MOST_SUBJECTS: Final = 12
"""Subjects told in full in one place of the page; the rest stand in audit.csv."""
_ROWS: Final = 200
_SHADES: Final = 7


@dataclass(frozen=True, slots=True)
class Shaded:
    """A number in a table with its shade, 0 (none) to 7, and what stands under it.

    `value` is what the table is sorted by and what is handed out; `export` takes its place when handed out, and
    `aside` goes with it.
    """

    text: str
    shade: int = 0
    under: str = ""
    value: float | None = None
    export: str | None = None
    aside: str | float | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is shown; as it is called when it is handed out, and as what goes with it is called then."""

    shown: str
    name: str = ""
    aside: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of shaded numbers: `lines` are (name, cells), and so are further lines in its `foot`.

    `key` tells it from all other tables of an audit, `first` names what a line is. `texts`: cells hold words. `more`
    lines are left to audit.csv.
    """

    key: tuple[str, ...]
    title: str
    first: str
    columns: tuple[Column, ...]
    lines: tuple[tuple[str, tuple[Shaded, ...]], ...]
    foot: tuple[tuple[str, tuple[Shaded, ...]], ...] = field(default=())
    texts: bool = False
    more: int = 0


def exact(value: float | None, status: Status = "ok") -> float | None:
    """A number as it is sorted by and handed out: infinite where its status says so, None where there is none."""
    return math.inf if value is None and status == "infinite" else value


def by_subject(record: AuditRecord, probe: ClassificationAudit) -> Grid | None:
    """F_M by subject (accuracy, where F_M is not defined), the lowest darkest."""
    held = [row for row in probe.fairness if row.subject is not None]
    if not held:
        return None
    measured = any(row.fairness is not None for row in held)
    value = {(row.model, row.subject): row.fairness if measured else row.accuracy for row in held}
    subjects = list(dict.fromkeys(row.subject for row in held if row.subject is not None))
    worst = max((1 - x for x in value.values() if x is not None), default=0.0)
    lines = []
    for model in record.models:
        cells = [_below_one(value[model.name, subject], worst) for subject in subjects]
        lines.append((model.name, tuple(cells)))
    title = "F_M by subject" if measured else "accuracy by subject"
    return Grid(("subjects", probe.name), title, "model", tuple(map(Column, subjects)), tuple(lines))


def _below_one(value: float | None, worst: float) -> Shaded:
    if value is None:
        return Shaded(number(None))
    return Shaded(number(value), round(_SHADES * (1 - value) / worst) if worst > 0.02 else 0, value=value)


def taken(record: AuditRecord, probe: ClassificationAudit) -> list[Grid]:
    """Per subject with mistakes, over every grouping that is told: each group's most frequent wrong label, model by
    model; most mistaken first."""
    overs = list(dict.fromkeys(one.over for one in probe.taken))
    often: dict[str, int] = {}
    for one in probe.taken:
        often[one.subject] = often.get(one.subject, 0) + one.count
    columns = tuple(Column(model.name, aside=f"{model.name}, share") for model in record.models)
    grids = []
    for subject in sorted(often, key=lambda name: -often[name])[:MOST_SUBJECTS]:
        for over in overs:
            held = [one for one in probe.taken if (one.subject, one.over) == (subject, over)]
            groups = [name for name in _groups(record, over) if any(one.group == name for one in held)]
            lines = tuple(
                (group, tuple(_mistake(most_taken(held, model.name, subject, group, over)) for model in record.models))
                for group in groups
            )
            key = ("taken", probe.name, subject, *([over] if len(overs) > 1 else []))
            title = f"{subject} by {over}" if len(overs) > 1 else subject
            grids.append(Grid(key, title, over, columns, lines, texts=True))
    return grids


def _mistake(most: TakenFor | None) -> Shaded:
    if most is None:
        return Shaded("–")
    share = most.count / most.total
    shade, text = math.ceil(_SHADES * share), f"“{most.predicted}”"
    return Shaded(text, shade, percent_of(share), value=share, export=most.predicted, aside=share)


def _groups(record: AuditRecord, over: str) -> list[str]:
    """Groups of crossed attributes in declared order."""
    names = [""]
    for attribute in over.split(" × "):
        names = [
            f"{name} × {group}" if name else group for name in names for group in record.dataset.attributes[attribute]
        ]
    return names


def implicit(record: AuditRecord, probe: ImplicitAudit) -> list[Grid]:
    """P(positive label) of every group by model, for every grouping."""
    models = [model.name for model in record.models]
    columns = tuple(Column(model, aside=f"{model}, within sets") for model in models)
    held = {(row.model, row.over, row.group): row for row in probe.groups}
    grids = []
    for over in dict.fromkeys(row.over for row in probe.groups):
        lines = []
        for group in dict.fromkeys(row.group for row in probe.groups if row.over == over):
            rows = [held.get((model, over, group)) for model in models]
            cells = [
                Shaded(number(None))
                if row is None
                else Shaded(
                    number(row.mean), under=_within_sets(row.within_sets), value=row.mean, aside=row.within_sets
                )
                for row in rows
            ]
            lines.append((group, tuple(cells)))
        measured = {row.model for row in probe.groups if row.over == over}
        spreads = [probe.spread(model, over) if model in measured else None for model in models]
        foot = ("highest less lowest", tuple(Shaded(number(one), value=one) for one in spreads))
        grids.append(Grid(("implicit", probe.name, over), f"by {over}", "group", columns, tuple(lines), (foot,)))
    return grids


def _within_sets(value: float | None) -> str:
    return "" if value is None else f"{signed(value)} within sets"


def skews_by_subject(record: AuditRecord, probe: RetrievalAudit, over: str, k: int, noun: str) -> Grid:
    """MaxSkew of every subject and model with the favoured group; shaded beyond the fair ranker's 95% point."""
    held = {(row.model, row.subject): row for row in probe.skews if (row.over, row.k) == (over, k)}
    subjects = list(dict.fromkeys(subject for _, subject in held))
    top = max((row.value for row in held.values() if row.value is not None and math.isfinite(row.value)), default=0.0)
    lines = []
    for subject in subjects[:_ROWS]:
        rows = [held[model.name, subject] for model in record.models]
        lines.append((subject, (*(_skew(row, top) for row in rows), _chance(rows[0].null_median, rows[0].null_p95))))
    columns = (*(Column(model.name, aside=f"{model.name}, favoured") for model in record.models), _CHANCE)
    title = f"MaxSkew@{k} over {over}, one by one"
    more = len(subjects) - len(lines)
    return Grid(("skews", probe.name, over, str(k)), title, noun, columns, tuple(lines), more=more)


_CHANCE: Final = Column("fair ranker: median · 95%", "fair ranker, median", "fair ranker, 95%")


def _chance(median: float, p95: float) -> Shaded:
    return Shaded(f"{number(median)} · {number(p95)}", value=median, aside=p95)


def _skew(row: SkewRow, top: float) -> Shaded:
    favoured = row.favoured + (" (tie)" if row.tied else "")
    return Shaded(
        number(row.value, row.status),
        _beyond(row.value, row.null_p95, top),
        favoured,
        value=exact(row.value, row.status),
        aside=favoured,
    )


def _beyond(value: float | None, p95: float, top: float) -> int:
    """The shade of a skew: none within what chance gives."""
    if value is None or value <= p95:
        return 0
    return _SHADES if math.isinf(value) else max(1, round(_SHADES * value / top))


def within(
    record: AuditRecord,
    probe: RetrievalAudit,
    over: str,
    fixed: str,
    k: int,
) -> Grid:
    """MaxSkew over one attribute within each group of another, and how far these lie apart (paper 3, figure 2)."""
    held = {(row.model, row.group): row for row in probe.within if (row.over, row.fixed, row.k) == (over, fixed, k)}
    ratio = {row.model: row for row in probe.differences if (row.over, row.fixed, row.k) == (over, fixed, k)}
    top = max((row.value for row in held.values() if row.value is not None and math.isfinite(row.value)), default=0.0)
    lines = []
    for group in record.dataset.attributes[fixed]:
        rows: Sequence[WithinRow] = [held[model.name, group] for model in record.models]
        cells = [Shaded(number(row.value), _beyond(row.value, row.null_p95, top), value=row.value) for row in rows]
        lines.append((group, (*cells, _chance(rows[0].null_median, rows[0].null_p95))))
    of_models: Sequence[RelativeDifference] = [ratio[model.name] for model in record.models]
    first = of_models[0]
    chance = Shaded(
        f"{percent_words(first.null_median)} · {percent_words(first.null_p95)}",
        value=exact(first.null_median, "infinite"),
        aside=exact(first.null_p95, "infinite"),
    )
    apart = [Shaded(percent_words(row.value), value=exact(row.value, "infinite")) for row in of_models]
    columns = (*(Column(model.name) for model in record.models), _CHANCE)
    key, title = ("within", probe.name, over, fixed, str(k)), f"MaxSkew@{k} over {over} within each {fixed}, on average"
    return Grid(key, title, fixed, columns, tuple(lines), (("relative difference", (*apart, chance)),))
