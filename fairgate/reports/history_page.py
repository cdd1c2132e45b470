"""A figure per item over the runs, and where it moved: history.html, one file that loads nothing."""

from __future__ import annotations

from typing import Any, Final

from fairgate.ground.number_format import number
from fairgate.records import History, Move, Point, Series
from fairgate.reports import history_text as words
from fairgate.reports.charts import Tick, percent, scale_for, upright
from fairgate.reports.formatting import metric_words
from fairgate.reports.standalone_page import render_page

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
            "label": f"{words.named(point)}, {words.day(point)}: {words.measured(point)}",
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
        "in_words": _in_words(series),
        "rows": [(point, _moved(series, moves.get(point.place))) for point in reversed(series.points)],
    }


def _in_words(series: Series) -> str:
    """The figure for a reader who does not see it: the first and the last number, and where it moved."""
    first, last = (words.measured(series.points[at]) for at in (0, -1))
    moves = "".join(f"; moved at {words.named(move.after)}" for move in series.moves)
    return f"{series.item} over {len(series.points)} runs: first {first}, last {last}{moves}"


def _moved(series: Series, move: Move | None) -> str:
    return "" if move is None else f"{words.side(series, move) or 'moved'} by {number(abs(move.delta))}"
