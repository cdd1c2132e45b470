"""The tables of audit.html: numbers of models, drawn or shaded; the page's script sorts them and hands them out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from fairgate.plain_text import clean
from fairgate.records import CROSS
from fairgate.records.comparison import (
    OUTCOMES,
    AuditRecord,
    ClassificationAudit,
    EffectRow,
    ImplicitAudit,
    PairRow,
    RetrievalAudit,
    SkewRow,
    SkewSummary,
    TakenFor,
)
from fairgate.reports.charts import Box, Scale, Track, percent, scale_for
from fairgate.reports.comparison_findings import conclusion_of, most_taken, subject_words, why_of
from fairgate.reports.data_table import Cell, Column, Line, Table, drawn_cell, exact, number_cell, p_cell, signed_cell
from fairgate.reports.formatting import interval, number, percent_of, percent_words, signed

MOST_SUBJECTS: Final = 12
"""Subjects that one place of the page has in full; the rest are in audit.csv."""
_LINES: Final = 200
_DOTS: Final = 400
_SHADES: Final = 7


def _share_scale(shares: Iterable[float | None]) -> Scale:
    """A line for shares. Where all are one number, a stretch below it: never one beyond 1."""
    held = [share for share in shares if share is not None]
    return scale_for([*held, 0.9 * min(held)] if held and min(held) == max(held) else held)


def models_table(probe: ClassificationAudit) -> Table:
    """F_M and accuracy on all subjects, the highest F_M first (the highest accuracy, where F_M is not defined)."""
    rows = [row for row in probe.fairness if row.subject is None]
    measured = any(row.fairness is not None for row in rows)
    fairness = _share_scale(x for row in rows for x in (row.fairness, row.lo, row.hi))
    accuracy = _share_scale(x for row in rows for x in (row.accuracy, row.accuracy_lo, row.accuracy_hi))
    columns = [Column("accuracy, drawn", "drawn", scale=accuracy), Column("accuracy")]
    if measured:
        columns = [Column("F_M, drawn", "drawn", scale=fairness), Column("F_M"), *columns]
    lines = []
    for row in sorted(rows, key=lambda row: (-(row.fairness or 0.0), -(row.accuracy or 0.0))):
        right = row.accuracy, row.accuracy_lo, row.accuracy_hi
        fair = row.fairness, row.lo, row.hi
        cells = [drawn_cell(fairness, *fair), number_cell(*fair)] if measured else []
        lines.append(Line(row.model, (*cells, drawn_cell(accuracy, *right), number_cell(*right))))
    legend = [("●", "estimate, with its interval")]
    legend += [] if measured else [("–", "F_M needs counterfactual sets, and these are single images")]
    title = "Fairness and accuracy of every model"
    bodies = (("", tuple(lines)),)
    return Table(("models", probe.name), title, "model", tuple(columns), bodies, "bars", legend=tuple(legend))


def subjects_table(record: AuditRecord, probe: ClassificationAudit) -> Table | None:
    """F_M by subject (accuracy, where F_M is not defined), the lowest darkest."""
    held = [row for row in probe.fairness if row.subject is not None]
    if not held:
        return None
    measured = any(row.fairness is not None for row in held)
    value = {(row.model, row.subject): row.fairness if measured else row.accuracy for row in held}
    subjects = list(dict.fromkeys(row.subject for row in held if row.subject is not None))
    worst = max((1 - x for x in value.values() if x is not None), default=0.0)

    def cell(x: float | None) -> Cell:
        shade = round(_SHADES * (1 - x) / worst) if x is not None and worst > 0.02 else 0
        return Cell(number(x), value=x, shade=shade)

    lines = [Line(one.name, tuple(cell(value[one.name, subject]) for subject in subjects)) for one in record.models]
    title = "F_M by subject" if measured else "accuracy by subject"
    return Table(("subjects", probe.name), title, "model", tuple(map(Column, subjects)), (("", tuple(lines)),))


def pairs_table(probe: str, pairs: Sequence[PairRow], margin: float) -> Table:
    """Pairs of models on one subject; the band of the drawing is what counts as no difference."""
    subject = pairs[0].subject
    title, key = f"Pairs of models, {subject_words(subject)}", ("pairs", probe, subject or "")
    change = Column("Δ\u00a0accuracy")
    if all(pair.spread_delta is None for pair in pairs):
        columns: tuple[Column, ...] = (change, Column("paired\u00a0p", "p"))
        lines = [_pair(p, _accuracy_change(p), p_cell(p.p_accuracy)) for p in pairs]
        return Table(key, title, "models", columns, (("", tuple(lines)),), "bars", head=subject or "")
    scale = scale_for([-margin, margin, *(x for p in pairs for x in (p.spread_delta, p.spread_lo, p.spread_hi))])
    start, end = scale.place(-margin), scale.place(margin)
    lines = []
    for p in pairs:
        said, why = conclusion_of(p, margin), why_of(p)
        opposed = "the two tests disagree" if why else ""
        spread = p.spread_delta, p.spread_lo, p.spread_hi
        track = Track(
            zero=scale.at(0.0),
            value=scale.at(p.spread_delta),
            lo=scale.at(p.spread_lo),
            hi=scale.at(p.spread_hi),
            null=(percent(start), percent(end - start), percent(scale.place(0.0))),
            failed=p.conclusion in ("first_fairer", "second_fairer"),
        )
        lines.append(
            _pair(
                *(p, signed_cell(p.delta, p.lo, p.hi), p_cell(p.p_mood_adjusted), Cell(track=track)),
                *(signed_cell(*spread), p_cell(p.p_paired), _accuracy_change(p)),
                Cell(said, opposed, export=f"{said}; {opposed}" if why else None, why=why),
            )
        )
    drawn = Column("mean change of spread, drawn", "drawn", scale=scale)
    columns = (
        *(Column("ΔF_M"), Column("Mood’s\u00a0p", "p"), drawn, Column("mean change of spread")),
        *(Column("paired\u00a0p", "p"), change, Column("set by set", "text")),
    )
    limits = "second minus first, with limits that hold for all pairs at once; right: the second is less fair"
    legend = (("●", limits), ("null", "counts as no difference"))
    return Table(key, title, "models", columns, (("", tuple(lines)),), "bars", legend=legend, head=subject or "")


def _accuracy_change(pair: PairRow) -> Cell:
    return signed_cell(pair.accuracy_delta, pair.accuracy_lo, pair.accuracy_hi)


def _pair(pair: PairRow, *cells: Cell) -> Line:
    shown = f"{clean(pair.first, 60)} → {clean(pair.second, 60)}"
    return Line(f"{pair.first} → {pair.second}", cells, shown)


def effects_tables(probe: str, effects: Sequence[EffectRow], alpha: float) -> list[Table]:
    """Effects of one outcome and grouping against the reference, group by group with every model under each, a table
    per subject: all subjects first, then by the strongest clear effect."""
    by_subject: dict[str | None, list[EffectRow]] = {}
    for row in effects:
        by_subject.setdefault(row.subject, []).append(row)
    scale = scale_for([0.0, *(x for row in effects for x in (row.effect, row.lo, row.hi))])

    def rank(subject: str | None) -> tuple[bool, float]:
        clear = (abs(row.effect or 0.0) for row in by_subject[subject] if _clear(row, alpha))
        return subject is not None, -max(clear, default=0.0)

    return [_forest(probe, by_subject[subject], scale, alpha) for subject in sorted(by_subject, key=rank)]


def _clear(row: EffectRow, alpha: float) -> bool:
    return row.p_adjusted is not None and row.p_adjusted <= alpha


def _forest(probe: str, effects: Sequence[EffectRow], scale: Scale, alpha: float) -> Table:
    first = effects[0]
    means = list(dict.fromkeys((row.model, row.reference_mean) for row in effects))
    single = len(means) == 1
    groups: dict[str, list[Line]] = {}
    for row in effects:
        clear = _clear(row, alpha)
        failed = clear and (row.effect or 0.0) < 0 and row.outcome != "p_positive"  # neither way is better there
        at = scale.at
        track = Track(zero=at(0.0), value=at(row.effect), lo=at(row.lo), hi=at(row.hi), failed=failed)
        effect = Cell(signed(row.effect), interval(row.lo, row.hi) or "no spread", row.effect, row.lo, row.hi)
        mark = ("fail" if failed else "") if clear else None
        name = row.group if single else row.model
        line = Line(name, (Cell(track=track), effect, p_cell(row.p_adjusted)), mark=mark)
        groups.setdefault(row.group, []).append(line)
    subject = subject_words(first.subject)
    listed = ", ".join(f"{clean(name, 60)} {number(mean)}" for name, mean in means[:12])
    bodies = [("" if single else group, tuple(lines)) for group, lines in groups.items()]
    if single:
        bodies = [("", tuple(line for _, lines in bodies for line in lines))]
    return Table(
        key=("effects", probe, first.outcome, first.over, first.subject or ""),
        title=f"{OUTCOMES[first.outcome]} by {first.over} against {first.reference}, {subject}",
        first="group" if single else "group and model",
        columns=(Column("effect, drawn", "drawn", scale=scale), Column("effect"), Column("adj. p", "p")),
        bodies=tuple(bodies),
        look="bars forest",
        head=subject,
        note=f"against {clean(first.reference, 80)}: {listed}",
        height=22,
    )


def taken_tables(record: AuditRecord, probe: ClassificationAudit) -> list[Table]:
    """Each group's most frequent wrong label by model, a table per subject with mistakes and grouping; the subject with
    most mistakes first."""
    overs = list(dict.fromkeys(one.over for one in probe.taken))
    often: dict[str, int] = {}
    for one in probe.taken:
        often[one.subject] = often.get(one.subject, 0) + one.count
    columns = tuple(Column(model.name, aside=f"{model.name}, share") for model in record.models)
    tables = []
    for subject in sorted(often, key=lambda name: -often[name])[:MOST_SUBJECTS]:
        for over in overs:
            held = [one for one in probe.taken if (one.subject, one.over) == (subject, over)]
            lines = tuple(
                Line(
                    group,
                    tuple(_mistake(most_taken(held, model.name, subject, group, over)) for model in record.models),
                )
                for group in _groups(record, over)
                if any(one.group == group for one in held)
            )
            key = ("taken", probe.name, subject, *([over] if len(overs) > 1 else []))
            head = f"{subject} by {over}" if len(overs) > 1 else subject
            title = f"{head} taken for another label"
            tables.append(Table(key, title, over, columns, (("", lines),), "heat left texts", head=head))
    return tables


def _mistake(most: TakenFor | None) -> Cell:
    if most is None:
        return Cell("–")
    share = most.count / most.total
    shade, text = math.ceil(_SHADES * share), f"“{most.predicted}”"
    return Cell(text, percent_of(share), share, export=most.predicted, aside=share, shade=shade)


def _groups(record: AuditRecord, over: str) -> list[str]:
    """Groups of crossed attributes in declared order."""
    names = [""]
    for attribute in over.split(CROSS):
        groups = record.dataset.attributes[attribute]
        names = [f"{name}{CROSS}{group}" if name else group for name in names for group in groups]
    return names


def implicit_tables(record: AuditRecord, probe: ImplicitAudit) -> list[Table]:
    """P(positive label) of every group by model, for every grouping."""
    models = [model.name for model in record.models]
    columns = tuple(Column(model, aside=f"{model}, within sets") for model in models)
    held = {(row.model, row.over, row.group): row for row in probe.groups}

    def cell(model: str, over: str, group: str) -> Cell:
        row = held.get((model, over, group))
        if row is None:
            return Cell(number(None))
        within = "" if row.within_sets is None else f"{signed(row.within_sets)} within sets"
        return Cell(number(row.mean), within, row.mean, aside=row.within_sets)

    tables = []
    for over in dict.fromkeys(row.over for row in probe.groups):
        groups = dict.fromkeys(row.group for row in probe.groups if row.over == over)
        lines = tuple(Line(group, tuple(cell(model, over, group) for model in models)) for group in groups)
        measured = {row.model for row in probe.groups if row.over == over}
        spreads = [probe.spread(model, over) if model in measured else None for model in models]
        foot = (Line("highest less lowest", tuple(map(number_cell, spreads))),)
        key, title = ("implicit", probe.name, over), f"by {over}"
        tables.append(Table(key, title, "group", columns, (("", lines),), foot=foot, head=title))
    return tables


def recall_table(probe: RetrievalAudit) -> Table | None:
    """R@k of every model, where there is any."""
    scale = _share_scale(x for row in probe.recall for x in (row.value, row.lo, row.hi))
    lines = tuple(
        Line(f"{clean(row.model, 80)} R@{row.k}", (drawn_cell(scale, *limits), number_cell(*limits)))
        for row in probe.recall
        for limits in [(row.value, row.lo, row.hi)]
    )
    columns = (Column("recall, drawn", "drawn", scale=scale), Column("R@k"))
    table = Table(("recall", probe.name), "R@k of every model", "model", columns, (("", lines),), "bars subjects")
    return table if lines else None


def skew_tables(probe: RetrievalAudit) -> list[tuple[str, int, Table]]:
    """For every grouping and k, the subjects of every model on one line, those beyond the fair ranker's 95% marked."""
    tables = []
    for over, k in dict.fromkeys((row.over, row.k) for row in probe.summaries):
        held = [row for row in probe.skews if (row.over, row.k) == (over, k)]
        scale = scale_for([0.0, *(row.value for row in held), *(row.null_p95 for row in held)])
        lines = tuple(
            _strip(row, [one for one in held if one.model == row.model], scale)
            for row in probe.summaries
            if (row.over, row.k) == (over, k)
        )
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
        table = Table(key, title, "model", columns, (("", lines),), "bars subjects", legend=legend, height=34)
        tables.append((over, k, table))
    return tables


