"""Finding the same picture twice: a number that equal pictures share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fairgate.steps.contract import Meter, SetRows, Trace
from fairgate.steps.pictures import picture

if TYPE_CHECKING:
    from PIL.Image import Image

BITS = 52
"""Of a likeness: what a float64 holds exactly, for ledgers keep numbers as floats."""


def pixel_digest(image: Image) -> int:
    """A number that two pictures share where every pixel is equal (SHA-256, its first 52 bits)."""
    rgb = image.convert("RGB")
    text = f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> (64 - BITS)


@dataclass(frozen=True, slots=True)
class Likeness:
    """Writes `likeness` of a set of one picture, for `first_of_each`."""

    reads: ClassVar[tuple[str, ...]] = ("image",)
    writes: ClassVar[tuple[str, ...]] = ("likeness",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Digest every picture."""
        for rows in sets:
            rows.columns["likeness"] = pixel_digest(picture(rows.rows[0]["image"]))


def first_of_each(traces: Iterable[Trace]) -> list[Trace]:
    """Of traces that share a likeness, the first; order is kept."""
    seen: set[float] = set()
    first = []
    for trace in traces:
        likeness = trace.numbers["likeness"]
        if likeness not in seen:
            seen.add(likeness)
            first.append(trace)
    return first
