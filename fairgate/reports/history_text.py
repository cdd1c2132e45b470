"""A history in words and in a terminal: a line per item, then each place where a number moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number, share_words, signed, with_interval
from fairgate.records import RULE, History, Move, Point, Series
from fairgate.reports.data_table import fold_name, text_table
from fairgate.reports.formatting import at_most, grouped, metric_words, spec_of

if TYPE_CHECKING:
    from rich.table import Table

_BARS: Final = "▁▂▃▄▅▆▇"  # seven: noise about the middle must not be on the edge of two
_CUT: Final = "╎"
_WIDEST: Final = 40
"""Runs that a line of the terminal shows, the newest ones."""
_NARROWEST, _BESIDE = 8, 90
"""Runs that a line shows in a narrow terminal, and columns for what stands beside it."""
_PLACES: Final = 8
"""Most recent places where numbers moved that the terminal lists."""
_MOVES: Final = 6
"""Moves listed per place."""
_LINES: Final = 12
"""Drifts, and cuts, listed."""


def named(point: Point) -> str:
    """The run's commit, with a star where files differed from it; of no commit, its time. Where runs of several
    checkpoints have that commit, the checkpoint follows: `1a2b3c4-9f8e7d6c`, as MLflow names the run."""
    return f"{_commit(point)}-{checkpoint(point)}" if point.shared and point.run.model else _commit(point)


def _commit(point: Point) -> str:
    run = point.run
    commit = f"{clean(run.commit[:7])}{'*' if run.dirty else ''}" if run.commit else clean(run.created_at[:16])
    return f"#{clean(run.pull_request, 12)} {commit}" if run.pull_request else commit


def checkpoint(point: Point) -> str:
    """The start of the checkpoint's fingerprint."""
    return clean(point.run.model[:8]) if point.run.model else "unknown"


def day(point: Point) -> str:
    """The date of the run, in its own time zone."""
    return clean(point.run.created_at[:10])


def dated(point: Point) -> str:
    """The commit and, on a second line, month and day; of no commit, the whole date."""
    return f"{named(point)}\n{day(point)[5:]}" if point.run.commit else day(point)


def measured(point: Point) -> str:
    """The number with its interval."""
    return with_interval(number(point.value), point.lo, point.hi)


def side(series: Series, move: Move) -> str:
    """Whether a move is for the better or the worse, of a number that counts by its size by that; nothing where the
    metric has no good side, the size is the same, or a group fell and is not clearly behind the others."""
    spec, change, now = spec_of(series.question), move.delta, move.after.value
    if spec is not None and spec.group_bound == "size":
        change = abs(now) - abs(now - move.delta)
    behind = now < 0 and (move.after.hi is None or move.after.hi < 0)
    harmless = spec is not None and spec.relative and change < 0 and not behind
    if series.question.better is None or change == 0 or harmless:
        return ""
    return "better" if (change > 0) == (series.question.better == "higher") else "worse"


def place_words(move: Move) -> str:
    """Where it moved: `1a2b3c4 (2026-03-05), or one of the 3 commits since 9f8e7d6 that no run measured; checkpoint
    0a1b2c3d, before it 4e5f6a7b`. A commit is named only where it can be what changed."""
    before, after = move.before, move.after
    if not move.by_commit:
        return _untracked(move)
    place = f"{named(after)} ({day(after)})"
    if move.unseen:
        several = f"one of the {move.unseen} commits" if move.unseen > 1 else "the one commit"
        place += f", or {several} since {named(before)} that no run measured"
    if move.same_model:
        return f"{place}; the checkpoint is the same, {checkpoint(after)}"
    if after.run.model and before.run.model:
        return f"{place}; checkpoint {checkpoint(after)}, before it {checkpoint(before)}"
    return place


def _untracked(move: Move) -> str:
    """Where it moved, for runs of one commit or of several untracked checkpoints at one commit."""
    before, after = move.before, move.after
    if move.same_commit and move.same_model:
        return f"{named(after)} ({day(after)}), with the commit and the checkpoint of the run before"
    if move.same_commit and not (before.run.model and after.run.model):
        return f"{named(after)} ({day(after)}), with the commit of the run before; whose checkpoint is not known"
    of, at = f"checkpoint {checkpoint(after)} ({day(after)})", _commit(after)
    if move.same_commit:
        return f"{of}, before it {checkpoint(before)}, both at commit {at}"
    return (
        f"{of} at {at}, before it {checkpoint(before)} at {_commit(before)}: several checkpoints ran at one commit, so "
        "that no commit is named for it"
    )


