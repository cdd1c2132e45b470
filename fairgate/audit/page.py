"""audit.html before it is drawn: what stands in it, how much of it, and in which order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.audit.drawing import (
    Dots,
    Forest,
    PairTable,
    SkewFigure,
    dots_of,
    forests_of,
    pairs_of,
    share_scale,
    skews_of,
)
from fairgate.audit.effects import WHAT
from fairgate.audit.record import (
    AuditRecord,
    ClassificationAudit,
    EffectRow,
    ImplicitAudit,
    Outcome,
    RecallRow,
    RelativeDifference,
    RetrievalAudit,
    WithinRow,
)
from fairgate.audit.terminal import percent_words
from fairgate.audit.wording import disagreements, family_words, findings, most_taken, percent_of, refusal_words
from fairgate.reports.charts import Track
from fairgate.reports.scale import Scale
from fairgate.reports.words import number, signed

_SUBJECTS: Final = 12
"""Subjects told in full in one place of the page; the rest stand in audit.csv."""
_ROWS: Final = 2500
"""Rows of forest plots on one page."""
_SHADES: Final = 7


@dataclass(frozen=True, slots=True)
class Shaded:
    """A number in a table with its shade, 0 (none) to 7."""

    text: str
    shade: int
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of shaded numbers; `lines` are (name, cells) and `foot` further lines that are not shaded."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Shaded, ...]], ...]
    foot: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class ForestFold:
    """Forest plots of one outcome and one grouping, in a fold. `more` subjects are left to audit.csv."""

    title: str
    outcome: Outcome
    forests: tuple[Forest, ...]
    more: int


@dataclass(frozen=True, slots=True)
class ClassificationView:
    """One zero-shot probe as it is drawn."""

    probe: ClassificationAudit
    dots: Dots
    by_subject: Grid | None
    pairs: tuple[PairTable, ...]
    disagreements: tuple[tuple[str, str], ...]
    folds: tuple[ForestFold, ...]
    taken: tuple[Grid, ...]
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RetrievalView:
    """One retrieval probe as it is drawn."""

    probe: RetrievalAudit
    noun: str
    recall: tuple[tuple[RecallRow, Track], ...]
    recall_scale: Scale
    figures: tuple[tuple[SkewFigure, Grid], ...]
    within: tuple[Grid, ...]
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImplicitView:
    """One implicit association as it is drawn."""

    probe: ImplicitAudit
    grids: tuple[Grid, ...]
    folds: tuple[ForestFold, ...]
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Everything that the template reads."""

    record: AuditRecord
    findings: tuple[str, ...]
    classification: tuple[ClassificationView, ...]
    implicit: tuple[ImplicitView, ...]
    retrieval: tuple[RetrievalView, ...]
    families: str


def render_page(record: AuditRecord) -> str:
    """audit.html: one file that loads nothing, in the look of report.html."""
    from fairgate.reports.kit import render_standalone

    return render_standalone("fairgate.audit", "audit.html.j2", "audit.css", page=page_of(record), record=record)


def page_of(record: AuditRecord) -> AuditPage:
    """Arrange an audit for reading."""
    classification = [_classification(record, one) for one in record.probes if isinstance(one, ClassificationAudit)]
    implicit = [_implicit(record, one) for one in record.probes if isinstance(one, ImplicitAudit)]
    retrieval = [_retrieval(record, one) for one in record.probes if isinstance(one, RetrievalAudit)]
    return AuditPage(
        record,
        tuple(findings(record)),
        tuple(classification),
        tuple(implicit),
        tuple(retrieval),
        family_words(record),
    )


