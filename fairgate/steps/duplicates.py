"""Finding the same picture twice: a number that equal pictures share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from fairgate.steps.contract import Meter, SetRows, Trace
from fairgate.steps.pictures import picture

if TYPE_CHECKING:
    from PIL.Image import Image

BITS = 52
"""Of a likeness: what a float64 holds exactly, for ledgers keep numbers as floats."""
_GRID = 7

Alike = Literal["pixels", "look"]


def pixel_digest(image: Image) -> int:
    """A number that two pictures share where every pixel is equal (SHA-256, its first 52 bits)."""
    rgb = image.convert("RGB")
    text = f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> (64 - BITS)


def look_digest(image: Image) -> int:
    """A number that nearly equal pictures share: where a picture of 8 x 7 grey cells grows darker, 49 bits.

    The difference hash: it does not move with size, encoder or a little noise.
    """
    import PIL.Image

    cells = image.convert("L").resize((_GRID + 1, _GRID), PIL.Image.Resampling.BOX)
    grey = np.asarray(cells, dtype=np.int16)
    bits = (grey[:, 1:] < grey[:, :-1]).ravel()
    return int("".join("1" if bit else "0" for bit in bits), 2)


@dataclass(frozen=True, slots=True)
class Likeness:
    """Writes `likeness` of a set of one picture, for `first_of_each`."""

    alike: Alike = "pixels"

    reads: ClassVar[tuple[str, ...]] = ("image",)
    writes: ClassVar[tuple[str, ...]] = ("likeness",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Digest every picture."""
        digest = pixel_digest if self.alike == "pixels" else look_digest
        for rows in sets:
            rows.columns["likeness"] = digest(picture(rows.rows[0]["image"]))


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
