"""Group effects over a whole suite: in which subject, and for which group, a check stands worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.records import CheckResult, GroupResult
from fairgate.reports.charts import GroupKey, Track, change_track, margins_of, worse_is_higher
from fairgate.reports.scale import Scale, scale_for
from fairgate.reports.tables import HeatMap, crossed_with_subjects
from fairgate.reports.words import check_name

MOST_ROWS: Final = 16


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One group in one subject (or word): how far it moved."""

    about: str
    group: GroupResult
    track: Track


@dataclass(frozen=True, slots=True)
class Effects:
    """One check over all its subjects: a forest of the groups that moved furthest the wrong way, and a map of all."""

    name: str
    first: CheckResult
    noun: str
    rows: tuple[EffectRow, ...]
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
    moved = [
        (check, group)
        for check in checks
        for group in check.groups
        if group.delta is not None and math.isfinite(group.delta)
    ]
    sign = -1.0 if worse_is_higher(first) else 1.0
    moved.sort(key=lambda one: sign * (one[1].delta or 0.0))
    shown = moved[:MOST_ROWS]
    spread = [x for _, group in shown for x in (group.delta, group.delta_lo, group.delta_hi)]
    scale = scale_for([0.0, *margins_of(first), *spread])
    rows = tuple(EffectRow(check.about or "", group, change_track(check, group, scale)) for check, group in shown)
    noun = "subject" if first.word is None else "word"
    return Effects(name, first, noun, rows, scale, len(moved) - len(rows), crossed_with_subjects(checks, key, most))
