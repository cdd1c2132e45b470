"""A figure per item over the runs, and where it moved: history.html, one file that loads nothing, and a picture."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number, share_words
from fairgate.records import History, Move, Point, Series
from fairgate.reports import history_text as words
from fairgate.reports.charts import Tick, percent, scale_for, upright
from fairgate.reports.formatting import metric_words
from fairgate.reports.standalone_page import render_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_FIGURES: Final = 60
_TICKS: Final = 5


def history_html(history: History) -> str:
    """The page as text, in the look of report.html: items that moved first."""
    ordered = sorted(history.series, key=lambda series: not (series.moves or series.drift))
    numbers = {text: str(place) for place, text in enumerate(words.cuts(history), 1)}
    return render_page(
        "history",
        history=history,
        drifted=[words.drift_words(series, series.drift) for series in history.series if series.drift],
        cuts=list(numbers),
        figures=[_figure(series, history, numbers) for series in ordered[:MOST_FIGURES]],
        more=[series.item for series in ordered[MOST_FIGURES:]],
        words=words,
    )


def _figure(series: Series, history: History, numbers: dict[str, str]) -> dict[str, Any]:
    """What the template draws of one item. `lines` join points between cuts, in a square of 100 by 100; `gaps` are
    cuts, with their numbers; `rows` of its table are runs, the newest first, with how the number moved."""
    count = len(history.runs)
    bounds = [point.bound for point in series.points] if series.question.held else []
    scale = scale_for(
        [*bounds, *(x for point in series.points for x in (point.value, point.lo, point.hi, point.anchor))]
    )
    moves = {move.after.place: move for move in series.moves}
    step = max(1, -(-count // _TICKS))
    runs = {point.place: point for point in series.points}

    def across(place: float) -> float:
        return 100 * (place + 0.5) / count

    def up(value: float | None) -> str | None:
        return None if value is None else percent(100 - scale.place(value))

    def dot(point: Point) -> dict[str, Any]:
        """One run, in percent of the figure. `ring` is how a move to here counts; `fell`: the line comes from above."""
        move = moves.get(point.place)
        return {
            "x": percent(across(point.place)),
            "y": up(point.value),
            "lo": up(point.lo),
            "hi": up(point.hi),
            "bound": up(point.bound) if series.question.held else None,
            "anchor": up(point.anchor),
            "left": percent(across(point.place - 0.5)),
            "right": percent(across(point.place + 0.5)),
            "ring": None if move is None else words.side(series, move) or "moved",
            "fell": move is not None and move.delta < 0,
            "name": words.named(point),
            "said": f"{words.named(point)}, {words.day(point)}: {words.measured(point)}",
        }

    return {
        "series": series,
        "metric": metric_words(series.question),
        "dots": [dot(point) for point in series.points],
        "lines": [
            " ".join(f"{across(point.place):.2f},{100 - scale.place(point.value):.2f}" for point in stretch)
            for stretch in series.stretches
        ],
        "anchored": any(point.anchor is not None for point in series.points),
        "gaps": [
            (percent(across(point.place - 0.5)), numbers[words.cut_words(point)])
            for point in series.points
            if point.cut
        ],
        "up": upright(scale),
        "across": [Tick(percent(across(at)), words.dated(runs[at])) for at in range(0, count, step) if at in runs],
        "said": _in_words(series),
        "rows": [(point, _moved(series, moves.get(point.place))) for point in reversed(series.points)],
    }


def _in_words(series: Series) -> str:
    """The figure for a reader who does not see it: the first and the last number, and where it moved."""
    first, last = (words.measured(series.points[at]) for at in (0, -1))
    moves = "".join(f"; moved at {words.named(move.after)}" for move in series.moves)
    return f"{series.item} over {len(series.points)} runs: first {first}, last {last}{moves}"


def _moved(series: Series, move: Move | None) -> str:
    return "" if move is None else f"{words.side(series, move) or 'moved'} by {number(abs(move.delta))}"


MOST_PANELS: Final = 12
_NOW, _QUIET, _LINE, _INK = "#2a62a8", "#5b616b", "#e2e0db", "#1c1e21"
_SIDES: Final = {"better": "#1c7443", "worse": "#b3261e", "": _NOW}
_BOUND: Final = "#b3261e"
_KEY: Final = (
    "bar: a run's interval · ring: moved here · dotted: not comparable across it · dashed: the bound of its day · "
    "grey: the anchor"
)


def draw(history: History, path: Path) -> None:
    """Write the picture: at most twelve items, those that moved first. OSError where it cannot be written."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ordered = sorted(history.series, key=lambda series: not (series.moves or series.drift))
    shown, left = ordered[:MOST_PANELS], len(ordered) - MOST_PANELS
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    with rc_context({"font.size": 9, "axes.edgecolor": _LINE, "xtick.color": _QUIET, "ytick.color": _QUIET}):
        figure = Figure(figsize=(6.2 * columns, 2.5 * rows + 0.9), dpi=150, layout="constrained", facecolor="#fbfaf8")
        FigureCanvasAgg(figure)
        head = [f"{clean(history.suite, 80)}: {words.span_words(history)}"]
        head += [f"{share_words(left, 'item')} more not shown: narrow with --check"] if left > 0 else []
        head += [line for text in words.notices(history) for line in textwrap.wrap(text, 75 * columns)]
        figure.supxlabel(textwrap.fill(_KEY, 95 * columns), fontsize=7.5, color=_QUIET)
        figure.suptitle(_plain("\n".join(head)), fontsize=9, color=_INK)
        for place, series in enumerate(shown, 1):
            _panel(figure.add_subplot(rows, columns, place), series, history)
        figure.savefig(path, format="png", metadata={"Software": "fairgate"})


