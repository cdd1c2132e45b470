"""Pictures and masks in rows: PIL images in memory, PNG bytes in storage."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.data import UnreadableImage, decode
from fairgate.ground.errors import DatasetError

COMPRESSION = 6
"""zlib's level; written down, so that the same pixels are the same bytes in every run."""


def picture(value: Any) -> Image.Image:
    """A picture of a row as an RGB image of its own: from a PIL image, encoded bytes, or a dataset's `{"bytes": ...}`.

    Transparency is laid on white. Raises DatasetError for anything else, and for bytes that do not decode.
    """
    image = _opened(value)
    if image.mode in ("RGBA", "LA", "PA"):
        solid = image.convert("RGBA")
        ground = Image.new("RGBA", solid.size, "white")
        return Image.alpha_composite(ground, solid).convert("RGB")
    return image.convert("RGB") if image.mode != "RGB" else image.copy()


def png(image: Image.Image) -> bytes:
    """A picture as PNG: the same pixels give the same bytes. What else an image carries (EXIF, profiles) stays behind.

    >>> from PIL import Image
    >>> picture(png(Image.new("RGB", (2, 2), "red"))).getpixel((1, 1))
    (255, 0, 0)
    """
    bare = image.copy()
    bare.info = {}
    encoded = BytesIO()
    bare.save(encoded, format="PNG", optimize=False, compress_level=COMPRESSION)
    return encoded.getvalue()


def mask_png(mask: NDArray[np.bool_]) -> bytes:
    """A mask (height, width) as a 1-bit PNG, white where it is True."""
    return png(Image.fromarray(np.asarray(mask, dtype=np.bool_)))


def mask(value: Any) -> NDArray[np.bool_]:
    """A mask of a row as an array (height, width): from an array, a PIL image or PNG bytes; True where it is not black.

    >>> mask(mask_png(np.array([[True, False]])))
    array([[ True, False]])
    """
    if isinstance(value, np.ndarray):
        return value.astype(np.bool_)
    return np.asarray(_opened(value).convert("L")) > 0


def _opened(value: Any) -> Image.Image:
    if isinstance(value, Image.Image):
        return value
    data = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(data, bytes):
        raise DatasetError(
            f"a picture is expected, and got {type(value).__name__}.",
            remedy="give a PIL image or the bytes of an encoded one",
        )
    try:
        return decode(data)
    except UnreadableImage as error:
        raise DatasetError(f"a picture cannot be read: {error}.", remedy="replace it with a whole image") from error
