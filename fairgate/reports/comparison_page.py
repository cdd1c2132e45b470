"""audit.html before it is drawn: what stands in it, how much of it, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.records.comparison import (
    OUTCOMES,
    AuditRecord,
    ClassificationAudit,
    EffectRow,
    ImplicitAudit,
    Outcome,
    PairRow,
    RecallRow,
    RetrievalAudit,
)
from fairgate.reports import comparison_grids as grids
from fairgate.reports.charts import Scale, Track
from fairgate.reports.comparison_charts import (
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
from fairgate.reports.comparison_files import table_id
from fairgate.reports.comparison_findings import disagreements, family_words, findings, refusal_words, small_differences
from fairgate.reports.comparison_grids import MOST_SUBJECTS, Grid
from fairgate.reports.standalone_page import render_page

_ROWS: Final = 2500
"""Rows of forest plots on one page."""
_PAIRS: Final = 1000
"""Rows of pairs of models of one probe, when there are more than pairs on all subjects."""


@dataclass(frozen=True, slots=True)
class ForestFold:
    """Forest plots of one outcome and one grouping, in a fold. `more` subjects are left to audit.csv."""

    title: str
    outcome: Outcome
    over: str
    forests: tuple[Forest, ...]
    more: int


@dataclass(frozen=True, slots=True)
class ClassificationView:
    """One zero-shot probe as it is drawn. Pairs on `more_pairs` subjects are left to audit.csv."""

    probe: ClassificationAudit
    dots: Dots
    by_subject: Grid | None
    pairs: tuple[PairTable, ...]
    more_pairs: int
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
    small: str | None
    classification: tuple[ClassificationView, ...]
    implicit: tuple[ImplicitView, ...]
    retrieval: tuple[RetrievalView, ...]
    families: str


def comparison_html(record: AuditRecord) -> str:
    """audit.html: one file that loads nothing, in the look of report.html; a script in it sorts and exports tables."""
    return render_page("comparison", page=page_of(record), record=record, table_id=table_id, exact=_exact)


def _exact(value: float) -> str:
    """All digits of a number, as scripts read it."""
    return repr(float(value)).replace("inf", "Infinity")


def page_of(record: AuditRecord) -> AuditPage:
    """Arrange an audit for reading."""
    classification = [_classification(record, one) for one in record.probes if isinstance(one, ClassificationAudit)]
    implicit = [_implicit(record, one) for one in record.probes if isinstance(one, ImplicitAudit)]
    retrieval = [_retrieval(record, one) for one in record.probes if isinstance(one, RetrievalAudit)]
    return AuditPage(
        record,
        tuple(findings(record)),
        small_differences(record),
        tuple(classification),
        tuple(implicit),
        tuple(retrieval),
        family_words(record),
    )


def _classification(record: AuditRecord, probe: ClassificationAudit) -> ClassificationView:
    by_subject: dict[str | None, list[PairRow]] = {}
    for pair in probe.pairs:
        by_subject.setdefault(pair.subject, []).append(pair)
    most = max(1, min(MOST_SUBJECTS + 1, _PAIRS // max(map(len, by_subject.values()), default=1)))
    tables = [pairs_of(pairs, probe.margin) for pairs in list(by_subject.values())[:most]]
    told = [
        (", ".join(f"{pair.first} → {pair.second}" for pair in pairs), why)
        for pairs, why in disagreements(pair for pair in probe.pairs if pair.subject is None)
    ]
    return ClassificationView(
        probe,
        dots_of([row for row in probe.fairness if row.subject is None]),
        grids.by_subject(record, probe),
        tuple(tables),
        len(by_subject) - len(tables),
        tuple(told),
        tuple(_folds(record, probe.effects)),
        tuple(grids.taken(record, probe)),
        tuple(refusal_words(probe.refusals)),
    )


def _folds(record: AuditRecord, effects: Sequence[EffectRow]) -> list[ForestFold]:
    by_fold: dict[tuple[Outcome, str], list[EffectRow]] = {}
    for row in effects:
        by_fold.setdefault((row.outcome, row.over), []).append(row)
    left, folds = _ROWS, []
    order = sorted(by_fold, key=lambda key: (key[0] != "correct", -key[1].count("×")))
    for outcome, over in order:
        forests = forests_of(by_fold[outcome, over], record.decision.alpha)
        told = forests[: MOST_SUBJECTS + 1]
        while told and sum(len(rows) for one in told for _, rows in one.groups) > left:
            told = told[:-1]
        left -= sum(len(rows) for one in told for _, rows in one.groups)
        folds.append(ForestFold(f"{OUTCOMES[outcome]} by {over}", outcome, over, tuple(told), len(forests) - len(told)))
    return folds


def _implicit(record: AuditRecord, probe: ImplicitAudit) -> ImplicitView:
    folds = _folds(record, probe.effects)
    return ImplicitView(probe, tuple(grids.implicit(record, probe)), tuple(folds), tuple(refusal_words(probe.refusals)))


def _retrieval(record: AuditRecord, probe: RetrievalAudit) -> RetrievalView:
    noun = "subject" if probe.kind == "retrieval" else "word"
    groupings = dict.fromkeys((row.over, row.fixed, row.k) for row in probe.within)
    scale = share_scale(x for row in probe.recall for x in (row.value, row.lo, row.hi))
    recall = tuple(
        (row, Track(value=scale.at(row.value), lo=scale.at(row.lo), hi=scale.at(row.hi))) for row in probe.recall
    )
    return RetrievalView(
        probe,
        noun,
        recall,
        scale,
        tuple(
            (one, grids.skews_by_subject(record, probe, one.over, one.k, noun))
            for one in skews_of(probe.summaries, probe.skews)
        ),
        tuple(grids.within(record, probe, *key) for key in groupings),
        tuple(refusal_words(probe.refusals)),
    )