def _classification(record: AuditRecord, probe: ClassificationAudit) -> ClassificationView:
    subjects = list(dict.fromkeys(pair.subject for pair in probe.pairs))
    tables = [pairs_of([p for p in probe.pairs if p.subject == one], probe.margin) for one in subjects[: _SUBJECTS + 1]]
    told = [
        (", ".join(f"{pair.first} → {pair.second}" for pair in pairs), why)
        for pairs, why in disagreements(pair for pair in probe.pairs if pair.subject is None)
    ]
    return ClassificationView(
        probe,
        dots_of([row for row in probe.fairness if row.subject is None]),
        _by_subject(record, probe),
        tuple(tables),
        tuple(told),
        tuple(_folds(record, probe.effects)),
        tuple(_taken(record, probe)),
        tuple(refusal_words(probe.refusals)),
    )


def _by_subject(record: AuditRecord, probe: ClassificationAudit) -> Grid | None:
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
        cells = [_shaded(value[model.name, subject], worst, 1.0) for subject in subjects]
        lines.append((model.name, tuple(cells)))
    return Grid("F_M by subject" if measured else "accuracy by subject", tuple(subjects), tuple(lines))


def _shaded(value: float | None, worst: float, best: float) -> Shaded:
    if value is None:
        return Shaded(number(None), 0)
    away = abs(value - best)
    return Shaded(number(value), round(_SHADES * away / worst) if worst > 0.02 else 0)


def _folds(record: AuditRecord, effects: Sequence[EffectRow]) -> list[ForestFold]:
    by_fold: dict[tuple[Outcome, str], list[EffectRow]] = {}
    for row in effects:
        by_fold.setdefault((row.outcome, row.over), []).append(row)
    left, folds = _ROWS, []
    order = sorted(by_fold, key=lambda key: (key[0] != "correct", -key[1].count("×")))
    for outcome, over in order:
        forests = forests_of(by_fold[outcome, over], record.decision.alpha)
        told = forests[: _SUBJECTS + 1]
        while told and sum(len(rows) for one in told for _, rows in one.groups) > left:
            told = told[:-1]
        left -= sum(len(rows) for one in told for _, rows in one.groups)
        folds.append(ForestFold(f"{WHAT[outcome]} by {over}", outcome, tuple(told), len(forests) - len(told)))
    return folds


def _taken(record: AuditRecord, probe: ClassificationAudit) -> list[Grid]:
    """Per subject with mistakes: every group's most frequent wrong label, model by model; most mistaken first."""
    often: dict[str, int] = {}
    for one in probe.taken:
        often[one.subject] = often.get(one.subject, 0) + one.count
    grids = []
    for subject in sorted(often, key=lambda name: -often[name])[:_SUBJECTS]:
        held = [one for one in probe.taken if one.subject == subject]
        groups = [name for name in _groups(record, probe.taken_over) if any(one.group == name for one in held)]
        lines = []
        for group in groups:
            cells = []
            for model in record.models:
                most = most_taken(held, model.name, subject, group)
                share = 0.0 if most is None else most.count / most.total
                text = "–" if most is None else f"“{most.predicted}”"
                cells.append(Shaded(text, math.ceil(_SHADES * share), "" if most is None else percent_of(share)))
            lines.append((group, tuple(cells)))
        grids.append(Grid(subject, tuple(model.name for model in record.models), tuple(lines)))
    return grids


def _groups(record: AuditRecord, over: str) -> list[str]:
    """Groups of crossed attributes in declared order."""
    names = [""]
    for attribute in over.split(" × "):
        names = [
            f"{name} × {group}" if name else group for name in names for group in record.dataset.attributes[attribute]
        ]
    return names


def _implicit(record: AuditRecord, probe: ImplicitAudit) -> ImplicitView:
    models = [model.name for model in record.models]
    held = {(row.model, row.over, row.group): row for row in probe.groups}
    grids = []
    for over in dict.fromkeys(row.over for row in probe.groups):
        lines = []
        for group in dict.fromkeys(row.group for row in probe.groups if row.over == over):
            rows = [held.get((model, over, group)) for model in models]
            cells = [
                Shaded(number(None), 0)
                if row is None
                else Shaded(
                    number(row.mean), 0, "" if row.within_sets is None else f"{signed(row.within_sets)} within sets"
                )
                for row in rows
            ]
            lines.append((group, tuple(cells)))
        spread = tuple(
            number(probe.spread(model, over)) if any(row.model == model for row in probe.groups) else number(None)
            for model in models
        )
        grids.append(Grid(f"by {over}", tuple(models), tuple(lines), (("highest less lowest", spread),)))
    folds = _folds(record, probe.effects)
    return ImplicitView(probe, tuple(grids), tuple(folds), tuple(refusal_words(probe.refusals)))


