"""Sparklines in report.html: how a check's number moved over earlier runs. They are no part of a verdict."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.errors import clean
from fairgate.number_format import number, signed
from fairgate.records import CheckResult, PastValue, RunRecord
from fairgate.reports.charts import finite, scale_for
from fairgate.reports.formatting import moment, share_words
from fairgate.reports.notes import COMMIT

MOST_POINTS: Final = 60


@dataclass(frozen=True, slots=True)
class Spark:
    """A line over runs as SVG paths in a square of 100 by 100: numbers, their intervals, what they were held to."""

    line: str
    dots: str
    now: str
    intervals: str
    bounds: str
    said: tuple[str, ...]


def sparks_of(
    record: RunRecord, history: Iterable[PastValue], checks: Sequence[CheckResult] | None = None
) -> dict[str, Spark]:
    """A drawing per item of these checks (of all of the record's) that has at least two numbers, this run's included;
    `history` oldest first.

    Of many runs the last 60 are drawn. Bounds are drawn for checks that hold their number to one, not for margins.
    """
    model, commit = record.model.fingerprint, record.environment.git_commit
    by_item: dict[str, list[PastValue]] = {}
    for point in history:
        if point.created_at != record.created_at:
            by_item.setdefault(point.item, []).append(point)
    drawn = {}
    for check in record.checks if checks is None else checks:
        numbers = check.value, check.lo, check.hi, check.bound
        now = PastValue(commit, record.created_at, check.item, *numbers, model=model)
        points = [*by_item.get(check.item, ()), now]
        measured = [point for point in points if finite(point.value) is not None]
        if len(measured) >= 2:
            drawn[check.item] = _spark(measured[-MOST_POINTS:], check)
    return drawn


def _spark(points: Sequence[PastValue], check: CheckResult) -> Spark:
    held = check.rule != "no_worse_than"
    bounds = [finite(point.bound) if held else None for point in points]
    scale = scale_for([x for point in points for x in (point.value, point.lo, point.hi)] + bounds)

    def up(value: float | None) -> str:
        return f"{100 - scale.place(value or 0.0):.1f}"

    step = 96 / (len(points) - 1)
    places = [2 + step * at for at in range(len(points))]
    marks = [f"{x:.1f} {up(point.value)}" for x, point in zip(places, points, strict=True)]
    return Spark(
        line=f"M{'L'.join(marks)}",
        dots="".join(f"M{mark}h0" for mark in marks[:-1]),
        now=f"M{marks[-1]}h0",
        intervals="".join(
            f"M{x:.1f} {up(point.lo)}V{up(point.hi)}"
            for x, point in zip(places, points, strict=True)
            if finite(point.lo) is not None and finite(point.hi) is not None
        ),
        bounds="".join(
            f"M{max(0.0, x - step / 2):.1f} {up(bound)}H{min(100.0, x + step / 2):.1f}"
            for x, bound in zip(places, bounds, strict=True)
            if bound is not None
        ),
        said=_said(points, held),
    )


def _said(points: Sequence[PastValue], held: bool) -> tuple[str, ...]:
    """The drawing in words: from when to when, first and last, lowest and highest, and where it moved most."""
    values = [point.value or 0.0 for point in points]
    moves = [later - earlier for earlier, later in itertools.pairwise(values)]
    at = max(range(len(moves)), key=lambda place: abs(moves[place]))
    first, last = points[0], points[-1]
    said = [
        f"{share_words(len(points), 'run')} from {moment(first.created_at)} to {moment(last.created_at)}",
        f"first {number(values[0])}, now {number(values[-1])}, lowest {number(min(values))}, "
        f"highest {number(max(values))}",
    ]
    if moves[at] != 0:
        before, after = points[at : at + 2]
        place = clean(after.commit[:COMMIT]) if after.commit else moment(after.created_at)
        if after.model is not None and after.model != before.model:  # an untracked one may change without a commit
            place += f" with checkpoint {clean(after.model[:8])}"
        said.append(f"moved most, by {signed(moves[at])}, at {place}")
    if held and len({point.bound for point in points}) > 1:
        said.append("its bound changed on the way")
    return tuple(said)
