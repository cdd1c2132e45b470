"""From the finder's grid to boxes and masks in pixels of the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.generation import Box, Mask
from fairgate.portraits.standin_pictures import Fitted, letterbox
from fairgate.portraits.standin_sizes import FIND, GRID, KINDS

SAME = 0.5
"""Overlap (intersection over union) from which the weaker of two boxes of a kind is the same thing found twice."""
_MARGIN = 0.08
"""Of the box's longer side, added on every side before its outline is looked for."""


def boxes_of(
    picture: Image.Image,
    fitted: Fitted,
    scores: NDArray[np.float32],
    edges: NDArray[np.float32],
    *,
    kinds: Sequence[str],
    least: float,
) -> list[Box]:
    """Peaks of the grid (kinds, GRID, GRID) with at least this score, as boxes, highest score first."""
    cell = fitted.scale * FIND / GRID
    found: list[Box] = []
    for kind in kinds:
        grid, reach = scores[KINDS.index(kind)], edges[KINDS.index(kind)]
        for row, column in np.argwhere(_peaks(grid) & (grid >= least)):
            left, top, right, bottom = reach[:, row, column]
            found.append(
                Box(
                    left=max(0.0, float(column + 0.5 - left) * cell),
                    top=max(0.0, float(row + 0.5 - top) * cell),
                    right=min(float(picture.width), float(column + 0.5 + right) * cell),
                    bottom=min(float(picture.height), float(row + 0.5 + bottom) * cell),
                    score=float(grid[row, column]),
                    label=kind,
                )
            )
    kept: list[Box] = []
    for box in sorted(found, key=lambda box: -box.score):
        if box.right > box.left and box.bottom > box.top and not any(_same(box, other) for other in kept):
            kept.append(box)
    return kept


def _peaks(grid: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Cells that none of their eight neighbours exceeds."""
    padded = np.pad(grid, 1, constant_values=-np.inf)
    around = [padded[dy : dy + GRID, dx : dx + GRID] for dy in range(3) for dx in range(3)]
    peaks: NDArray[np.bool_] = grid >= np.max(around, axis=0)
    return peaks


def _same(one: Box, other: Box) -> bool:
    return one.label == other.label and overlap(one, other) > SAME


def overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes."""
    wide = min(one.right, other.right) - max(one.left, other.left)
    high = min(one.bottom, other.bottom) - max(one.top, other.top)
    both = max(0.0, wide) * max(0.0, high)
    areas = [(box.right - box.left) * (box.bottom - box.top) for box in (one, other)]
    return both / max(sum(areas) - both, 1e-9)


@dataclass(frozen=True, slots=True)
class Cut:
    """A box cut out of a picture with a margin, in whole pixels, as the finder is to see it."""

    size: tuple[int, int]
    box: Box
    around: tuple[int, int, int, int]
    fitted: Fitted

    def mask(self, outline: NDArray[np.float32]) -> Mask:
        """The mask (height, width) of the whole picture, from outline logits (FIND / 2, FIND / 2)."""
        left, top, right, bottom = self.around
        width, height = right - left, bottom - top
        used = (width / self.fitted.scale / 2, height / self.fitted.scale / 2)
        filled = Image.fromarray(outline).resize((width, height), Image.Resampling.BICUBIC, box=(0.0, 0.0, *used))
        whole = np.zeros((self.size[1], self.size[0]), bool)
        whole[top:bottom, left:right] = np.asarray(filled) > 0
        rows, columns = np.arange(self.size[1])[:, None] + 0.5, np.arange(self.size[0])[None] + 0.5
        inside = (rows > self.box.top - 1) & (rows < self.box.bottom + 1)
        inside = inside & (columns > self.box.left - 1) & (columns < self.box.right + 1)
        mask: Mask = whole & inside
        return mask


def outline_of(picture: Image.Image, box: Box) -> Cut:
    """What the finder is to look at to find the outline of the person in a box."""
    margin = _MARGIN * max(box.right - box.left, box.bottom - box.top)
    around = (
        max(0, int(np.floor(box.left - margin))),
        max(0, int(np.floor(box.top - margin))),
        min(picture.width, int(np.ceil(box.right + margin))),
        min(picture.height, int(np.ceil(box.bottom + margin))),
    )
    around = (around[0], around[1], max(around[2], around[0] + 1), max(around[3], around[1] + 1))
    return Cut(picture.size, box, around, letterbox(picture.crop(around)))
