"""Cross tables of a record: heat maps over two crossed attributes, and who is taken for whom."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from fairgate.number_format import number, signed
from fairgate.records import CROSS, CheckResult, DatasetInfo, GroupResult, Misclassification
from fairgate.reports.charts import GroupKey, Scale, change_track, finite, margins_of, scale_for
from fairgate.reports.data_table import SHADES
from fairgate.reports.formatting import check_name, reference, worse_is_higher

_COLUMNS: Final = 16


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A number with its shade: towards worse or better, strength 0 (none) to 7."""

    text: str
    side: Literal["worse", "better"] = "better"
    shade: int = 0
    group: GroupResult | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One attribute down, the other across."""

    shown: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]


@dataclass(frozen=True, slots=True)
class ConfusionTable:
    """For each group of a subject, how many images were taken for which other label."""

    probe: str
    subject: str
    predicted: tuple[str, ...]
    rows: tuple[tuple[str, int, tuple[HeatCell, ...]], ...]


def group_key(dataset: DatasetInfo) -> GroupKey:
    """The order in which the dataset declares its groups, crossed ones part by part; unknown groups last."""
    places: dict[str, int] = {}
    for groups in dataset.attributes.values():
        for place, group in enumerate(groups):
            places.setdefault(group, place)
    return lambda name: tuple(places.get(part, len(places)) for part in name.split(CROSS))


def heat_map(check: CheckResult, key: GroupKey) -> HeatMap | None:
    """The change of each intersection of two attributes, or its value where nothing was compared."""
    parts = {group.group: group.group.split(CROSS) for group in check.groups}
    if len(parts) < 4 or any(len(part) != 2 for part in parts.values()):
        return None
    downs = sorted({part[0] for part in parts.values()}, key=key)
    acrosses = sorted({part[1] for part in parts.values()}, key=key)
    changes = any(group.delta is not None for group in check.groups)
    found = {tuple(parts[group.group]): group for group in check.groups}
    top = _largest(group.delta if changes else group.value for group in check.groups)
    rows = tuple((d, tuple(_cell(check, found.get((d, a)), changes, top) for a in acrosses)) for d in downs)
    return HeatMap(f"change against the {reference(check)}" if changes else "value", tuple(acrosses), rows)


def crossed_with_subjects(checks: Sequence[CheckResult], key: GroupKey, most: int) -> HeatMap | None:
    """The change of every group in every subject of one check; None with more groups than a table holds."""
    groups = sorted({group.group for check in checks for group in check.groups}, key=key)
    if not 2 <= len(groups) <= _COLUMNS:
        return None
    top = _largest(group.delta for check in checks for group in check.groups)
    rows = []
    for check in checks[:most]:
        found = {group.group: group for group in check.groups}
        rows.append((check.about or "", tuple(_cell(check, found.get(name), True, top) for name in groups)))
    return HeatMap(f"change against the {reference(checks[0])}", tuple(groups), tuple(rows))


def _largest(numbers: Iterable[float | None]) -> float:
    return max((abs(x) for x in map(finite, numbers) if x is not None), default=0.0)


def confusion_tables(found: Sequence[Misclassification], key: GroupKey) -> list[ConfusionTable]:
    """One table per probe and subject, the most frequent wrong label first."""
    by_subject: dict[tuple[str, str], list[Misclassification]] = {}
    for one in found:
        by_subject.setdefault((one.probe, one.subject), []).append(one)
    return [_confusion(*place, entries, key) for place, entries in by_subject.items()]


def _confusion(probe: str, subject: str, entries: Sequence[Misclassification], key: GroupKey) -> ConfusionTable:
    counts = {(one.group, one.predicted): one.count for one in entries}
    totals = {one.group: one.total for one in entries}
    often = Counter[str]()
    for one in entries:
        often[one.predicted] += one.count
    predicted = tuple(sorted(often, key=lambda label: (-often[label], label)))

    def cell(group: str, label: str) -> HeatCell:
        if (count := counts.get((group, label))) is None:
            return HeatCell(number(None))
        share = count / totals[group] if totals[group] else 0.0
        return HeatCell(f"{count:,} ({share:.0%})", "worse", math.ceil(share * SHADES))

    rows = [
        (group, totals[group], tuple(cell(group, label) for label in predicted)) for group in sorted(totals, key=key)
    ]
    return ConfusionTable(probe, subject, predicted, tuple(rows))


def _cell(check: CheckResult, group: GroupResult | None, changes: bool, top: float) -> HeatCell:
    if group is None:
        return HeatCell(number(None))
    value = group.delta if changes else group.value
    text = signed(value) if changes else number(value, group.status)
    if value is None or math.isnan(value) or top == 0.0:
        return HeatCell(text, group=group)
    strength = 1.0 if math.isinf(value) else abs(value) / top
    worse = value > 0 if worse_is_higher(check) else value < 0
    return HeatCell(text, "worse" if worse else "better", round(strength * SHADES), group)


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
    heat: HeatMap | None


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
