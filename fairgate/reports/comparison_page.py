"""audit.html: its tables, numbers of models that are drawn or shaded, and how many of them in which order; the page's
script sorts them and hands them out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

from fairgate import records
from fairgate.ground.errors import clean
from fairgate.ground.number_format import interval, number, percent_of, signed
from fairgate.reports import comparison_findings as words
from fairgate.reports.charts import Scale, scale_for
from fairgate.reports.data_table import (
    SHADES,
    Column,
    Line,
    Table,
    TableCell,
    exact,
    number_cell,
    p_cell,
    share_scale,
)
from fairgate.reports.formatting import grouped, metric_words
from fairgate.reports.ranking_tables import recall_table, skew_tables, skews_table
from fairgate.reports.standalone_page import render_page
from fairgate.reports.trade_off import trade_off_plots, trade_off_table

MOST_SUBJECTS: Final = 12
"""Subjects that one place of the page has in full; the rest are in audit.csv."""


def models_table(probe: records.ClassificationAudit) -> Table:
    """F_M and accuracy on all subjects, the highest F_M first (the highest accuracy, where F_M is not defined)."""
    rows = [row for row in probe.fairness if row.subject is None]
    measured = any(row.fairness is not None for row in rows)
    fairness = share_scale(x for row in rows for x in (row.fairness, row.lo, row.hi))
    accuracy = share_scale(x for row in rows for x in (row.accuracy, row.accuracy_lo, row.accuracy_hi))
    columns = [Column("accuracy, drawn", "drawn", scale=accuracy), Column("accuracy")]
    if measured:
        columns = [Column("F_M, drawn", "drawn", scale=fairness), Column("F_M"), *columns]
    lines = []
    for row in sorted(rows, key=lambda row: (-(row.fairness or 0.0), -(row.accuracy or 0.0))):
        right = row.accuracy, row.accuracy_lo, row.accuracy_hi
        fair = row.fairness, row.lo, row.hi
        cells = [TableCell(track=fairness.track(*fair)), number_cell(*fair)] if measured else []
        lines.append(Line(row.model, [*cells, TableCell(track=accuracy.track(*right)), number_cell(*right)]))
    legend = [("●", "estimate, with its interval")]
    legend += [] if measured else [("–", "F_M needs counterfactual sets, and these are single images")]
    title = "Fairness and accuracy of every model" if measured else "Accuracy of every model"
    return Table(("models", probe.name), title, "model", columns, lines, "bars", legend=legend)


def subjects_table(record: records.AuditRecord, probe: records.ClassificationAudit) -> Table | None:
    """F_M by subject (accuracy, where F_M is not defined), the lowest darkest."""
    by_subject = [row for row in probe.fairness if row.subject is not None]
    if not by_subject:
        return None
    measured = any(row.fairness is not None for row in by_subject)
    value = {(row.model, row.subject): row.fairness if measured else row.accuracy for row in by_subject}
    subjects = list(dict.fromkeys(row.subject for row in by_subject if row.subject is not None))
    worst = max((1 - x for x in value.values() if x is not None), default=0.0)

    def cell(x: float | None) -> TableCell:
        shade = round(SHADES * (1 - x) / worst) if x is not None and worst > 0.02 else 0
        return TableCell(number(x), value=x, shade=shade)

    lines = [Line(model.name, [cell(value[model.name, subject]) for subject in subjects]) for model in record.models]
    title = "F_M by subject" if measured else "accuracy by subject"
    return Table(("subjects", probe.name), title, "model", [*map(Column, subjects)], lines)


def pairs_table(probe: str, pairs: Sequence[records.PairRow], margin: float) -> Table:
    """Pairs of models on one subject; the band of the drawing is what counts as no difference."""
    subject = pairs[0].subject
    title, key = (
        f"Pairs of models, second against first, {words.subject_words(subject)}",
        ("pairs", probe, subject or ""),
    )
    change = Column("Δ\u00a0accuracy")
    if all(pair.spread_delta is None for pair in pairs):
        columns = [change, Column("paired\u00a0p", "p")]
        lines = [_pair(p, _accuracy_change(p), p_cell(p.p_accuracy)) for p in pairs]
        return Table(key, title, "models", columns, lines, "bars", head=subject or "")
    scale = scale_for([-margin, margin, *(x for p in pairs for x in (p.spread_delta, p.spread_lo, p.spread_hi))])
    lines = []
    for p in pairs:
        conclusion, why = words.conclusion_of(p, margin), words.why_of(p)
        opposed = "the two tests disagree" if why else ""
        spread = p.spread_delta, p.spread_lo, p.spread_hi
        band = scale.band(-margin, margin, 0.0)
        drawn_change = TableCell(track=scale.track(*spread, zero=scale.at(0.0), null=band, failed=words.fairer(p)))
        lines.append(
            _pair(
                *(p, number_cell(p.delta, p.lo, p.hi, signed), p_cell(p.p_mood_adjusted), drawn_change),
                *(number_cell(*spread, signed), p_cell(p.p_paired), _accuracy_change(p)),
                TableCell(conclusion, opposed, export=f"{conclusion}; {opposed}" if why else None, why=why),
            )
        )
    drawn = Column("mean change of spread, drawn", "drawn", scale=scale)
    columns = [
        *(Column("ΔF_M"), Column("Mood’s\u00a0p", "p"), drawn, Column("mean change of spread")),
        *(Column("paired\u00a0p", "p"), change, Column("set by set", "text")),
    ]
    limits = "second minus first, with limits that hold for all pairs at once; right: the second is less fair"
    legend = (("●", limits), ("null", "counts as no difference"))
    return Table(key, title, "models", columns, lines, "bars", legend=legend, head=subject or "")


def _accuracy_change(pair: records.PairRow) -> TableCell:
    return number_cell(pair.accuracy_delta, pair.accuracy_lo, pair.accuracy_hi, signed)


def _pair(pair: records.PairRow, *cells: TableCell) -> Line:
    shown = f"{clean(pair.first, 60)} → {clean(pair.second, 60)}"
    return Line(f"{pair.first} → {pair.second}", cells, shown)


def effects_tables(probe: str, effects: Sequence[records.EffectRow], alpha: float) -> list[Table]:
    """Effects of one outcome and grouping against the reference, group by group with every model under each, a table
    per subject: all subjects first, then by the strongest clear effect."""
    by_subject = grouped(effects, lambda row: row.subject)
    scale = scale_for([0.0, *(x for row in effects for x in (row.effect, row.lo, row.hi))])

    def rank(subject: str | None) -> tuple[bool, float]:
        sizes = (abs(row.effect or 0.0) for row in by_subject[subject] if words.clear(row, alpha))
        return subject is not None, -max(sizes, default=0.0)

    return [_forest(probe, by_subject[subject], scale, alpha) for subject in sorted(by_subject, key=rank)]


def _forest(probe: str, effects: Sequence[records.EffectRow], scale: Scale, alpha: float) -> Table:
    first = effects[0]
    means = list(dict.fromkeys((row.model, row.reference_mean) for row in effects))
    single = len(means) == 1
    lines = []
    groups = list(dict.fromkeys(row.group for row in effects))
    for row in sorted(effects, key=lambda row: groups.index(row.group)):
        is_clear = words.clear(row, alpha)
        failed = is_clear and (row.effect or 0.0) < 0 and row.outcome != "p_positive"  # neither way is better there
        limits = row.effect, row.lo, row.hi
        drawn = TableCell(track=scale.track(*limits, zero=scale.at(0.0), failed=failed))
        effect = TableCell(signed(row.effect), interval(row.lo, row.hi) or "no spread", *limits)
        mark = ("fail" if failed else "") if is_clear else None
        name, heading = (row.group, "") if single else (row.model, row.group)
        lines.append(Line(name, (drawn, effect, p_cell(row.p_adjusted)), mark=mark, heading=heading))
    subject = words.subject_words(first.subject)
    listed = ", ".join(f"{clean(name, 60)} {number(mean)}" for name, mean in means[:12])
    return Table(
        key=("effects", probe, first.outcome, first.over, first.subject or ""),
        title=f"{records.OUTCOMES[first.outcome]} by {first.over} against {first.reference}, {subject}",
        first="group" if single else "group and model",
        columns=(Column("effect, drawn", "drawn", scale=scale), Column("effect"), Column("adj. p", "p")),
        lines=lines,
        look="bars forest",
        head=subject,
        note=f"against {clean(first.reference, 80)}: {listed}",
        height=22,
    )


def taken_tables(record: records.AuditRecord, probe: records.ClassificationAudit) -> list[Table]:
    """Each group's most frequent wrong label by model, a table per subject with mistakes and grouping; the subject with
    most mistakes first."""
    overs = list(dict.fromkeys(row.over for row in probe.taken))
    often = Counter[str]()
    for row in probe.taken:
        often[row.subject] += row.count
    columns = [Column(model.name, aside=f"{model.name}, share") for model in record.models]
    tables = []
    for subject, _ in often.most_common(MOST_SUBJECTS):
        for over in overs:
            rows = [row for row in probe.taken if (row.subject, row.over) == (subject, over)]
            lines = []
            for group in _groups(record, over):
                if any(row.group == group for row in rows):
                    most = (words.most_taken(rows, model.name, subject, group, over) for model in record.models)
                    lines.append(Line(group, [*map(_mistake, most)]))
            key = ("taken", probe.name, subject, *([over] if len(overs) > 1 else []))
            head = f"{subject} by {over}" if len(overs) > 1 else subject
            title = f"{head} taken for another label"
            tables.append(Table(key, title, over, columns, lines, "heat left texts", head=head))
    return tables


def _mistake(most: records.TakenFor | None) -> TableCell:
    if most is None:
        return TableCell("–")
    share = most.count / most.total
    shade, text = math.ceil(SHADES * share), f"“{most.predicted}”"
    return TableCell(text, percent_of(share), share, export=most.predicted, aside=share, shade=shade)


def _groups(record: records.AuditRecord, over: str) -> list[str]:
    """Groups of crossed attributes in declared order."""
    return [*map(records.CROSS.join, product(*(record.dataset.attributes[name] for name in over.split(records.CROSS))))]


def implicit_tables(record: records.AuditRecord, probe: records.ImplicitAudit) -> list[Table]:
    """P(positive label) of every group by model, for every grouping."""
    models = [model.name for model in record.models]
    columns = [Column(model, aside=f"{model}, within sets") for model in models]
    by_group = {(row.model, row.over, row.group): row for row in probe.groups}

    def cell(model: str, over: str, group: str) -> TableCell:
        row = by_group.get((model, over, group))
        if row is None:
            return TableCell(number(None))
        within = "" if row.within_sets is None else f"{signed(row.within_sets)} within sets"
        under = ", ".join(filter(None, [interval(row.lo, row.hi), within]))
        return TableCell(number(row.mean), under, row.mean, row.lo, row.hi, aside=row.within_sets)

    tables = []
    for over in dict.fromkeys(row.over for row in probe.groups):
        groups = dict.fromkeys(row.group for row in probe.groups if row.over == over)
        lines = [Line(group, [cell(model, over, group) for model in models]) for group in groups]
        spreads = {row.model: (row.value, row.lo, row.hi) for row in probe.spreads if row.over == over}
        foot = [Line("highest less lowest", [number_cell(*spreads.get(model, (None,))) for model in models])]
        title = f"P(“{probe.positive}”) by {over}"
        key = ("implicit", probe.name, over)
        tables.append(Table(key, title, "group", columns, lines, foot=foot, head=f"by {over}"))
    return tables


def metrics_table(record: records.AuditRecord, probe: records.MetricsAudit) -> Table | None:
    """The value of each metric for every model, a row per metric, subject or word, and grouping; and per check, where
    several measure that with other settings."""
    by_line: dict[tuple[str, str], dict[str, records.MetricRow]] = {}
    for row in probe.rows:
        about = f", {row.subject}" if row.subject is not None else ""
        over = f" over {row.over}" if row.over is not None else ""
        by_line.setdefault((f"{metric_words(row)}{about}{over}", row.check), {})[row.model] = row
    names = [name for name, _ in by_line]
    columns = [Column(model.name) for model in record.models]
    lines = []
    for (name, check), by_model in by_line.items():
        cells = [_metric_cell(by_model.get(model.name)) for model in record.models]
        lines.append(Line(name if names.count(name) == 1 else f"{name} ({check})", cells))
    title = "Further metrics of the suite’s checks"
    return Table(("metrics", probe.name), title, "metric", columns, lines) if lines else None


def _metric_cell(row: records.MetricRow | None) -> TableCell:
    if row is None:
        return TableCell(number(None))
    under = ", ".join(filter(None, [interval(row.lo, row.hi), row.worst_group]))
    return TableCell(number(row.value, row.status), under, exact(row.value, row.status), row.lo, row.hi)


def overview(record: records.AuditRecord) -> Iterator[tuple[records.ProbeAudit | records.MetricsAudit, Table]]:
    """The tables that audit.tex and the terminal have: of all subjects together, F_M by subject, and further
    metrics."""
    for probe in record.probes:
        tables: list[Table | None]
        if isinstance(probe, records.ClassificationAudit):
            pairs = [pair for pair in probe.pairs if pair.subject is None]
            tables = [models_table(probe), subjects_table(record, probe)]
            tables += [pairs_table(probe.name, pairs, probe.margin)] if pairs else []
        elif isinstance(probe, records.ImplicitAudit):
            tables = [*implicit_tables(record, probe)]
        else:
            tables = [recall_table(probe), *skew_tables(probe)]
        yield from ((probe, table) for table in tables if table is not None)
    for metric in record.metrics:
        if (further := metrics_table(record, metric)) is not None:
            yield metric, further


_TABLES: Final = (
    *(models_table, subjects_table, taken_tables, implicit_tables, metrics_table),
    *(recall_table, skew_tables, skews_table),
)
"""What the template calls."""
_ROWS: Final = 2500
"""Rows of forest plots of one probe."""
_PAIRS: Final = 1000
"""Rows of pairs of models of one probe, when there are more than pairs on all subjects."""


def comparison_html(record: records.AuditRecord) -> str:
    """The page as text: one file that loads nothing; a script in it sorts and exports tables."""
    classified = [probe for probe in record.probes if isinstance(probe, records.ClassificationAudit)]
    views = [_classification(record, probe) for probe in classified]
    tables: dict[str, Any] = {make.__name__: make for make in _TABLES}
    return render_page("comparison", record=record, classification=views, folds_of=_folds, words=words, **tables)


def collection_html(collection: records.AuditCollection) -> str:
    """audits.html: the overview tables of every suite on one page, each with a link to all of its own."""
    models = list({model.uri: model for record in collection.audits for model in record.models}.values())
    context: dict[str, Any] = {"collection": collection, "models": models, "words": words, "overview": _overview}
    context |= {"trade_off": trade_off_table(collection.audits), "plots": trade_off_plots(collection.audits)}
    return render_page("comparisons", look="comparison", **context)


def _overview(record: records.AuditRecord) -> Iterator[tuple[records.ProbeAudit | records.MetricsAudit, Table]]:
    """The overview tables of one of several suites, which may have probes of one name."""
    return ((probe, replace(table, key=(record.suite, *table.key))) for probe, table in overview(record))


def _classification(record: records.AuditRecord, probe: records.ClassificationAudit) -> dict[str, Any]:
    """What the template draws of a zero-shot probe. Pairs on `more_pairs` subjects are left to audit.csv."""
    by_subject = grouped(probe.pairs, lambda pair: pair.subject)
    most = max(1, min(MOST_SUBJECTS + 1, _PAIRS // max(map(len, by_subject.values()), default=1)))
    pairs = [pairs_table(probe.name, pairs, probe.margin) for pairs in list(by_subject.values())[:most]]
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
        forests = effects_tables(probe.name, by_fold[outcome, over], record.decision.alpha)
        shown = forests[: MOST_SUBJECTS + 1]
        while shown and sum(len(table.rows) for table in shown) > left:
            shown = shown[:-1]
        left -= sum(len(table.rows) for table in shown)
        more = len(forests) - len(shown)
        folds.append({"title": f"{records.OUTCOMES[outcome]} by {over}", "tables": shown, "more": more})
    return folds
