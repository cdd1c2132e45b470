"""What report.html draws of several numbers: maps of crossed attributes, who is taken for whom, effects of groups, and
how a number moved over earlier runs, which is no part of a verdict."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number, signed
from fairgate.records import CROSS, CheckResult, DatasetInfo, GroupResult, Misclassification, PastValue, RunRecord
from fairgate.reports.charts import GroupKey, Strip, change_track, finite, largest, margins_of, scale_for
from fairgate.reports.data_table import SHADES, Column, Line, Table, TableCell
from fairgate.reports.formatting import check_name, grouped, moment, reference, share_words, worse_is_higher
from fairgate.reports.notes import COMMIT

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
    top = largest(group.delta if changes else group.value for group in check.groups)
    lines = [Line(d, [_cell(check, by_parts.get((d, a)), changes, top) for a in acrosses]) for d in downs]
    shown = f"change against the {reference(check)}" if changes else "value"
    return Table((), shown, "", [*map(Column, acrosses)], lines, "heat")


def crossed_with_subjects(checks: Sequence[CheckResult], key: GroupKey, most: int) -> Table | None:
    """The change of every group in every subject of one check; None with more groups than a table holds."""
    groups = sorted({group.group for check in checks for group in check.groups}, key=key)
    if not 2 <= len(groups) <= _COLUMNS:
        return None
    top = largest(group.delta for check in checks for group in check.groups)
    lines = []
    for check in checks[:most]:
        by_name = {group.group: group for group in check.groups}
        lines.append(Line(check.about or "", [_cell(check, by_name.get(name), True, top) for name in groups]))
    return Table((), f"change against the {reference(checks[0])}", "", [*map(Column, groups)], lines, "heat")


def confusion_tables(confusions: Sequence[Misclassification], key: GroupKey) -> list[Table]:
    """For each group of a subject, how many images were taken for which other label: one table per probe and subject,
    the most frequent wrong label first."""
    by_subject = grouped(confusions, lambda confusion: (confusion.probe, confusion.subject))
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
    columns = [*(Column(f"“{clean(label, 60)}”") for label in predicted), Column("images")]
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
    better = value <= 0 if worse_is_higher(check) else value >= 0
    return TableCell(text, shade=round(strength * SHADES), better=better, verdict=group.verdict)


MOST_ROWS: Final = 16


@dataclass(frozen=True, slots=True)
class Effects(Strip):
    """A check's groups, and a map of all of them."""

    heat: Table | None = None


def effects_of(checks: Sequence[CheckResult], key: GroupKey, most: int) -> list[Effects]:
    """A forest of the groups that moved furthest the wrong way per check that was compared group by group in at least
    two subjects, and a map of all its groups, of `most` subjects."""
    moved = (
        result
        for result in checks
        if result.about is not None and any(group.delta is not None for group in result.groups)
    )
    return [_effects(of_check, key, most) for of_check in grouped(moved, check_name).values() if len(of_check) >= 2]


def _effects(checks: Sequence[CheckResult], key: GroupKey, most: int) -> Effects:
    first = checks[0]
    moved = [(check, group) for check in checks for group in check.groups if finite(group.delta) is not None]
    moved.sort(key=lambda row: row[1].delta or 0.0, reverse=worse_is_higher(first))
    shown = moved[:MOST_ROWS]
    spread = [x for _, group in shown for x in (group.delta, group.delta_lo, group.delta_hi)]
    scale = scale_for([0.0, *margins_of(first), *spread])
    rows = [
        {"about": check.about or "", "group": group, "track": change_track(check, group, scale)}
        for check, group in shown
    ]
    return Effects(first, rows, scale, len(moved) - len(rows), heat=crossed_with_subjects(checks, key, most))


MOST_POINTS: Final = 60


@dataclass(frozen=True, slots=True)
class Spark:
    """A line over runs as SVG paths in a square of 100 by 100: numbers, their intervals, what they were held to."""

    line: str
    dots: str
    now: str
    intervals: str
    bounds: str
    said: tuple[str, ...]


def sparks_of(
    record: RunRecord, history: Iterable[PastValue], checks: Sequence[CheckResult] | None = None
) -> dict[str, Spark]:
    """A drawing per item of these checks (of all of the record's) that has at least two numbers, this run's included;
    `history` oldest first.

    Of many runs the last 60 are drawn. Bounds are drawn for checks that hold their number to one, not for margins.
    """
    model, commit = record.model.fingerprint, record.environment.git_commit
    by_item = grouped((past for past in history if past.created_at != record.created_at), lambda past: past.item)
    drawn = {}
    for check in record.checks if checks is None else checks:
        numbers = check.value, check.lo, check.hi, check.bound
        now = PastValue(commit, record.created_at, check.item, *numbers, model=model)
        points = [*by_item.get(check.item, ()), now]
        measured = [point for point in points if finite(point.value) is not None]
        if len(measured) >= 2:
            drawn[check.item] = _spark(measured[-MOST_POINTS:], check)
    return drawn


def _spark(points: Sequence[PastValue], check: CheckResult) -> Spark:
    has_bound = check.rule != "no_worse_than"
    bounds = [finite(point.bound) if has_bound else None for point in points]
    scale = scale_for([x for point in points for x in (point.value, point.lo, point.hi)] + bounds)

    def up(value: float | None) -> str:
        return f"{100 - scale.place(value or 0.0):.1f}"

    step = 96 / (len(points) - 1)
    places = [2 + step * at for at in range(len(points))]
    marks = [f"{x:.1f} {up(point.value)}" for x, point in zip(places, points, strict=True)]
    return Spark(
        line=f"M{'L'.join(marks)}",
        dots="".join(f"M{mark}h0" for mark in marks[:-1]),
        now=f"M{marks[-1]}h0",
        intervals="".join(
            f"M{x:.1f} {up(point.lo)}V{up(point.hi)}"
            for x, point in zip(places, points, strict=True)
            if finite(point.lo) is not None and finite(point.hi) is not None
        ),
        bounds="".join(
            f"M{max(0.0, x - step / 2):.1f} {up(bound)}H{min(100.0, x + step / 2):.1f}"
            for x, bound in zip(places, bounds, strict=True)
            if bound is not None
        ),
        said=_said(points, has_bound),
    )


def _said(points: Sequence[PastValue], has_bound: bool) -> tuple[str, ...]:
    """The drawing in words: from when to when, first and last, lowest and highest, and where it moved most."""
    values = [point.value or 0.0 for point in points]
    moves = [later - earlier for earlier, later in itertools.pairwise(values)]
    at = max(range(len(moves)), key=lambda place: abs(moves[place]))
    first, last = points[0], points[-1]
    sentences = [
        f"{share_words(len(points), 'run')} from {moment(first.created_at)} to {moment(last.created_at)}",
        f"first {number(values[0])}, now {number(values[-1])}, lowest {number(min(values))}, "
        f"highest {number(max(values))}",
    ]
    if moves[at] != 0:
        before, after = points[at : at + 2]
        place = clean(after.commit[:COMMIT]) if after.commit else moment(after.created_at)
        if after.model is not None and after.model != before.model:  # an untracked one may change without a commit
            place += f" with checkpoint {clean(after.model[:8])}"
        sentences.append(f"moved most, by {signed(moves[at])}, at {place}")
    if has_bound and len({point.bound for point in points}) > 1:
        sentences.append("its bound changed on the way")
    return tuple(sentences)