def move_words(series: Series, move: Move) -> str:
    """`fairness 0.912 → 0.861, −0.051 where the intervals allow 0.021: worse`, with the group that it is of."""
    judged = f": {verdict}" if (verdict := side(series, move)) else ""
    change, allowed = signed(move.delta), number(move.allowed)
    if change[1:] == allowed:  # a fourth decimal tells them apart
        change, allowed = f"{move.delta:+.4f}".replace("-", "−"), f"{move.allowed:.4f}"
    return (
        f"{clean(series.item, 120)}{_of(move.after)} {number(move.before.value)} → {number(move.after.value)}, "
        f"{change} where the intervals allow {allowed}{judged}"
    )


def _of(point: Point) -> str:
    return f" of {clean(point.group, 120)}" if point.group else ""


def drift_words(series: Series, move: Move) -> str:
    """A change made of steps that are too small to be significant one by one."""
    return f"from {named(move.before)} to {named(move.after)}, in no single step: {move_words(series, move)}"


def moved_at(history: History) -> dict[str, list[str]]:
    """All moves in words by the place where they happened, oldest first; those for the worse first, then the largest
    against what the intervals allow."""

    def order(entry: tuple[Series, Move]) -> tuple[int, int, bool, float]:
        series, move = entry
        loud = abs(move.delta) / move.allowed if move.allowed else math.inf
        return move.after.place, move.before.place, side(series, move) != "worse", -loud

    moved = sorted(((curve, move) for curve in history.series for move in curve.moves), key=order)
    by_place = grouped(moved, lambda entry: place_words(entry[1]))
    return {  # one checkpoint may come back to a commit: what it moved then is in the words already
        place: list(dict.fromkeys(move_words(*entry) for entry in entries)) for place, entries in by_place.items()
    }


def cut_words(point: Point) -> str:
    """Why numbers before a run are not compared with its own."""
    return f"cut at {named(point)} ({day(point)}): {clean(point.cut or '', 200)}"


def span_words(history: History) -> str:
    """`12 runs from 2026-03-01 to 2026-03-14, in the order of their commits`."""
    days = [clean(run.created_at[:10]) for run in history.runs]
    order = "in the order of their commits" if history.by_commit else "in the order of time"
    span = f"from {min(days)} to {max(days)}" if min(days) != max(days) else f"on {days[0]}"
    return f"{share_words(len(history.runs), 'run')} {span}, {order}"


def sparkline(series: Series, widest: int = _WIDEST) -> str:
    """The newest numbers as bars, on the scale of their intervals, so that noise looks flat; `╎` where it is cut."""
    shown = series.points[-widest:]
    ends = [x for point in shown for x in (point.value, point.lo, point.hi) if x is not None]
    low, high = min(ends), max(ends)
    bars = ["…"] if len(series.points) > widest else []
    for place, point in enumerate(shown):
        share = (point.value - low) / (high - low) if high > low else 0.5
        bars.append(_CUT if point.cut is not None and place else "")
        bars.append(_BARS[min(len(_BARS) - 1, int(share * len(_BARS)))])
    return "".join(bars)


def history_table(history: History, width: int) -> Table:
    """A row per item: first and last number, the line between, and where it moved last. Of `width` columns of a
    terminal the line gets what names and numbers leave; a name wraps and is never cut, since its end may be what tells
    two apart. A narrow terminal has the metric under the name. Under the last number of a comparison in groups is the
    group that it is of."""
    narrow = width < _BESIDE
    bars = min(_WIDEST, max(_NARROWEST, width - _BESIDE))
    rows: list[list[str | tuple[str, str]]] = []
    anchored = any(series.points[-1].anchor is not None for series in history.series)
    for series in history.series:
        moves = [*series.moves, *([series.drift] if series.drift else [])]
        last = moves[-1] if moves else None
        bad = last is not None and side(series, last) == "worse"
        words = "" if last is None else f"{signed(last.delta)} {'since' if last is series.drift else 'at'} "
        metric = metric_words(series.question)
        where = "" if last is None else named(last.before if last is series.drift else last.after)
        rows.append(
            [
                *((f"{fold_name(series.item, 18)}\n{metric}",) if narrow else (fold_name(series.item, 40), metric)),
                *(str(len(series.points)), number(series.points[0].value)),
                *(sparkline(series, bars), _newest(series.points[-1], narrow)),
                *((_since_anchor(series),) if anchored else ()),
                (words + where, "red" if bad else ""),
            ]
        )
    since = ("~since the anchor",) if anchored else ()
    named_by = ("~check, metric",) if narrow else ("~check", "~metric")
    return text_table((*named_by, ">runs", ">first", "history", "~last", *since, "~moved"), rows)


