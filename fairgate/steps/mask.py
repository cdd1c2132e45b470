"""Masking: where the one person of a picture is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fairgate.generation import Box, Detector, Mask, Segmenter
from fairgate.steps.batches import Batches
from fairgate.steps.contract import Drop, Meter, SetRows
from fairgate.steps.pictures import mask_png, picture
from fairgate.steps.spending import spending


@dataclass(frozen=True, slots=True)
class MaskPerson:
    """Finds the person in the set's `base` picture.

    Writes the `mask` (a 1-bit PNG), the `mask_share` of the picture that it covers, and the detector's `person_score`.
    Drops `no_person` and `several_persons`: which of them the caption would change is anybody's guess.
    """

    detector: Detector
    segmenter: Segmenter
    text: str
    box_threshold: float
    text_threshold: float
    batch: int = 8
    _detecting: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)
    _segmenting: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("base",)
    writes: ClassVar[tuple[str, ...]] = ("mask", "mask_share", "person_score")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Detect, then segment what was found once."""
        with spending(self.detector, meter), spending(self.segmenter, meter):
            alone: list[tuple[SetRows, Box]] = []
            for rows, boxes in zip(sets, self._detecting(self._detect, sets, self.batch, meter), strict=True):
                if len(boxes) == 1:
                    alone.append((rows, boxes[0]))
                else:
                    reason = "several_persons" if boxes else "no_person"
                    rows.drop = Drop(reason, measured=float(len(boxes)), limit=1.0)
            masks = self._segmenting(self._segment, alone, self.batch, meter)
        for (rows, box), mask in zip(alone, masks, strict=True):
            rows.columns["mask"] = mask_png(mask)
            rows.columns["mask_share"] = float(np.mean(mask))
            rows.columns["person_score"] = float(box.score)

    def _detect(self, sets: Sequence[SetRows]) -> list[list[Box]]:
        images = [picture(rows.columns["base"]) for rows in sets]
        return self.detector.detect(
            images, self.text, box_threshold=self.box_threshold, text_threshold=self.text_threshold
        )

    def _segment(self, found: Sequence[tuple[SetRows, Box]]) -> list[Mask]:
        images = [picture(rows.columns["base"]) for rows, _ in found]
        return self.segmenter.segment(images, [box for _, box in found])
