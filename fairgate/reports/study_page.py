"""A study as files: study.json and study.html, each table as CSV, each figure as SVG; its tables for a terminal; and
what the checks of a suite can decide."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import ABSENT, interval, number, signed
from fairgate.ground.text import csv_text
from fairgate.records import (
    WANTED_PASSES,
    CheckPower,
    Estimate,
    FigureSeries,
    PowerRecord,
    StudyCell,
    StudyFigure,
    StudyRecord,
    StudyTable,
)
from fairgate.reports.comparison_files import csv_cell
from fairgate.reports.data_table import Column, Line, Table, TableCell, fold_name, printed, text_table
from fairgate.reports.standalone_page import data_uri, render_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table as TextTable


_ROWS: Final = 500
"""Rows of a table that a page shows."""


def study_files(record: StudyRecord, pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """All files of a study by name; `pictures` holds the PNG of each of the record's pictures, by its name."""
    figures = {figure.name: draw_figure(figure) for figure in record.figures}
    inlined = {
        **{name: data_uri("svg+xml", data) for name, data in figures.items()},
        **{picture.name: data_uri("png", pictures[picture.name]) for picture in record.pictures},
    }
    page = render_page("study", admit={"img-src": "data:"}, record=record, inlined=inlined, study_table=study_table)
    return {
        "study.json": (record.model_dump_json(indent=2) + "\n").encode(),
        "study.html": page.encode(),
        **{f"{table.name}.csv": study_csv(record, table).encode() for table in record.tables},
        **{f"{name}.svg": data for name, data in figures.items()},
        **{f"{picture.name}.png": pictures[picture.name] for picture in record.pictures},
    }


def study_csv(record: StudyRecord, table: StudyTable) -> str:
    """A table with all digits. A column that holds estimates is followed by their limits and counts; every row repeats
    the datasets' notices, because rows travel without their file."""
    estimated = [any(isinstance(row[place], Estimate) for row in table.rows) for place in range(len(table.columns))]
    head = [
        name
        for column, has in zip(table.columns, estimated, strict=True)
        for name in ([column, f"{column}, lo", f"{column}, hi", f"{column}, n", f"{column}, why"] if has else [column])
    ]
    notice = " ".join(dict.fromkeys(dataset.notice for dataset in record.datasets if dataset.notice))
    lines: list[list[object]] = [[*head, "notice"]]
    for row in table.rows:
        line: list[object] = []
        for cell, has in zip(row, estimated, strict=True):
            if isinstance(cell, Estimate):
                line += [cell.value, cell.lo, cell.hi, cell.n, cell.why]
            else:
                line += [cell, *[None] * (4 if has else 0)]
        lines.append([*line, notice])
    header, *rows = [[csv_cell(value) for value in line] for line in lines]
    return csv_text(header, rows)


def study_table(table: StudyTable) -> Table:
    """A study's table as it is drawn: a number with its limits, a dash with the reason where nothing was measured."""
    columns = [
        Column(name, "text" if all(isinstance(row[at], str) for row in table.rows) else "number")
        for at, name in enumerate(table.columns[1:], 1)
    ]
    lines = [Line(_cell(row[0]).text, [*map(_cell, row[1:])]) for row in table.rows[:_ROWS]]
    more = max(0, len(table.rows) - _ROWS)
    return Table((), table.title, table.columns[0], columns, lines, "bars", more=more)


def _cell(cell: StudyCell) -> TableCell:
    if not isinstance(cell, Estimate):
        return TableCell(cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else number(cell))
    if cell.value is None:
        return TableCell(f"{ABSENT} ({cell.why})" if cell.why else ABSENT)
    return TableCell(number(cell.value), interval(cell.lo, cell.hi))


def study_tables(record: StudyRecord, width: int = 120) -> Iterator[TextTable]:
    """The tables for a terminal of `width` columns."""
    return (part for table in record.tables for part in printed(table.source, study_table(table), 60, width))


_COLOURS: Final = ("#0b5394", "#b45309", "#1c7443", "#7b2d8b", "#5b616b", "#a61b1b", "#0e7490", "#4d4d00")
_MARKS: Final = "osD^vPX*"
_DASHES: Final = ("solid", "dashed", "dashdot", "dotted")
_HATCHES: Final = ("", "///", "...", "xxx", "---", "\\\\\\", "+++", "ooo")