def _strip(row: SkewSummary, subjects: Sequence[SkewRow], scale: Scale) -> Line:
    start, end = scale.place(row.null_median), scale.place(row.null_p95)
    dots = [(percent(scale.place(one.value)), one.value > one.null_p95) for one in subjects if one.value is not None]
    null = (percent(start), percent(end - start), percent(start))
    track = Track(null=null, box=_box(row, scale), dots=tuple(dots[:_DOTS]))
    beyond = Cell(f"{row.beyond} of {row.subjects}", value=row.beyond, aside=row.subjects)
    chance = _chance(row.null_median, row.null_p95)
    return Line(row.model, (Cell(track=track), number_cell(row.mean), number_cell(row.median), chance, beyond))


def _box(row: SkewSummary, scale: Scale) -> Box | None:
    """The five numbers of the box, where there are subjects enough and all are finite."""
    found = [x for x in (row.lowest, row.lower_quartile, row.median, row.upper_quartile, row.highest) if x is not None]
    if row.subjects < 3 or len(found) < 5 or not all(math.isfinite(x) for x in found):
        return None
    return Box.of(found, scale)


_CHANCE: Final = Column("fair ranker: median · 95%", name="fair ranker, median", aside="fair ranker, 95%")


def _chance(median: float, p95: float) -> Cell:
    return Cell(f"{number(median)} · {number(p95)}", value=median, aside=p95)


