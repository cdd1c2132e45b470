"""The tables of report.html: groups, subjects, effects of groups, maps of crossed attributes, who is taken for whom."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fairgate.ground.errors import clean
from fairgate.ground.number_format import interval, number, signed
from fairgate.records import CROSS, CheckResult, DatasetInfo, GroupResult, Misclassification, RunRecord
from fairgate.reports import charts
from fairgate.reports import formatting as words
from fairgate.reports.data_table import SHADES, Column, Line, Table, TableCell, number_cell, p_cell
from fairgate.reports.run_remarks import DECIDERS
from fairgate.reports.sentences import by_attribute, verdict_name

GroupKey = Callable[[str], tuple[int, ...]]
T = TypeVar("T")

_PLURAL: Final = {"subject": "subjects", "word": "words", "category": "categories"}
MOST_ROWS: Final = 16
_COLUMNS: Final = 16
"""Most groups across a map."""
_LABELS, _GROUPS = 12, 100
"""Most labels and groups of a table of confusions."""


def group_key(dataset: DatasetInfo) -> GroupKey:
    """The order in which the dataset declares its groups, crossed ones part by part; unknown groups last."""
    places: dict[str, int] = {}
    for groups in dataset.attributes.values():
        for place, group in enumerate(groups):
            places.setdefault(group, place)
    return lambda name: tuple(places.get(part, len(places)) for part in name.split(CROSS))


def heat_map(check: CheckResult, key: GroupKey) -> Table | None:
    """The change of each intersection of two attributes, or its value where nothing was compared: one attribute down,
    the other across."""
    parts = {group.group: group.group.split(CROSS) for group in check.groups}
    if len(parts) < 4 or any(len(part) != 2 for part in parts.values()):
        return None
    downs, acrosses = (sorted({part[at] for part in parts.values()}, key=key) for at in (0, 1))
    changes = any(group.delta is not None for group in check.groups)
    by_parts = {tuple(parts[group.group]): group for group in check.groups}
    top = charts.largest(group.delta if changes else group.value for group in check.groups)
    lines = [Line(d, [_cell(check, by_parts.get((d, a)), changes, top) for a in acrosses]) for d in downs]
    shown = f"change against the {words.reference(check)}" if changes else "value"
    return Table((), shown, "", [*map(Column, acrosses)], lines, "heat")


def crossed_with_subjects(checks: Sequence[CheckResult], key: GroupKey, most: int) -> Table | None:
    """The change of every group in every subject of one check; None with more groups than a table holds."""
    groups = sorted({group.group for check in checks for group in check.groups}, key=key)
    if not 2 <= len(groups) <= _COLUMNS:
        return None
    top = charts.largest(group.delta for check in checks for group in check.groups)
    lines = []
    for check in checks[:most]:
        by_name = {group.group: group for group in check.groups}
        lines.append(Line(check.about or "", [_cell(check, by_name.get(name), True, top) for name in groups]))
    return Table((), f"change against the {words.reference(checks[0])}", "", [*map(Column, groups)], lines, "heat")


def confusion_tables(confusions: Sequence[Misclassification], key: GroupKey) -> list[Table]:
    """For each group of a subject, how many images were taken for which other label: one table per probe and subject,
    the most frequent wrong label first."""
    by_subject = words.grouped(confusions, lambda confusion: (confusion.probe, confusion.subject))
    return [_confusion(place, entries, key) for place, entries in by_subject.items()]


def _confusion(place: tuple[str, str], entries: Sequence[Misclassification], key: GroupKey) -> Table:
    counts = {(entry.group, entry.predicted): entry.count for entry in entries}
    totals = {entry.group: entry.total for entry in entries}
    often = Counter[str]()
    for entry in entries:
        often[entry.predicted] += entry.count
    predicted = sorted(often, key=lambda label: (-often[label], label))[:_LABELS]

    def cell(group: str, label: str) -> TableCell:
        if (count := counts.get((group, label))) is None:
            return TableCell(number(None))
        share = count / totals[group] if totals[group] else 0.0
        return TableCell(f"{count:,} ({share:.0%})", shade=math.ceil(share * SHADES))

    groups = sorted(totals, key=key)
    lines = [
        Line(group, [*(cell(group, label) for label in predicted), TableCell(f"{totals[group]:,}")])
        for group in groups[:_GROUPS]
    ]
    columns = [*(Column(f"“{clean(label, 60)}”") for label in predicted), Column("images", "text")]
    more = max(0, len(often) - _LABELS) + max(0, len(groups) - _GROUPS)
    return Table(place, f"Confusions of {place[1]}", place[1], columns, lines, more=more)


def _cell(check: CheckResult, group: GroupResult | None, changes: bool, top: float) -> TableCell:
    if group is None:
        return TableCell(number(None))
    value = group.delta if changes else group.value
    text = signed(value) if changes else number(value, group.status)
    if value is None or math.isnan(value) or top == 0.0:
        return TableCell(text, verdict=group.verdict)
    strength = 1.0 if math.isinf(value) else abs(value) / top
    better = value <= 0 if words.worse_is_higher(check) else value >= 0
    return TableCell(text, shade=round(strength * SHADES), better=better, verdict=group.verdict)


def checks_table(checks: Sequence[CheckResult], record: RunRecord) -> Table:
    """Checks with their numbers; a bound with whose it is, and what a fair ranker has, which puts it in proportion."""
    lines = []
    for check in checks:
        group, null = words.shown_group(check), words.null_words(check).replace("a fair ranker has", "fair:")
        beside = "; ".join(filter(None, [check.decided_by and f"of {DECIDERS[check.decided_by]}", null]))
        cells = (
            TableCell(number(check.baseline), "(anchor)" if check.against == "anchor" else ""),
            TableCell(number(check.value, check.status), interval(check.lo, check.hi)),
            number_cell(check.delta, check.delta_lo, check.delta_hi, signed),
            TableCell(words.bound_words(check), beside and f"({beside})"),
            p_cell(check.p_adjusted),
            TableCell(f"{check.units:,}"),
        )
        name = f"{check.item} of {group}" if group else check.item
        verdict_words = verdict_name(check, record)
        lines.append(Line(name, cells, verdict=check.verdict, verdict_name=verdict_words, note=check.excuse or ""))
    columns = [*map(Column, ("baseline", "now", "change", "bound", "adj. p", f"{words.unit_of(record)}s"))]
    return Table((), "Checks", "check", columns, lines)


def own_intervals(check: CheckResult) -> str:
    """What tells a group's interval from the check's, where both are of one number; nothing where they are equal."""
    worst = check.worst
    if worst is None or worst.lo is None or worst.value != check.value or (worst.lo, worst.hi) == (check.lo, check.hi):
        return ""
    return "a group's interval is of that group alone; the check's is of the worst of all groups, whichever that is"


def groups_table(check: CheckResult, unit: str) -> Table | None:
    """By group, attribute after attribute, the worst group first; None for a check without groups: values on one line
    and, where groups were compared with a baseline, their changes on another. Groups too small to judge say so."""
    if not check.groups:
        return None
    groups, other, regression = check.groups, words.reference(check), check.rule == "no_worse_than"
    values = charts.scale_for(
        [0.0, *(x for group in groups for x in (group.value, group.lo, group.hi, group.baseline))]
    )
    spread = [x for group in groups for x in (group.delta, group.delta_lo, group.delta_hi)]
    changes = charts.scale_for([0.0, *(charts.margins_of(check) if regression else []), *spread])
    moved = any(group.delta is not None for group in groups)
    tested = moved and any(group.p_adjusted is not None for group in groups)
    small, attributes = {id(group) for group in check.small_groups}, by_attribute(check)

    def ordered(change: Sequence[T], now: Sequence[T], counts: Sequence[T]) -> list[T]:
        shown = change[: 2 + tested] if moved else []
        return [*shown, *now, *counts] if regression else [*now, *shown, *counts]

    def line(group: GroupResult, attribute: str) -> Line:
        limits = group.delta, group.delta_lo, group.delta_hi
        change = TableCell(track=charts.change_track(check, group, changes)), number_cell(*limits, signed)
        count, images = TableCell(f"{group.n_sets:,}"), TableCell(f"{group.n_images:,}")
        now = TableCell(number(group.value, group.status), interval(group.lo, group.hi))
        cells = ordered(
            (*change, p_cell(group.p_adjusted)),
            (TableCell(track=charts.value_track(group, values)), now, number_cell(group.baseline)),
            [count, images] if unit == "set" else [images],
        )
        note = f"too few: {group.n_sets:,}, judged from {check.min_sets:,}" if id(group) in small else ""
        worst = group.verdict == "fail" or group.group == check.worst_group
        return Line(group.group, cells, heading=attribute, verdict=group.verdict, look="worst" * worst, note=note)

    columns = ordered(
        (Column("", "drawn", name="change", scale=changes), Column("change"), Column("adj. p", "p")),
        (Column("", "drawn", name=f"now and {other}", scale=values), Column("now"), Column(other)),
        [Column("sets"), Column("images")] if unit == "set" else [Column("images")],
    )
    legend = [
        *([("●", "change, with its interval")] if moved else []),
        *([("bad", "beyond the margin")] if moved and regression else []),
        ("bar", "now, with its interval" if any(group.lo is not None for group in groups) else "now"),
        *([("◇", other)] if any(group.baseline is not None for group in groups) else []),
        ("–", "not measured, or not compared"),
        *([("", apart)] if (apart := own_intervals(check)) else []),
    ]
    several = len(attributes) > 1
    lines = [line(group, (name or "") if several else "") for name, members in attributes for group in members]
    return Table((), "By group", "group", columns, lines, "bars", legend=legend)


def subject_tables(checks: Sequence[CheckResult], most: int = 40) -> list[Table]:
    """A check over its subjects, or words, on one scale, the worst first: of each check that has at least three with a
    number. `head` is the check's name, and `note` what is drawn, in words."""
    values = ((check, charts.decided_number(check)[0]) for check in checks if check.about is not None)
    measured = (check for check, value in values if value is not None and not math.isnan(value))
    return [
        _over_subjects(of_check, most)
        for of_check in words.grouped(measured, words.check_name).values()
        if len(of_check) >= 3
    ]