def _newest(point: Point, narrow: bool) -> str:
    """The number with its interval, and the group that it is of, on lines of their own in a narrow terminal."""
    text = measured(point).replace(" [", "\n[") if narrow else measured(point)
    return f"{text}\n{fold_name(_of(point).strip(), 16 if narrow else 30)}" if point.group else text


def _since_anchor(series: Series) -> str:
    """How far the newest number is from the anchor's, and the anchor's."""
    last = series.points[-1]
    return "" if last.anchor is None else f"{signed(last.value - last.anchor)} from {number(last.anchor)}"


def terminal_lines(history: History) -> list[str]:
    """Every move by its commit, drifts and cuts, the rule by which they were found, and what the data is."""
    places = [
        [f"moved at {place}:", *_first([f"  {words}" for words in sentences], _MOVES)]
        for place, sentences in moved_at(history).items()
    ]
    moved = [line for place in places[-_PLACES:] for line in place] or [
        "No number moved, as far as there are intervals." if unjudged(history) else "No number moved."
    ]
    earlier = len(places) - _PLACES
    repeated = dict.fromkeys(clean(item.partition("[")[0], 80) for item in history.repeats)
    drifts = [f"drifted {drift_words(series, series.drift)}" for series in history.series if series.drift]
    return [
        *([f"{share_words(earlier, 'earlier place')} where numbers moved: see --out FILE.html"] if earlier > 0 else []),
        *moved,
        *_first(drifts, _LINES),
        *_first(unjudged(history), _LINES),
        *_first(absent(history), _LINES),
        *_first(cuts(history), _LINES),
        *_first(regroupings(history), _LINES),
        *([f"left out, same number as above: {', '.join(repeated)}"] * bool(history.repeats)),
        *left_out(history),
        *_branches(history),
        RULE,
        *(f"Note: {notice}" for notice in notices(history)),
    ]


def left_out(history: History) -> list[str]:
    """The runs of another architecture, as one sentence; nothing where there are none."""
    if not history.others:
        return []
    names = [_commit(Point(run, 0, math.nan, None, None, None)) for run in history.others[-_MOVES:]]
    more = len(history.others) - len(names)
    return [
        f"left out, of another architecture (number of weights): {', '.join(names)}"
        + (f" and {more} earlier" if more else "")
    ]


def _branches(history: History) -> list[str]:
    names = list(dict.fromkeys(run.branch for run in history.runs if run.branch))
    if len(names) < 2:
        return []
    shown = ", ".join(clean(name, 60) for name in names[:_MOVES])
    return [f"These are runs of {len(names)} branches ({shown}); --branch NAME shows one."]


def unjudged(history: History) -> list[str]:
    """Changes of which nothing is claimed, for a run has no interval."""
    return [
        f"not judged, for there is no interval: {clean(series.item, 120)} at {_several(series.unjudged)}"
        for series in history.series
        if series.unjudged
    ]


def absent(history: History) -> list[str]:
    """Runs that have no finite number for an item: it could not be computed, or was infinite."""
    return [
        f"no finite number of {clean(series.item, 120)} at {_several(series.without)}: it could not be computed, "
        "or was infinite; the run's report says which"
        for series in history.series
        if series.without
    ]


def _several(points: Sequence[Point]) -> str:
    names = [f"{named(point)} ({day(point)})" for point in points[-_MOVES:]]
    more = len(points) - len(names)
    return ", ".join(names) + (f" and {more} earlier" if more else "")


def cuts(history: History) -> list[str]:
    """Every cut once, oldest first."""
    cut_points = [point for series in history.series for point in series.points if point.cut]
    return list(dict.fromkeys(map(cut_words, sorted(cut_points, key=lambda point: point.place))))


def regroupings(history: History) -> list[str]:
    """Of each item whose number is another group's now and then: which group's, and since when."""
    lines = []
    for series in history.series:
        points = [point for point in series.points if point.regrouped]
        if points:
            later = ", ".join(f"from {named(point)} of {clean(point.group or '', 60)}" for point in points[-_MOVES:])
            first = next((point.group for point in series.points if point.group), None) or ""
            start = clean(first, 60) if len(points) <= _MOVES else "several groups"
            lines.append(f"{clean(series.item, 120)}: the number of {start}, {later}")
    return lines


def notices(history: History) -> list[str]:
    """The notices of the datasets, each once."""
    return list(dict.fromkeys(clean(run.notice, 600) for run in history.runs if run.notice))


def _first(lines: Sequence[str], most: int) -> list[str]:
    indent = " " * (len(lines[0]) - len(lines[0].lstrip())) if lines else ""
    return at_most(lines, most, f"{indent}and {{}} more: see --out FILE.html, or narrow with --check")