def _retrieval(record: AuditRecord, probe: RetrievalAudit) -> RetrievalView:
    figures = skews_of(probe.summaries, probe.skews)
    within = [
        _within(record, probe.within, probe.differences, *key)
        for key in dict.fromkeys((row.over, row.fixed, row.k) for row in probe.within)
    ]
    by_subject = [(one, _skews_by_subject(record, probe, one.over, one.k)) for one in figures]
    noun = "subject" if probe.kind == "retrieval" else "word"
    scale = share_scale(x for row in probe.recall for x in (row.value, row.lo, row.hi))
    recall = tuple(
        (row, Track(value=scale.at(row.value), lo=scale.at(row.lo), hi=scale.at(row.hi))) for row in probe.recall
    )
    return RetrievalView(
        probe, noun, recall, scale, tuple(by_subject), tuple(within), tuple(refusal_words(probe.refusals))
    )


def _skews_by_subject(record: AuditRecord, probe: RetrievalAudit, over: str, k: int) -> Grid:
    """MaxSkew of every subject and model with the favoured group; shaded beyond the fair ranker's 95% point."""
    held = {(row.model, row.subject): row for row in probe.skews if (row.over, row.k) == (over, k)}
    subjects = list(dict.fromkeys(subject for _, subject in held))
    top = max((row.value or 0.0 for row in held.values()), default=0.0)
    lines = []
    for subject in subjects[:200]:
        rows = [held[model.name, subject] for model in record.models]
        cells = [
            Shaded(
                number(row.value, row.status),
                max(1, round(_SHADES * row.value / top)) if row.value is not None and row.value > row.null_p95 else 0,
                row.favoured + (" (tie)" if row.tied else ""),
            )
            for row in rows
        ]
        chance = Shaded(f"{number(rows[0].null_median)} · {number(rows[0].null_p95)}", 0)
        lines.append((subject, (*cells, chance)))
    columns = (*(model.name for model in record.models), "fair ranker: median · 95%")
    return Grid(f"MaxSkew@{k} over {over}, one by one", columns, tuple(lines))


def _within(
    record: AuditRecord,
    within: Sequence[WithinRow],
    differences: Sequence[RelativeDifference],
    over: str,
    fixed: str,
    k: int,
) -> Grid:
    """MaxSkew over one attribute within each group of another, and how far these lie apart (paper 3, figure 2)."""
    held = {(row.model, row.group): row for row in within if (row.over, row.fixed, row.k) == (over, fixed, k)}
    ratio = {row.model: row for row in differences if (row.over, row.fixed, row.k) == (over, fixed, k)}
    top = max((row.value or 0.0 for row in held.values()), default=0.0)
    lines = []
    for group in record.dataset.attributes[fixed]:
        rows = [held[model.name, group] for model in record.models]
        cells = [
            Shaded(
                number(row.value),
                max(1, round(_SHADES * row.value / top)) if row.value is not None and row.value > row.null_p95 else 0,
            )
            for row in rows
        ]
        lines.append((group, (*cells, Shaded(f"{number(rows[0].null_median)} · {number(rows[0].null_p95)}", 0))))
    of_models = [ratio[model.name] for model in record.models]
    chance = f"{percent_words(of_models[0].null_median)} · {percent_words(of_models[0].null_p95)}"
    foot = ("relative difference", (*(percent_words(row.value) for row in of_models), chance))
    columns = (*(model.name for model in record.models), "fair ranker: median · 95%")
    return Grid(f"MaxSkew@{k} over {over} within each {fixed}, on average", columns, tuple(lines), (foot,))
