"""power.html: the detectable regression against the number of sets, a figure per check; one file that loads nothing."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number
from fairgate.records import CheckPower, GroupPower, PowerRecord
from fairgate.reports.charts import Tick, Track, finite, percent, scale_for, upright
from fairgate.reports.data_table import Column, Line, Table, TableCell, fold_name, text_table
from fairgate.reports.formatting import grouped, metric_words
from fairgate.reports.standalone_page import render_page

if TYPE_CHECKING:
    from rich.table import Table as TextTable


_ROWS: Final = 400
_LINES: Final = 80


def power_html(record: PowerRecord) -> str:
    """The page as text, in the look of report.html."""
    views = [_view(checks) for checks in grouped(record.checks, lambda check: check.id).values()]
    return render_page("power", record=record, views=views, assumptions=assumptions(record))


def _view(checks: Sequence[CheckPower]) -> dict[str, Any]:
    """What the template draws of one check: a figure and a row per subject and group, the hardest first."""
    first = checks[0]
    judged = [(check, group) for check in checks for group in check.groups]
    judged.sort(key=lambda row: -(row[1].detectable or math.inf))
    scale = scale_for([0.0, first.margin, first.wanted, *(group.detectable for _, group in judged)])
    bad = scale.beyond(first.margin)
    lines = []
    for check, group in judged[:_ROWS]:
        track = Track(zero=scale.at(0.0), value=scale.at(finite(group.detectable)), bounds=bad[:1], bad=(bad,))
        texts = detectable_words(group), f"{group.n_sets:,}", needed_words(check, group)
        lines.append(
            Line(_name(check, group, several=len(checks) > 1), [TableCell(track=track), *map(TableCell, texts)])
        )
    columns = [
        *(Column("", "drawn", name="smallest visible regression now", scale=scale), Column("value")),
        *(Column(f"its {first.unit} now"), Column(f"its {first.unit} for {number(first.wanted)}")),
    ]
    legend = (("●", "smallest regression that is visible at the present size"), ("bad", "beyond the margin"))
    title, more = f"Smallest visible regressions of {first.id}", max(0, len(judged) - _ROWS)
    table = Table((), title, "subject and group", columns, lines, "bars power", legend=legend, more=more, height=22)
    return {
        "first": first,
        "named": metric_words(first) + (f" over {clean(first.over, 60)}" if first.over else ""),
        "figure": _figure(checks),
        "table": table if lines else None,
        "unavailable": [(check.item, check.unavailable) for check in checks if check.unavailable is not None],
    }


def _name(check: CheckPower, group: GroupPower, *, several: bool) -> str:
    parts = [check.subject if several else None, group.group]
    return " · ".join(part for part in parts if part) or "all sets"


def _figure(checks: Sequence[CheckPower]) -> dict[str, Any] | None:
    """All curves of one check: detectable regression (down is better) against sets, whose axis is logarithmic, in a
    square of 100 by 100. Every subject's hardest group, or of one subject all groups; the hardest is drawn stronger."""
    several = len(checks) > 1
    drawn = [(check, group) for check in checks for group in check.groups if not several or group is check.hardest]
    curves = [(check, group) for check, group in drawn if any(finite(x) is not None for x in group.curve)]
    if not curves:
        return None
    sizes = [size for check, _ in curves for size in check.sizes]
    low, high = math.log10(min(sizes)), math.log10(max(sizes))
    first = curves[0][0]
    shown = [x for _, group in curves for x in map(finite, group.curve) if x is not None]
    # Few sets see next to nothing: beyond six times the median present value a curve leaves the picture.
    present = sorted(group.detectable or 0.0 for _, group in curves)[len(curves) // 2]
    top = scale_for([0.0, first.margin, min(max(shown), 6 * max(present, first.margin))])

    def across(size: float) -> float:
        return 100 * (math.log10(size) - low) / (high - low)

    def up(value: float) -> float:
        return 100 - top.place(value)

    worst = max((group.detectable or math.inf for _, group in curves))
    lines = [
        {
            "name": _name(check, group, several=several),
            "points": " ".join(
                f"{across(size):.2f},{up(value):.2f}"
                for size, value in zip(check.sizes, map(finite, group.curve), strict=True)
                if value is not None and value <= top.high
            ),
            "hardest": (group.detectable or math.inf) == worst,
        }
        for check, group in curves[:_LINES]
    ]
    now = max(check.n_sets for check, _ in curves)
    powers = range(math.floor(low), math.ceil(high) + 1)
    round_sizes = [factor * 10**power for power in powers for factor in (1, 2, 5)]
    return {
        "lines": sorted(lines, key=operator.itemgetter("hardest")),
        "across": [Tick(percent(across(x)), f"{x:,}") for x in round_sizes if low <= math.log10(x) <= high],
        "up": upright(top),
        "margin": percent(up(first.margin)),
        "now": percent(across(now)),
        "wanted": percent(up(first.wanted)) if first.wanted <= top.high else None,
        "said": f"{now:,} {first.unit} now",
    }


_WIDE: Final = 120
_NARROW: Final = 16
"""Letters of a name in a line, where the terminal has fewer than _WIDE columns."""
_STEPS: Final = (4, 16)
"""Multiples of the present number of sets in the terminal's table."""
_BARS: Final = "▁▂▃▄▅▆▇█"


def assumptions(record: PowerRecord) -> list[str]:
    """The assumptions behind the numbers, shown with every table."""
    several = record.comparisons > 1
    corrected = (
        f"Every comparison is given alpha {record.alpha:g} / {record.comparisons} = {record.alpha_each:.2g}: what "
        f"{record.correction} over the suite’s {record.comparisons} comparisons leaves in the worst case."
        if several
        else f"The suite has one comparison, at alpha {record.alpha:g}."
    )
    return [
        f"Visible: fails the gate in {record.odds:.0%} of runs, if that is how much truly was lost.",
        corrected,
        "Noise between future runs is taken to be as between these two; where the differences of two runs are real, it "
        "is overstated.",
    ]


def detectable_words(group: GroupPower) -> str:
    """The smallest visible regression; `none` where no regression could fail."""
    infinite = group.detectable is None or math.isinf(group.detectable)
    return "none: too few" if infinite else number(group.detectable)


def needed_words(check: CheckPower, group: GroupPower) -> str:
    """Sets for the wished regression."""
    if group.sets_needed is not None:
        return f"{group.sets_needed:,}"
    return "within the margin" if check.wanted <= check.margin else "more than 10⁹"


def power_table(record: PowerRecord, width: int = _WIDE) -> TextTable:
    """Every comparison of the suite: what it sees now, what the wished regression takes, and with more sets.

    In a terminal of fewer than 120 columns (`width`) a cell takes several lines, so that 80 are enough for all of it.
    """
    unit = record.checks[0].unit
    steps = (f">×{step} {unit}" for step in _STEPS)
    columns = ("check", "hardest group", ">margin", f">{unit}", ">visible now", *steps, ">wished", f">{unit} for it")
    rows = map(_row, record.checks)
    if width >= _WIDE:
        return text_table((*columns, "curve"), rows)
    check, _, *numbers = columns
    narrow = [
        [
            "\n".join(filter(None, [fold_name(name, _NARROW), group and fold_name(f"of {group}", _NARROW)])),
            *(_stacked(cell) for cell in cells),
        ]
        for name, group, *cells in rows
    ]
    return text_table((check, *map(_stacked, numbers), "curve"), narrow, padding=(0, 0))


def _stacked(words: str) -> str:
    """A number, or a heading, with a word a line where it is long."""
    return "\n".join(words.split()) if len(words) > 7 else words


def power_lines(record: PowerRecord) -> list[str]:
    """What could not be computed, what the table assumes, and the notice."""
    without = grouped((check for check in record.checks if check.unavailable), lambda check: check.unavailable)
    lines = [
        f"no power for {clean(', '.join(check.item for check in checks), 200)}: {clean(why or '', 400)}"
        for why, checks in without.items()
    ]
    lines += assumptions(record)
    lines.append(f"reproduce: {clean(record.command)}")
    if record.dataset.notice:
        lines.append(f"note: {clean(record.dataset.notice)}")
    return lines


def _row(check: CheckPower) -> list[str]:
    group = check.hardest
    where = [clean(check.item, 48), "" if group is None or group.group is None else clean(group.group, 40)]
    if group is None:
        return [*where, number(check.margin), f"{check.n_sets:,}", number(None), *(number(None) for _ in _STEPS)]
    return [
        *(*where, number(check.margin), f"{group.n_sets:,}", detectable_words(group)),
        *(number(group.curve[_nearest(check.sizes, step * check.n_sets)]) for step in _STEPS),
        *(number(check.wanted), needed_words(check, group), sparkline(group.curve, check.margin)),
    ]


def _nearest(sizes: Sequence[int], n_sets: int) -> int:
    return min(range(len(sizes)), key=lambda at: abs(math.log(sizes[at] / n_sets)))


def sparkline(curve: list[float | None], margin: float = 0.0, width: int = 10) -> str:
    """How far beyond the margin a regression must lie, as bars from few sets to many; a dot where none is visible.

    >>> sparkline([None, 0.5, 0.3, 0.2], margin=0.1, width=4)
    '·█▄▂'
    """
    step = max(1, len(curve) // width)
    taken = [None if x is None or math.isinf(x) else x - margin for x in curve[::step][:width]]
    top = max((x for x in taken if x is not None), default=1.0)
    return "".join("·" if x is None else _BARS[max(0, math.ceil(len(_BARS) * x / top - 1e-9) - 1)] for x in taken)
