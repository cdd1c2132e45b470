"""Pictures as PNG files."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image


def png_of(picture: Image, **how: Any) -> bytes:
    """A picture as a PNG; `how` are options of Pillow, such as `optimize`, which takes longer and makes it smaller."""
    out = BytesIO()
    picture.save(out, format="PNG", **how)
    return out.getvalue()