def draw_figure(figure: StudyFigure) -> bytes:
    """A figure as SVG, equal for equal records. Series differ by mark, dash or hatch as well as by colour."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings = {"font.size": 9, "svg.hashsalt": "fairgate", "svg.fonttype": "path", "hatch.linewidth": 0.6}
    with rc_context(settings):
        places = max(len(dict.fromkeys(series.x)) for series in figure.series)
        wide = max(6.4, 0.32 * places * (len(figure.series) if figure.kind in ("bars", "boxes") else 1) + 2)
        size = _MAP_SIZE if figure.kind == "map" else (min(wide, 16.0), 3.8)
        canvas = Figure(figsize=size, layout="constrained", facecolor="white")
        FigureCanvasSVG(canvas)
        axes = canvas.add_subplot()
        {"bars": _bars, "boxes": _boxes, "map": _map}.get(figure.kind, _marks)(axes, figure)
        for place, (name, value) in enumerate(figure.reference.items()):
            style = _DASHES[1 + place % 3]
            axes.axhline(value, color="#1c1e21", linewidth=1, linestyle=style, label=_plain(name), zorder=1)
        axes.set_xlabel(_plain(figure.x_label))
        axes.set_ylabel(_plain(figure.y_label))
        axes.grid(axis="y", color="#e2e0db", linewidth=0.7)
        axes.set_axisbelow(True)
        if len(figure.series) > 1 or figure.reference:
            canvas.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "fairgate"})
    return buffer.getvalue()


def _limits(series: FigureSeries) -> list[list[float]] | None:
    """How far limits are from their numbers, below and above; NaN, which draws nothing, where there are none."""
    if not series.lo or not series.hi:
        return None
    far = [
        (math.nan, math.nan) if y is None or lo is None or hi is None else (max(0.0, y - lo), max(0.0, hi - y))
        for y, lo, hi in zip(series.y, series.lo, series.hi, strict=True)
    ]
    return [[below for below, _ in far], [above for _, above in far]]


def _bars(axes: Axes, figure: StudyFigure) -> None:
    names = _names(figure)
    width = 0.8 / len(figure.series)
    for at, series in enumerate(figure.series):
        places = [names.index(str(x)) + (at - (len(figure.series) - 1) / 2) * width for x in series.x]
        axes.bar(
            places,
            _numbers(series),
            width,
            yerr=_limits(series),
            label=_plain(series.name),
            color=_COLOURS[at % 8],
            hatch=_HATCHES[at % 8],
            edgecolor="white",
            error_kw={"elinewidth": 1, "capsize": 2},
        )
    axes.axhline(0, color="#5b616b", linewidth=0.8)
    _write_names(axes, names)


def _boxes(axes: Axes, figure: StudyFigure) -> None:
    names = _names(figure)
    width = 0.8 / len(figure.series)
    for at, series in enumerate(figure.series):
        colour, values = _COLOURS[at % 8], zip(series.x, _numbers(series), strict=True)
        of: dict[str, list[float]] = {}
        for x, y in values:
            if not math.isnan(y):
                of.setdefault(str(x), []).append(y)
        places = [names.index(name) + (at - (len(figure.series) - 1) / 2) * width for name in of]
        drawn = axes.boxplot(
            list(of.values()),
            positions=places,
            widths=0.7 * width,
            whis=(0, 100),
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            medianprops={"color": "#1c1e21", "linewidth": 1.6},
            boxprops={"facecolor": "white", "edgecolor": colour, "hatch": _HATCHES[at % 8]},
            whiskerprops={"color": colour},
            capprops={"color": colour},
        )
        drawn["boxes"][0].set_label(_plain(series.name))
        for place, ys in zip(places, of.values(), strict=True):
            spread = [place + (0.5 - (n + 0.5) / len(ys)) * 0.5 * width for n in range(len(ys))]
            axes.plot(spread, ys, _MARKS[at % 8], color=colour, markersize=2.5, zorder=3)
    _write_names(axes, names)


_MAP_SIZE: Final = (9.6, 6.4)
_SIDES: Final = {-1: ("v", "below 0"), 0: ("o", "the interval contains 0"), 1: ("^", "above 0")}


def _map(axes: Axes, figure: StudyFigure) -> None:
    """Every series in the colour of its number, marked by the side of 0, its name and number amid its points."""
    shades = [(series.shade and series.shade.value) or 0.0 for series in figure.series]
    most = max(map(abs, shades)) or 1.0
    for series, shade in zip(figure.series, shades, strict=True):
        points = axes.scatter(
            [float(x) for x in series.x],
            _numbers(series),
            s=16,
            c=[shade] * len(series.x),
            cmap="PuOr_r",
            vmin=-most,
            vmax=most,
            marker=_SIDES[_side(series.shade)][0],
            edgecolors="#5b616b",
            linewidths=0.4,
        )
    for mark, name in _SIDES.values():
        axes.scatter([], [], c="#5b616b", marker=mark, label=name)
    axes.figure.colorbar(points, ax=axes, label=_plain(figure.shade_label))
    placed: list[tuple[float, float, float]] = []
    middles = [(median(map(float, each.x)), median(_numbers(each)), each.name) for each in figure.series]
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for (x, y, name), shade in sorted(zip(middles, shades, strict=True), key=lambda each: each[0][1]):
        text, up = f"{clean(name, 40)} {signed(shade)}", y
        half = 0.0055 * (right - left) * len(text)
        along = min(max(x, left + half), right - half)
        while any(abs(along - x2) < half + far and abs(up - y2) < 0.035 * (top - bottom) for x2, y2, far in placed):
            up += 0.01 * (top - bottom)
        placed.append((along, up, half))
        axes.annotate(
            _plain(text),
            (x, y),
            (along, up),
            ha="center",
            va="center",
            fontsize=7.5,
            arrowprops={"arrowstyle": "-", "linewidth": 0.6} if up > y else None,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )


def _side(shade: Estimate | None) -> int:
    """1 for a number clear of 0 and above it, -1 for one below, 0 for others."""
    if shade is None or shade.value is None or shade.lo is None or shade.hi is None or shade.lo <= 0 <= shade.hi:
        return 0
    return 1 if shade.value > 0 else -1


def _names(figure: StudyFigure) -> list[str]:
    return list(dict.fromkeys(str(x) for series in figure.series for x in series.x))


def _write_names(axes: Axes, names: Sequence[str]) -> None:
    turned = sum(map(len, names)) > 70
    axes.set_xticks(
        range(len(names)),
        [_plain(clean(name, 40)) for name in names],
        rotation=40 if turned else 0,
        ha="right" if turned else "center",
        rotation_mode="anchor" if turned else "default",
    )


def _marks(axes: Axes, figure: StudyFigure) -> None:
    places = sorted({float(x) for series in figure.series for x in series.x})
    if figure.x_log:
        axes.set_xscale("log")
    if len(places) <= 12:
        axes.set_xticks(places, [f"{x:g}" for x in places])
        axes.minorticks_off()
    for at, series in enumerate(figure.series):
        axes.errorbar(
            [*series.x],
            _numbers(series),
            yerr=_limits(series),
            label=_plain(series.name),
            color=_COLOURS[at % 8],
            marker=_MARKS[at % 8],
            markersize=5,
            linestyle=_DASHES[at % 4] if figure.kind == "lines" else "none",
            linewidth=1.4,
            elinewidth=1,
            capsize=2,
        )


def _numbers(series: FigureSeries) -> list[float]:
    return [math.nan if y is None else y for y in series.y]


def _plain(text: str) -> str:
    """Without the sign that starts a formula in matplotlib, nor the one that hides a label."""
    return clean(text, 120).replace("$", r"\$").lstrip("_")


def power_table(record: PowerRecord) -> TextTable:
    """A row per check: how often it passes a harmless change, which loss it fails, and what it takes to pass."""
    columns = ("check", "tier", ">margin", ">passes", ">fails a loss of", f">{record.unit}s needed")
    return text_table(columns, (_row(check) for check in record.checks))


def _row(check: CheckPower) -> tuple[str, ...]:
    needed = "" if check.needed is None else f"{check.needed:,} a group" if check.over else f"{check.needed:,}"
    loss = "" if check.loss is None else f"{check.loss:.2f} or more"
    return fold_name(check.id, 24), check.tier, number(check.margin), f"{check.passes:.0%}", loss, needed


def power_lines(record: PowerRecord) -> list[str]:
    """What all checks together let pass, a warning for each check that does not, what was simulated, and the notice."""
    lines = [f"all regression checks that decide pass a harmless change {record.together:.0%} of the time"]
    unsure = [check for check in record.checks if check.tier == "gate" and check.passes < WANTED_PASSES]
    lines += [_warning(check, record) for check in unsure] + [clean(why, 400) for why in record.left_out]
    lines += [
        f"harmless: {clean(', '.join(dict.fromkeys(record.changes)), 300)}; {record.runs} simulated runs each draw the "
        f"{record.unit}s again{f' ({record.units:,} of the largest group)' if record.units else ''}",
        "a loss: one group's answers lose so much, whichever it is (of many, the 12 smallest; P(true) alike in all "
        "images), and the check fails 9 of 10 times, and names it if it is over groups",
        f"reproduce: {clean(record.command)}",
    ]
    if record.dataset.notice:
        lines.append(f"note: {clean(record.dataset.notice)}")
    return lines


def _warning(check: CheckPower, record: PowerRecord) -> str:
    more = f"about {check.needed:,} {record.unit}s{' of each group' if check.over else ''}, " if check.needed else ""
    return (
        f"warning: '{clean(check.id, 60)}' passes a harmless change only {check.passes:.0%} of the time: it takes "
        f"{more}a wider margin, or `tier: watch`"
    )