def _over_subjects(checks: Sequence[CheckResult], most: int) -> Table:
    first, noun = checks[0], _noun(checks[0])
    regression, fair = first.rule == "no_worse_than", first.null_median is not None
    values_and_limits = [x for check in checks for x in (*charts.decided_number(check), *charts.margins_of(check))]
    references = [x for check in checks for x in (check.baseline, check.null_median, check.null_p95)]
    scale = charts.scale_for([*values_and_limits, 0.0] if regression else [*values_and_limits, *references])
    ordered = sorted(
        checks, key=lambda check: charts.decided_number(check)[0] or 0.0, reverse=words.worse_is_higher(first)
    )
    now = [x for check in checks if (x := charts.finite(charts.decided_number(check)[0])) is not None]
    before = [] if regression else [x for check in checks if (x := charts.finite(check.baseline)) is not None]
    summary, lines = f"{len(checks)} {_PLURAL[noun]}", []
    for among, look, numbers in ((":", "box now", now), ("; baseline:", "box baseline", before)):
        if len(numbers) >= 3:
            five = [min(numbers), *statistics.quantiles(numbers, n=4, method="inclusive"), max(numbers)]
            summary += f"{among} median {number(five[2])}, from {number(five[0])} to {number(five[4])}"
            when = f", {look.removeprefix('box ')}" if len(before) >= 3 else ""
            box = TableCell(track=charts.Track(box=scale.box(five)))
            lines.append(Line(f"all {_PLURAL[noun]}{when}", [box, TableCell(), TableCell()][: 2 + fair], look=look))
    boxes = bool(lines)
    for check in ordered[:most]:
        value = charts.decided_number(check)[0]
        text = signed(value) if regression else number(value, check.status)
        chance = TableCell(f"{number(check.null_median)} · {number(check.null_p95)}")
        cells = [TableCell(track=charts.decided_track(check, scale)), TableCell(text), chance][: 2 + fair]
        lines.append(Line(check.about or "", cells, verdict=check.verdict, note=check.excuse or ""))
    columns = [Column("estimate and interval", "drawn", scale=scale), Column("change" if regression else "now")]
    columns += [Column("fair ranker", under="median · 95%")] if fair else []
    drawn = [track for line in lines if (track := line.cells[0].track) is not None]
    half = f"box: half of the {_PLURAL[noun]}; line: their median; whiskers: all"
    legend = [
        ("●", "change, with its interval" if regression else "now, with its interval"),
        *([("◇", "baseline")] if any(track.baseline for track in drawn) else []),
        *([("null", "fair ranker, median to 95%")] if fair and not regression else []),
        *([("quart", half)] if boxes else []),
        *([("bad", "beyond the margin" if regression else "beyond the bound")] if any(t.bad for t in drawn) else []),
    ]
    title = f"{words.check_name(first)} over {_PLURAL[noun]}"
    note = f"{_measured(first)}{f', change against the {words.reference(first)}' if regression else ''}; {summary}"
    head, more = words.check_name(first), max(0, len(ordered) - most)
    return Table((), title, noun, columns, lines, "bars subjects", legend=legend, head=head, note=note, more=more)