def _beyond(value: float | None, p95: float, top: float) -> int:
    """The shade of a skew: none within what chance gives."""
    if value is None or value <= p95:
        return 0
    return _SHADES if math.isinf(value) else max(1, round(_SHADES * value / top))


def _top(values: Iterable[float | None]) -> float:
    return max((value for value in values if value is not None and math.isfinite(value)), default=0.0)


def skews_table(record: AuditRecord, probe: RetrievalAudit, over: str, k: int, noun: str) -> Table:
    """MaxSkew of every subject and model with the favoured group; shaded beyond the fair ranker's 95% point."""
    held = {(row.model, row.subject): row for row in probe.skews if (row.over, row.k) == (over, k)}
    top = _top(row.value for row in held.values())
    subjects = list(dict.fromkeys(subject for _, subject in held))

    def cell(row: SkewRow) -> Cell:
        favoured, value = row.favoured + (" (tie)" if row.tied else ""), exact(row.value, row.status)
        shade = _beyond(row.value, row.null_p95, top)
        return Cell(number(row.value, row.status), favoured, value, aside=favoured, shade=shade)

    lines = []
    for subject in subjects[:_LINES]:
        rows = [held[model.name, subject] for model in record.models]
        lines.append(Line(subject, (*map(cell, rows), _chance(rows[0].null_median, rows[0].null_p95))))
    columns = (*(Column(model.name, aside=f"{model.name}, favoured") for model in record.models), _CHANCE)
    key, title = ("skews", probe.name, over, str(k)), f"MaxSkew@{k} over {over}, one by one"
    legend = (("", "under each value: the most favoured group"), ("", "shaded: beyond the fair ranker’s 95% point"))
    return Table(key, title, noun, columns, (("", tuple(lines)),), legend=legend, more=len(subjects) - len(lines))


