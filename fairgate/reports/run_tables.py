"""Cross tables of a record: heat maps over two crossed attributes, and who is taken for whom."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairgate.errors import clean
from fairgate.number_format import number, signed
from fairgate.records import CROSS, CheckResult, DatasetInfo, GroupResult, Misclassification
from fairgate.reports.charts import GroupKey, Scale, change_track, finite, largest, margins_of, scale_for
from fairgate.reports.data_table import SHADES, Column, Line, Table, TableCell
from fairgate.reports.formatting import check_name, reference, worse_is_higher

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
    found = {tuple(parts[group.group]): group for group in check.groups}
    top = largest(group.delta if changes else group.value for group in check.groups)
    lines = [Line(d, [_cell(check, found.get((d, a)), changes, top) for a in acrosses]) for d in downs]
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
        found = {group.group: group for group in check.groups}
        lines.append(Line(check.about or "", [_cell(check, found.get(name), True, top) for name in groups]))
    return Table((), f"change against the {reference(checks[0])}", "", [*map(Column, groups)], lines, "heat")


def confusion_tables(found: Sequence[Misclassification], key: GroupKey) -> list[Table]:
    """For each group of a subject, how many images were taken for which other label: one table per probe and subject,
    the most frequent wrong label first."""
    by_subject: dict[tuple[str, str], list[Misclassification]] = {}
    for one in found:
        by_subject.setdefault((one.probe, one.subject), []).append(one)
    return [_confusion(place, entries, key) for place, entries in by_subject.items()]


def _confusion(place: tuple[str, str], entries: Sequence[Misclassification], key: GroupKey) -> Table:
    counts = {(one.group, one.predicted): one.count for one in entries}
    totals = {one.group: one.total for one in entries}
    often = Counter[str]()
    for one in entries:
        often[one.predicted] += one.count
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
class Effects:
    """One check over all its subjects: a forest of the groups that moved furthest the wrong way, and a map of all."""

    name: str
    first: CheckResult
    noun: str
    rows: Sequence[dict[str, Any]]
    scale: Scale
    more: int
    heat: Table | None


def effects_of(checks: Sequence[CheckResult], key: GroupKey, most: int) -> list[Effects]:
    """One drawing per check that was compared group by group in at least two subjects; `most` subjects in its map."""
    families: dict[str, list[CheckResult]] = {}
    for check in checks:
        if check.about is not None and any(group.delta is not None for group in check.groups):
            families.setdefault(check_name(check), []).append(check)
    return [_effects(name, found, key, most) for name, found in families.items() if len(found) >= 2]


def _effects(name: str, checks: Sequence[CheckResult], key: GroupKey, most: int) -> Effects:
    first = checks[0]
    moved = [(check, group) for check in checks for group in check.groups if finite(group.delta) is not None]
    moved.sort(key=lambda one: one[1].delta or 0.0, reverse=worse_is_higher(first))
    shown = moved[:MOST_ROWS]
    spread = [x for _, group in shown for x in (group.delta, group.delta_lo, group.delta_hi)]
    scale = scale_for([0.0, *margins_of(first), *spread])
    rows = [
        {"about": check.about or "", "group": group, "track": change_track(check, group, scale)}
        for check, group in shown
    ]
    noun = "subject" if first.word is None else "word"
    return Effects(name, first, noun, rows, scale, len(moved) - len(rows), crossed_with_subjects(checks, key, most))
