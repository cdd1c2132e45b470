"""Pictures as PNG files."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


def png_of(picture: Image, *, optimize: bool = False) -> bytes:
    """A picture as a PNG; `optimize` takes longer and makes it smaller."""
    out = BytesIO()
    picture.save(out, format="PNG", optimize=optimize)
    return out.getvalue()
