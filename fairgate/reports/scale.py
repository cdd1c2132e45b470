"""A number line in percent of a drawing's width, so that a drawing fits every width without being redrawn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

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

    def place(self, value: float) -> float:
        """Where a value stands, in percent; beyond the ends (and infinite) at the ends."""
        share = (value - self.low) / (self.high - self.low) if math.isfinite(value) else float(value > 0)
        return _INSET + (100 - 2 * _INSET) * min(1.0, max(0.0, share))

    def at(self, value: float | None) -> str | None:
        """The same as an SVG length, or None where there is nothing to draw."""
        return None if value is None or math.isnan(value) else percent(self.place(value))


def percent(place: float) -> str:
    """`12.34%`."""
    return f"{place:.2f}%"


def scale_for(values: Iterable[float | None]) -> Scale:
    """The line that holds all finite values, with three to six round ticks; [0, 1] when there is none."""
    held = [value for value in values if value is not None and math.isfinite(value)] or [0.0, 1.0]
    low, high = min(held), max(held)
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
