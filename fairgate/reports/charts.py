"""Coordinates (in percent) and labels of every drawing; the templates only draw.

How a number moved over earlier runs is drawn too, and is no part of a verdict.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import boundless, number, share_words, signed, with_interval
from fairgate.records import CheckResult, GroupResult, RunRecord
from fairgate.reports.formatting import COMMIT, grouped, moment, reference

if TYPE_CHECKING:
    from fairgate.records import PastValue


@dataclass(frozen=True, slots=True)
class Track:
    """One row of a drawing. All places are SVG lengths, or None where the record has no number. `dots` are several
    numbers, each with whether it is beyond what chance gives, and `box` sums several up."""

    zero: str | None = None
    value: str | None = None
    lo: str | None = None
    hi: str | None = None
    baseline: str | None = None
    bounds: tuple[str, ...] = ()
    bad: tuple[tuple[str, str], ...] = ()
    null: tuple[str, str, str] | None = None
    bar: tuple[str, str] | None = None
    arrow: str | None = None
    failed: bool = False
    box: dict[str, str] | None = None
    dots: tuple[tuple[str, bool], ...] = ()


def estimate_of(check: CheckResult) -> dict[str, Any] | None:
    """What the template draws of an estimate against its bound; None where there is no finite number to draw."""
    value, lo, hi = decided_number(check)
    if finite(value) is None or value is None or check.bound is None:
        return None
    regression = check.rule == "no_worse_than"
    references = [0.0] if regression else [check.baseline, check.null_median, check.null_p95]
    bounds = margins_of(check)
    scale = scale_for([value, lo, hi, *bounds, *references])
    shown = with_interval(signed(value) if regression else number(value), lo, hi)
    required = {"at_least": "at least", "at_most": "at most", "no_worse_than": "margin"}[check.rule]
    return {
        "track": decided_track(check, scale),
        "scale": scale,
        "label": f"{'change' if regression else 'estimate'} {shown}; {required} {number(check.bound)}",
        "caption": f"change against the {reference(check)}" if regression else "estimate",
        "bound_label": f"{required} {number(check.bound)}",
        "bound_anchor": "end" if scale.place(bounds[0]) > 50 else "start",
    }


def decided_number(check: CheckResult) -> tuple[float | None, float | None, float | None]:
    """What was held against the bound, with its interval: the change where the bound is a margin."""
    if check.rule == "no_worse_than":
        return check.delta, check.delta_lo, check.delta_hi
    return check.value, check.lo, check.hi


def decided_track(check: CheckResult, scale: Scale) -> Track:
    """The decided number as a dot with its interval, against the bound and, for a value, baseline and null."""
    value, lo, hi = decided_number(check)
    regression = check.rule == "no_worse_than"
    infinite = value is not None and math.isinf(value)
    return scale.track(
        None if infinite else value,
        lo,
        hi,
        zero=scale.at(0.0) if regression else None,
        baseline=None if regression else scale.at(check.baseline),
        bounds=tuple(percent(scale.place(bound)) for bound in margins_of(check)),
        bad=_bad_side(check, scale),
        null=None if regression else scale.band(check.null_median, check.null_p95, check.null_median),
        arrow=("right" if value == math.inf else "left") if infinite else None,
        failed=check.verdict == "fail",
    )


def margins_of(check: CheckResult) -> list[float]:
    """Positions of the bound on the axis: a margin is drawn on its bad side, or on both where `better` is unknown."""
    bound = check.bound
    if bound is None:
        return []
    if check.rule != "no_worse_than":
        return [bound]
    return {"higher": [-bound], "lower": [bound], None: [-bound, bound]}[check.better]


def _bad_side(check: CheckResult, scale: Scale) -> tuple[tuple[str, str], ...]:
    """Start and width of the stretches in which the check does not hold."""
    ends, good = margins_of(check), {"at_least": "higher", "at_most": "lower"}.get(check.rule, check.better)
    if not ends:
        return ()
    below = [] if good == "lower" else [("0%", percent(scale.place(ends[0])))]
    return (*below, *([] if good == "higher" else [scale.beyond(ends[-1])]))


def value_track(group: GroupResult, scale: Scale) -> Track:
    value = group.value
    marks: dict[str, Any] = {
        "zero": scale.at(0.0),
        "baseline": scale.at(group.baseline),
        "failed": group.verdict == "fail",
    }
    if value is None or not math.isfinite(value):
        arrow = None if value is None or math.isnan(value) else "right" if value > 0 else "left"
        return Track(arrow=arrow, **marks)
    return scale.track(value, group.lo, group.hi, bar=scale.span(*sorted((0.0, value))), **marks)


def change_track(check: CheckResult, group: GroupResult, scale: Scale) -> Track:
    """How far one group moved, with its interval, against the margin of a check that has one."""
    bad = _bad_side(check, scale) if check.rule == "no_worse_than" else ()
    limits = group.delta, group.delta_lo, group.delta_hi
    return scale.track(*limits, zero=scale.at(0.0), bad=bad, failed=group.verdict == "fail")


_INSET: Final = 3.0
"""Percent left free at both ends, for marks and for the arrow of an infinite value."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place on the line. `at` in percent."""

    at: str
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """From `low` to `high` in the unit of the metric, `low < high`, both finite; `ticks` inside."""

    low: float
    high: float
    ticks: tuple[Tick, ...]

    @property
    def few_ticks(self) -> tuple[Tick, ...]:
        """Every second one, 0 among them, if there are more than a narrow axis has room for."""
        zero = next((at for at, tick in enumerate(self.ticks) if tick.label == "0"), 0)
        return self.ticks[zero % 2 :: 2] if len(self.ticks) > 4 else self.ticks

    def place(self, value: float) -> float:
        """Position of a value in percent; values beyond the ends, infinite ones too, are at the ends."""
        share = (value - self.low) / (self.high - self.low) if math.isfinite(value) else float(value > 0)
        return _INSET + (100 - 2 * _INSET) * min(1.0, max(0.0, share))

    def at(self, value: float | None) -> str | None:
        """The same as an SVG length, or None where there is nothing to draw."""
        return None if value is None or math.isnan(value) else percent(self.place(value))

    def band(self, low: float | None, high: float | None, mark: float | None) -> tuple[str, str, str] | None:
        """Start and width of a stretch, and a place in it; None where there is none."""
        if low is None or high is None or mark is None:
            return None
        return *self.span(low, high), percent(self.place(mark))

    def span(self, start: float, end: float) -> tuple[str, str]:
        """Where a stretch begins, and its width."""
        return percent(self.place(start)), percent(self.place(end) - self.place(start))

    def beyond(self, start: float) -> tuple[str, str]:
        """The same of what is above a number, to the edge of the drawing."""
        return percent(self.place(start)), percent(100 - self.place(start))

    def box(self, five: Sequence[float]) -> dict[str, str]:
        """The box of minimum, lower quartile, median, upper quartile and maximum, all finite."""
        low, median, high = (percent(self.place(x)) for x in five[::2])
        start, width = self.span(five[1], five[3])
        return {"low": low, "start": start, "width": width, "median": median, "high": high}

    def track(self, value: float | None, lo: float | None, hi: float | None, **marks: Any) -> Track:
        """A number with its limits, and further marks."""
        if boundless(lo, hi):
            lo = hi = None
        return Track(value=self.at(value), lo=self.at(lo), hi=self.at(hi), **marks)