def effect_tables(checks: Sequence[CheckResult], key: GroupKey, most: int) -> list[tuple[Table, Table | None]]:
    """A forest of the groups that moved furthest the wrong way per check that was compared group by group in at least
    two subjects, and a map of all its groups, of `most` subjects."""
    moved = (
        result
        for result in checks
        if result.about is not None and any(group.delta is not None for group in result.groups)
    )
    return [
        _effects(of_check, key, most)
        for of_check in words.grouped(moved, words.check_name).values()
        if len(of_check) >= 2
    ]


def _effects(checks: Sequence[CheckResult], key: GroupKey, most: int) -> tuple[Table, Table | None]:
    first, noun = checks[0], _noun(checks[0])
    moved = [(check, group) for check in checks for group in check.groups if charts.finite(group.delta) is not None]
    moved.sort(key=lambda row: row[1].delta or 0.0, reverse=words.worse_is_higher(first))
    shown = moved[:MOST_ROWS]
    spread = [x for _, group in shown for x in (group.delta, group.delta_lo, group.delta_hi)]
    scale = charts.scale_for([0.0, *charts.margins_of(first), *spread])
    tested = any(group.p_adjusted is not None for _, group in shown)
    lines = []
    for check, group in shown:
        change = number_cell(group.delta, group.delta_lo, group.delta_hi, signed)
        drawn = TableCell(track=charts.change_track(check, group, scale))
        cells = [TableCell(clean(group.group, 80)), drawn, change, p_cell(group.p_adjusted)][: 3 + tested]
        lines.append(Line(check.about or "", cells, verdict=group.verdict))
    columns = [Column("group", "text"), Column("change and interval", "drawn", scale=scale), Column("change")]
    columns += [Column("adj. p", "p")] if tested else []
    legend = [("●", "change, with its interval")]
    legend += [("bad", "beyond the margin")] if first.rule == "no_worse_than" else []
    head = words.check_name(first)
    title = f"Group effects of {head}"
    worst = f", the {len(lines)} worst of {len(moved):,}" if len(moved) > len(lines) else ", the worst first"
    note = f"{_measured(first)}, change against the {words.reference(first)}; every group of every {noun}{worst}"
    forest = Table((), title, noun, columns, lines, "bars subjects", legend=legend, head=head, note=note, height=22)
    return forest, crossed_with_subjects(checks, key, most)


def _noun(check: CheckResult) -> str:
    """What the check is about several of."""
    return "subject" if check.subject is not None else "word" if check.word is not None else "category"


def _measured(check: CheckResult) -> str:
    return words.measured_words(check) + (f" over {clean(check.over, 60)}" if check.over else "")
