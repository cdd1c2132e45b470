"""Filters without a model: limits on a number, equal pictures, few colours; and dropping columns no longer needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from PIL.Image import Image

from fairgate.errors import RecipeError
from fairgate.steps.contract import Drop, Judge, Maker, Meter, SetRows, Trace
from fairgate.steps.pictures import picture


@dataclass(frozen=True, slots=True)
class Within(Judge):
    """Drops a set whose `column` is below `at_least` or above `at_most`, with `reason`."""

    column: str
    reason: str
    at_least: float | None = None
    at_most: float | None = None

    def judge(self, rows: SetRows) -> Drop | None:
        """None within the limits. Raises RecipeError where the set has no such number."""
        value = rows.columns.get(self.column)
        if not isinstance(value, int | float):
            raise RecipeError(
                f"set '{rows.set_id}' has no number '{self.column}', and got {value!r}.",
                where=f"step Within('{self.column}')",
                remedy="order the recipe's steps so that a column is written before it is judged",
            )
        measured = float(value)
        if self.at_least is not None and not measured >= self.at_least:  # NaN is not within any limit
            return Drop(self.reason, measured=measured, limit=self.at_least)
        if self.at_most is not None and not measured <= self.at_most:
            return Drop(self.reason, measured=measured, limit=self.at_most)
        return None


def unique_colours(image: Image) -> int:
    """How many different RGB triples an image has. A grey one has at most 256.

    A table with a bit for each of the 16.8 million colours: no sorting, 30 times as fast as a set of tuples.
    """
    pixels = np.asarray(image.convert("RGB"), dtype=np.uint32).reshape(-1, 3)
    packed = (pixels[:, 0] << 16) | (pixels[:, 1] << 8) | pixels[:, 2]
    if len(packed) < 2**16:  # clearing the table would cost more than sorting
        return len(np.unique(packed))
    seen = np.zeros(2**24, dtype=np.bool_)
    seen[packed] = True
    return int(np.count_nonzero(seen))


@dataclass(frozen=True, slots=True)
class CountColours(Maker):
    """Writes `n_colours` of a set of one picture: its number of different RGB triples."""

    reads: ClassVar[tuple[str, ...]] = ("image",)
    writes: ClassVar[tuple[str, ...]] = ("n_colours",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            rows.columns["n_colours"] = unique_colours(picture(rows.rows[0]["image"]))


BITS = 52
"""Of a likeness: what a float64 holds exactly, for ledgers keep numbers as floats."""


def pixel_digest(image: Image) -> int:
    """A number that two pictures share where every pixel is equal (SHA-256, its first 52 bits)."""
    rgb = image.convert("RGB")
    text = f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> (64 - BITS)


@dataclass(frozen=True, slots=True)
class Likeness(Maker):
    """Writes `likeness` of a set of one picture, for `first_of_each`."""

    reads: ClassVar[tuple[str, ...]] = ("image",)
    writes: ClassVar[tuple[str, ...]] = ("likeness",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            rows.columns["likeness"] = pixel_digest(picture(rows.rows[0]["image"]))


def first_of_each(traces: Iterable[Trace]) -> list[Trace]:
    """Of traces that share a likeness, the first, in the order given."""
    first: dict[float, Trace] = {}
    for trace in traces:
        first.setdefault(trace.numbers["likeness"], trace)
    return list(first.values())


@dataclass(frozen=True, slots=True)
class Forget(Maker):
    """Takes columns off the sets, so that they are not stored with every member."""

    columns: tuple[str, ...]

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            for column in self.columns:
                rows.columns.pop(column, None)
