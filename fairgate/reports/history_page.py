"""history.html: a figure per item over the runs, and where it moved; one file that loads nothing."""

from __future__ import annotations

from typing import Any, Final

from fairgate.number_format import number
from fairgate.records import RULE, History, Move, Point, Series
from fairgate.reports import history_text
from fairgate.reports.charts import Tick, percent, scale_for, upright
from fairgate.reports.formatting import metric_words
from fairgate.reports.history_text import (
    absent,
    cut_words,
    cuts,
    day,
    drift_words,
    measured,
    moved_at,
    named,
    notices,
    side,
    span_words,
    unjudged,
)
from fairgate.reports.standalone_page import render_page

MOST_FIGURES: Final = 60
_TICKS: Final = 5


def history_html(history: History) -> str:
    """The page as text, in the look of report.html: items that moved first."""
    ordered = sorted(history.series, key=lambda series: not (series.moves or series.drift))
    numbers = {text: str(place) for place, text in enumerate(cuts(history), 1)}
    return render_page(
        "history",
        history=history,
        head=span_words(history),
        moved=list(moved_at(history).items()),
        drifted=[drift_words(series, series.drift) for series in history.series if series.drift],
        cuts=list(numbers),
        unknown=[*unjudged(history), *absent(history)],
        notices=notices(history),
        figures=[_figure(series, history, numbers) for series in ordered[:MOST_FIGURES]],
        more=[series.item for series in ordered[MOST_FIGURES:]],
        rule=RULE,
        words=history_text,
    )


def _figure(series: Series, history: History, numbers: dict[str, str]) -> dict[str, Any]:
    """What the template draws of one item. `lines` join points between cuts, in a square of 100 by 100; `gaps` are
    cuts, with their numbers; `rows` of its table are runs, the newest first, with how the number moved."""
    count = len(history.runs)
    held = [point.bound for point in series.points] if series.question.held else []
    scale = scale_for([*held, *(x for point in series.points for x in (point.value, point.lo, point.hi))])
    moves = {move.after.place: move for move in series.moves}
    first, last = series.points[0], series.points[-1]
    words = [f"{series.item} over {len(series.points)} runs: first {measured(first)}, last {measured(last)}"]
    words += [f"moved at {named(move.after)}" for move in series.moves]
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
            "left": percent(across(point.place - 0.5)),
            "right": percent(across(point.place + 0.5)),
            "ring": None if move is None else side(series, move) or "moved",
            "fell": move is not None and move.delta < 0,
            "name": named(point),
            "said": f"{named(point)}, {day(point)}: {measured(point)}",
        }

    return {
        "series": series,
        "metric": metric_words(series.question.metric),
        "dots": [dot(point) for point in series.points],
        "lines": [
            " ".join(f"{across(point.place):.2f},{100 - scale.place(point.value):.2f}" for point in stretch)
            for stretch in series.stretches
        ],
        "gaps": [
            (percent(across(point.place - 0.5)), numbers[cut_words(point)]) for point in series.points if point.cut
        ],
        "up": upright(scale),
        "across": [Tick(percent(across(at)), named(runs[at])) for at in range(0, count, step) if at in runs],
        "said": "; ".join(words),
        "rows": [(point, _moved(series, moves.get(point.place))) for point in reversed(series.points)],
    }


def _moved(series: Series, move: Move | None) -> str:
    return "" if move is None else f"{side(series, move) or 'moved'} by {number(abs(move.delta))}"