def upright(scale: Scale) -> tuple[Tick, ...]:
    """The ticks of a vertical axis, from the bottom up."""
    return tuple(Tick(percent(100 - float(tick.at.rstrip("%"))), tick.label) for tick in scale.ticks)


def finite(value: float | None) -> float | None:
    """The number, or None where there is nothing to draw."""
    return value if value is not None and math.isfinite(value) else None


def largest(values: Iterable[float | None]) -> float:
    """The largest size of the finite numbers; 0 where there is none."""
    return max((abs(value) for value in map(finite, values) if value is not None), default=0.0)


def percent(place: float) -> str:
    """`12.34%`."""
    return f"{place:.2f}%"


def scale_for(values: Iterable[float | None]) -> Scale:
    """The line that holds all finite values, with three to six round ticks; [0, 1] when there is none."""
    numbers = [value for value in map(finite, values) if value is not None] or [0.0, 1.0]
    low, high = min(numbers), max(numbers)
    if high - low < 1e-9 * max(1.0, abs(low), abs(high)):
        reach = abs(low) / 2 or 0.5
        low, high = low - reach, high + reach
    margin = (high - low) * 0.04
    low, high = low - margin, high + margin
    step = _round_step((high - low) / 4)
    first, last = math.ceil(low / step), math.floor(high / step)
    line = Scale(low, high, ())
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    ticks = (Tick(percent(line.place(i * step)), _label(i * step, digits)) for i in range(first, last + 1))
    return Scale(low, high, tuple(ticks))


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.7)


def _label(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−") if abs(value) > 10.0 ** -(digits + 2) else "0"


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
    from fairgate.records import PastValue

    model, commit = record.model.fingerprint, record.environment.git_commit
    by_item = grouped((past for past in history if past.created_at != record.created_at), lambda past: past.item)
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
    has_bound = check.rule != "no_worse_than"
    bounds = [finite(point.bound) if has_bound else None for point in points]
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
        said=_spark_in_words(points, has_bound),
    )


def _spark_in_words(points: Sequence[PastValue], has_bound: bool) -> tuple[str, ...]:
    """The drawing in words: from when to when, first and last, lowest and highest, and where it moved most."""
    values = [point.value or 0.0 for point in points]
    moves = [later - earlier for earlier, later in itertools.pairwise(values)]
    at = max(range(len(moves)), key=lambda place: abs(moves[place]))
    first, last = points[0], points[-1]
    sentences = [
        f"{share_words(len(points), 'run')} from {moment(first.created_at)} to {moment(last.created_at)}",
        f"first {number(values[0])}, now {number(values[-1])}, lowest {number(min(values))}, "
        f"highest {number(max(values))}",
    ]
    if moves[at] != 0:
        before, after = points[at : at + 2]
        place = clean(after.commit[:COMMIT]) if after.commit else moment(after.created_at)
        if after.model is not None and after.model != before.model:  # an untracked one may change without a commit
            place += f" with checkpoint {clean(after.model[:8])}"
        sentences.append(f"moved most, by {signed(moves[at])}, at {place}")
    if has_bound and len({point.bound for point in points}) > 1:
        sentences.append("its bound changed on the way")
    return tuple(sentences)