def within_table(record: AuditRecord, probe: RetrievalAudit, over: str, fixed: str, k: int) -> Table:
    """MaxSkew over one attribute within each group of another, and how far these lie apart (paper 3, figure 2)."""
    held = {(row.model, row.group): row for row in probe.within if (row.over, row.fixed, row.k) == (over, fixed, k)}
    ratio = {row.model: row for row in probe.differences if (row.over, row.fixed, row.k) == (over, fixed, k)}
    top = _top(row.value for row in held.values())
    lines = []
    for group in record.dataset.attributes[fixed]:
        rows = [held[model.name, group] for model in record.models]
        cells = [Cell(number(row.value), value=row.value, shade=_beyond(row.value, row.null_p95, top)) for row in rows]
        lines.append(Line(group, (*cells, _chance(rows[0].null_median, rows[0].null_p95))))
    apart = [ratio[model.name] for model in record.models]
    median, p95 = apart[0].null_median, apart[0].null_p95
    chance = Cell(
        f"{percent_words(median)} · {percent_words(p95)}",
        value=exact(median, "infinite"),
        aside=exact(p95, "infinite"),
    )
    cells = [Cell(percent_words(row.value), value=exact(row.value, "infinite")) for row in apart]
    columns = (*(Column(model.name) for model in record.models), _CHANCE)
    key, title = ("within", probe.name, over, fixed, str(k)), f"MaxSkew@{k} over {over} within each {fixed}, on average"
    foot = (Line("relative difference", (*cells, chance)),)
    return Table(key, title, fixed, columns, (("", tuple(lines)),), foot=foot, head=title)
