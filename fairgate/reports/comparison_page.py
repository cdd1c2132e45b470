"""audit.html: which tables it contains, how many of each, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from fairgate import records
from fairgate.reports import comparison_findings as words
from fairgate.reports import comparison_tables as tables
from fairgate.reports import ranking_tables as rankings
from fairgate.reports.data_table import Table
from fairgate.reports.formatting import grouped
from fairgate.reports.standalone_page import render_page

_ROWS: Final = 2500
"""Rows of forest plots of one probe."""
_PAIRS: Final = 1000
"""Rows of pairs of models of one probe, when there are more than pairs on all subjects."""


def comparison_html(record: records.AuditRecord) -> str:
    """The page as text: one file that loads nothing; a script in it sorts and exports tables."""
    classified = [probe for probe in record.probes if isinstance(probe, records.ClassificationAudit)]
    views = [_classification(record, probe) for probe in classified]
    modules: dict[str, Any] = {"words": words, "tables": tables, "rankings": rankings}
    return render_page("comparison", record=record, classification=views, folds_of=_folds, **modules)


def collection_html(collection: records.AuditCollection) -> str:
    """audits.html: the overview tables of every suite on one page, each with a link to all of its own."""
    models = list({model.uri: model for record in collection.audits for model in record.models}.values())
    context: dict[str, Any] = {"collection": collection, "models": models, "words": words, "overview": _overview}
    return render_page("comparisons", look="comparison", **context)


def _overview(record: records.AuditRecord) -> Iterator[tuple[records.ProbeAudit | records.MetricsAudit, Table]]:
    """The overview tables of one of several suites, which may have probes of one name."""
    return ((probe, replace(table, key=(record.suite, *table.key))) for probe, table in tables.overview(record))


def _classification(record: records.AuditRecord, probe: records.ClassificationAudit) -> dict[str, Any]:
    """What the template draws of a zero-shot probe. Pairs on `more_pairs` subjects are left to audit.csv."""
    by_subject = grouped(probe.pairs, lambda pair: pair.subject)
    most = max(1, min(tables.MOST_SUBJECTS + 1, _PAIRS // max(map(len, by_subject.values()), default=1)))
    pairs = [tables.pairs_table(probe.name, pairs, probe.margin) for pairs in list(by_subject.values())[:most]]
    disagreeing = [
        (", ".join(f"{pair.first} → {pair.second}" for pair in pairs), why)
        for why, pairs in words.disagreements(probe.pairs).items()
    ]
    return {
        "probe": probe,
        "pairs": pairs,
        "more_pairs": len(by_subject) - len(pairs),
        "disagreements": disagreeing,
        "folds": _folds(record, probe),
    }


def _folds(
    record: records.AuditRecord, probe: records.ClassificationAudit | records.ImplicitAudit
) -> list[dict[str, Any]]:
    """Forest plots by outcome and grouping, in a fold each. `more` subjects are left to audit.csv."""
    by_fold = grouped(probe.effects, lambda row: (row.outcome, row.over))
    left, folds = _ROWS, []
    for outcome, over in sorted(by_fold, key=lambda key: (key[0] != "correct", -key[1].count("×"))):
        forests = tables.effects_tables(probe.name, by_fold[outcome, over], record.decision.alpha)
        shown = forests[: tables.MOST_SUBJECTS + 1]
        while shown and sum(len(table.rows) for table in shown) > left:
            shown = shown[:-1]
        left -= sum(len(table.rows) for table in shown)
        more = len(forests) - len(shown)
        folds.append({"title": f"{records.OUTCOMES[outcome]} by {over}", "tables": shown, "more": more})
    return folds