def _panel(axes: Axes, series: Series, history: History) -> None:
    better = {"higher": ", higher is better", "lower": ", lower is better"}.get(series.question.better or "", "")
    title = f"{clean(series.item, 60)} › {metric_words(series.question)}{better}"
    axes.set_title(_plain(title), loc="left", fontsize=9, color=_INK)
    axes.set_facecolor("#fbfaf8")
    for stretch in series.stretches:
        axes.plot([p.place for p in stretch], [p.value for p in stretch], color=_NOW, linewidth=1.4, zorder=2)
    for point in series.points:
        if point.lo is not None and point.hi is not None:
            axes.vlines(point.place, point.lo, point.hi, color=_NOW, alpha=0.45, linewidth=1.2)
        if point.cut is not None:
            axes.axvline(point.place - 0.5, color=_QUIET, linestyle=(0, (2, 3)), linewidth=1)
        ends = point.place - 0.5, point.place + 0.5
        if point.anchor is not None:
            axes.hlines(point.anchor, *ends, color=_QUIET, linewidth=1)
        if series.question.held and point.bound is not None:
            axes.hlines(point.bound, *ends, color=_BOUND, linestyle="dashed", linewidth=1)
    axes.scatter([p.place for p in series.points], [p.value for p in series.points], s=18, color=_NOW, zorder=3)
    for move in series.moves:
        x, y, colour = move.after.place, move.after.value, _SIDES[words.side(series, move)]
        axes.scatter([x], [y], s=110, facecolors="none", edgecolors=colour, linewidths=1.6, zorder=4)
        place: dict[str, Any] = {"xytext": (0, -22 if move.delta < 0 else 14), "textcoords": "offset points"}
        look: dict[str, Any] = {"ha": "center", "color": colour, "fontsize": 8, "fontweight": "bold"}
        axes.annotate(_plain(words.named(move.after)), (x, y), **place, **look)
    _axis(axes, series, len(history.runs))


def _axis(axes: Axes, series: Series, count: int) -> None:
    step = max(1, -(-count // 5))
    ticks: dict[int, str] = {p.place: _plain(words.dated(p)) for p in series.points if p.place % step == 0}
    axes.set_xticks(list(ticks), list(ticks.values()), fontsize=7.5)
    axes.set_xlim(-0.5, count - 0.5)
    axes.margins(y=0.24)
    axes.grid(axis="y", color=_LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=7.5)
    sides: Any = axes.spines
    sides[["top", "right", "left"]].set_visible(False)


def _plain(text: str) -> str:
    """Without the sign that starts a formula in matplotlib."""
    return text.replace("$", r"\$")
