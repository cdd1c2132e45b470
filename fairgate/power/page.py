"""power.html: the detectable regression against the number of sets, a figure per check; one file that loads nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.power.record import CheckPower, GroupPower, PowerRecord
from fairgate.power.words import assumptions, detectable_words, named, needed_words
from fairgate.reports.charts import Track
from fairgate.reports.scale import Scale, Tick, percent, scale_for

_ROWS: Final = 400
_LINES: Final = 80


@dataclass(frozen=True, slots=True)
class Line:
    """One curve, as points of a square of 100 by 100; the hardest of a figure is drawn stronger."""

    name: str
    points: str
    hardest: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """All curves of one check: detectable regression (down is better) against sets, whose axis is logarithmic."""

    lines: tuple[Line, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    margin: str
    now: str
    wanted: str | None
    said: str


@dataclass(frozen=True, slots=True)
class Row:
    """One group of one subject."""

    name: str
    group: GroupPower
    track: Track
    detectable: str
    needed: str


@dataclass(frozen=True, slots=True)
class CheckView:
    """All subjects of one check."""

    first: CheckPower
    named: str
    figure: Figure | None
    rows: tuple[Row, ...]
    scale: Scale
    more: int
    unavailable: tuple[tuple[str, str], ...]


def render_page(record: PowerRecord) -> str:
    """The page as text, in the look of report.html."""
    from fairgate.reports.kit import render_standalone

    by_id: dict[str, list[CheckPower]] = {}
    for check in record.checks:
        by_id.setdefault(check.id, []).append(check)
    views = [_view(checks) for checks in by_id.values()]
    return render_standalone(
        "fairgate.power",
        "power.html.j2",
        "power.css",
        record=record,
        views=views,
        assumptions=assumptions(record),
    )


def _view(checks: Sequence[CheckPower]) -> CheckView:
    first = checks[0]
    found = [(check, group) for check in checks for group in check.groups]
    found.sort(key=lambda one: -(one[1].detectable or math.inf))
    scale = scale_for([0.0, first.margin, first.wanted, *(group.detectable for _, group in found)])
    bad = ((percent(scale.place(first.margin)), percent(100 - scale.place(first.margin))),)
    rows = tuple(
        Row(
            name=_name(check, group, several=len(checks) > 1),
            group=group,
            track=Track(zero=scale.at(0.0), value=_place(scale, group.detectable), bounds=(bad[0][0],), bad=bad),
            detectable=detectable_words(group),
            needed=needed_words(check, group),
        )
        for check, group in found[:_ROWS]
    )
    reasons = tuple((check.item, check.unavailable) for check in checks if check.unavailable is not None)
    return CheckView(first, named(first), _figure(checks), rows, scale, max(0, len(found) - _ROWS), reasons)


def _place(scale: Scale, value: float | None) -> str | None:
    return scale.at(value) if value is not None and math.isfinite(value) else None


def _name(check: CheckPower, group: GroupPower, *, several: bool) -> str:
    parts = [check.subject if several else None, group.group]
    return " · ".join(part for part in parts if part) or "all sets"


def _figure(checks: Sequence[CheckPower]) -> Figure | None:
    """Every subject's hardest group, or of one subject all groups."""
    several = len(checks) > 1
    if several:
        drawn = [(check, check.hardest) for check in checks if check.hardest is not None]
    else:
        drawn = [(check, group) for check in checks for group in check.groups]
    curves = [(check, group) for check, group in drawn if group is not None and any(_finite(x) for x in group.curve)]
    if not curves:
        return None
    sizes = [size for check, _ in curves for size in check.sizes]
    low, high = math.log10(min(sizes)), math.log10(max(sizes))
    first = curves[0][0]
    shown = [x for _, group in curves for x in group.curve if x is not None and math.isfinite(x)]
    # Few sets see next to nothing: beyond six times the median present value a curve leaves the picture.
    present = sorted(group.detectable or 0.0 for _, group in curves)[len(curves) // 2]
    top = scale_for([0.0, first.margin, min(max(shown), 6 * max(present, first.margin))])

    def across(size: float) -> float:
        return 100 * (math.log10(size) - low) / (high - low)

    def up(value: float) -> float:
        return 100 - top.place(value)

    worst = max((group.detectable or math.inf for _, group in curves))
    lines = [
        Line(
            name=_name(check, group, several=several),
            points=" ".join(
                f"{across(size):.2f},{up(value):.2f}"
                for size, value in zip(check.sizes, group.curve, strict=True)
                if value is not None and math.isfinite(value) and value <= top.high
            ),
            hardest=(group.detectable or math.inf) == worst,
        )
        for check, group in curves[:_LINES]
    ]
    now = max(check.n_sets for check, _ in curves)
    return Figure(
        lines=tuple(sorted(lines, key=lambda line: line.hardest)),
        across=tuple(Tick(percent(across(size)), f"{size:,}") for size in _round_sizes(low, high)),
        up=tuple(Tick(percent(100 - float(tick.at.rstrip("%"))), tick.label) for tick in top.ticks),
        margin=percent(up(first.margin)),
        now=percent(across(now)),
        wanted=percent(up(first.wanted)) if first.wanted <= top.high else None,
        said=f"{now:,} {first.unit} now",
    )


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _round_sizes(low: float, high: float) -> list[int]:
    """1, 2 and 5 times the powers of ten between two logarithms."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    sizes = [factor * 10**power for power in powers for factor in (1, 2, 5)]
    return [size for size in sizes if low <= math.log10(size) <= high]
