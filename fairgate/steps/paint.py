"""Painting: every member's picture from its caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from fairgate.generation import Painter, Sampling
from fairgate.steps.batches import Batches
from fairgate.steps.contract import Meter, Row, SetRows
from fairgate.steps.provenance import COLUMNS, SEED, made_with
from fairgate.steps.spending import spending

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Paint:
    """Text to image for every member, `batch` pictures at a time; each from a seed of its own."""

    painter: Painter
    how: Sampling
    batch: int = 8
    _batches: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("member", "caption")
    writes: ClassVar[tuple[str, ...]] = ("image", *COLUMNS)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Fill `image` and what it was made with."""
        waiting: list[Row] = []
        for rows in sets:
            for row in rows.rows:
                row.update(made_with(self.painter, rows.seed_of("paint", str(row["member"])), self.how))
                waiting.append(row)
        with spending(self.painter, meter):
            images = self._batches(self._paint, waiting, self.batch, meter)
        for row, image in zip(waiting, images, strict=True):
            row["image"] = image

    def _paint(self, rows: Sequence[Row]) -> list[Image]:
        return self.painter.paint([row["caption"] for row in rows], [row[SEED] for row in rows], self.how)
