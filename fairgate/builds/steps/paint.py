"""Painting members: each from its caption, or into the mask of one base picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from PIL.Image import Image

from fairgate.builds.steps.contract import Batches, Maker, Meter, Row, SetRows
from fairgate.builds.steps.pictures import COLUMNS, SEED, made_with, mask, picture, spending
from fairgate.models.generation import Inpainter, Painter, Sampling


@dataclass(frozen=True, slots=True)
class Paint(Maker):
    """Text to image for every member, `batch` pictures at a time; each from a seed of its own."""

    painter: Painter
    how: Sampling
    batch: int = 8
    _batches: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("member", "caption")
    writes: ClassVar[tuple[str, ...]] = ("image", *COLUMNS)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
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


NOISE = "vary"
"""The stream of a set that its variants' one noise is drawn from."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A member to be made: its name, its prompt, and the columns that it has (its groups)."""

    member: str
    caption: str
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vary(Maker):
    """Repaints the masked person of each set's `base` picture, once per variant, and appends the members.

    `batch` counts pictures: of several sets where there is one variant, else of one set. All variants of a set, in this
    step or in a later one, start from one noise: its seed is the set's.
    """

    inpainter: Inpainter
    how: Sampling
    variants: tuple[Variant, ...]
    batch: int = 8
    _batches: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("base", "mask")
    writes: ClassVar[tuple[str, ...]] = ("member", "caption", "image", *COLUMNS)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        jobs = [[(rows, variant) for variant in self.variants] for rows in sets]
        if len(self.variants) == 1:  # a wave of one group: sets share a batch
            jobs = [[job for alone in jobs for job in alone]]
        with spending(self.inpainter, meter):
            images = [image for some in jobs for image in self._batches(self._painted, some, self.batch, meter)]
        for (rows, variant), image in zip((job for some in jobs for job in some), images, strict=True):
            made = made_with(self.inpainter, rows.seed_of(NOISE), self.how)
            columns = {"member": variant.member, "caption": variant.caption, **variant.columns}
            rows.rows.append({**columns, "image": image, **made})

    def _painted(self, jobs: Sequence[tuple[SetRows, Variant]]) -> list[Image]:
        bases = [picture(rows.columns["base"]) for rows, _ in jobs]
        masks = [mask(rows.columns["mask"]) for rows, _ in jobs]
        seeds = [rows.seed_of(NOISE) for rows, _ in jobs]
        return self.inpainter.inpaint(bases, masks, [variant.caption for _, variant in jobs], seeds, self.how)
