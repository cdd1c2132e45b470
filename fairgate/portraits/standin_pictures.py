"""How the stand-ins see pictures: resized, fitted into a square, or cut out around a face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.portraits.standin_sizes import CHIP, FIND

FACE_MARGIN = 0.35
"""Of the face box's longer side, added on every side of a chip: hair tells, too."""


def pixels(picture: Image.Image, side: int) -> NDArray[np.uint8]:
    """The picture as (side, side, 3), stretched where it is not square."""
    return np.asarray(picture.convert("RGB").resize((side, side), Image.Resampling.BILINEAR))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A picture in the upper left of a black square of FIND px, and how many of its pixels make one of the square's."""

    square: NDArray[np.uint8]
    scale: float


def letterbox(picture: Image.Image) -> Fitted:
    """The picture fitted into a square of FIND px, its sides in proportion."""
    scale = max(picture.size) / FIND
    size = (max(1, round(picture.width / scale)), max(1, round(picture.height / scale)))
    square = Image.new("RGB", (FIND, FIND))
    square.paste(picture.convert("RGB").resize(size, Image.Resampling.BILINEAR))
    return Fitted(np.asarray(square), scale)


def face_chip(picture: Image.Image, box: Sequence[float]) -> NDArray[np.uint8]:
    """The square around a face box (left, top, right, bottom) as (CHIP, CHIP, 3); black beyond the picture."""
    left, top, right, bottom = box
    half = (0.5 + FACE_MARGIN) * max(right - left, bottom - top)
    x, y = (left + right) / 2, (top + bottom) / 2
    around = (x - half, y - half, x + half, y + half)
    return np.asarray(
        picture.convert("RGB").transform((CHIP, CHIP), Image.Transform.EXTENT, around, Image.Resampling.BILINEAR)
    )
