"""Values of rows as they are stored: pictures as PNG, masks as 1-bit PNG, arrays as vectors, the rest plain."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from fairgate.data.pixels import UnreadableImage, pixels_of
from fairgate.errors import RecipeError
from fairgate.hashing import sha256_bytes
from fairgate.steps.pictures import mask_png, png


def stored(value: Any, where: str) -> Any:
    """A value of a row in the form that is kept. Raises RecipeError for one that has none.

    PIL images become PNG bytes, masks (2-d arrays of booleans) 1-bit PNG, vectors float32 or int64 arrays.
    """
    if value is None or isinstance(value, str | bool | int | float | bytes):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _array(value, where)
    if isinstance(value, list | tuple):
        return [stored(each, where) for each in value]
    if isinstance(value, dict):
        return {str(key): stored(each, where) for key, each in value.items()}
    from PIL.Image import Image

    if isinstance(value, Image):
        return png(value)
    raise RecipeError(
        f"a value of type {type(value).__name__} cannot be stored.",
        where=where,
        remedy="give text, numbers, booleans, bytes, lists, PIL images or numpy vectors",
    )


def _array(value: np.ndarray[Any, Any], where: str) -> Any:
    if value.ndim == 2 and value.dtype == np.bool_:
        return mask_png(value)
    if value.ndim == 1 and value.dtype.kind == "f":
        return value.astype(np.float32)
    if value.ndim == 1 and value.dtype.kind in "iu":
        return value.astype(np.int64)
    raise RecipeError(
        f"an array of {value.dtype} with {value.ndim} axes cannot be stored.",
        where=where,
        remedy="give vectors of numbers, masks as 2-d arrays of booleans, and pictures as PIL images",
    )


def pixel_digest(original: Any, kept: Any) -> str | None:
    """What a picture shows, as `fairgate.data` names it; None for what is no picture."""
    from PIL.Image import Image

    if isinstance(original, Image) and original.mode in ("L", "RGB"):
        content = hashlib.sha256(f"{original.mode} {original.width}x{original.height}\n".encode())
        content.update(original.tobytes())
        return content.hexdigest()
    if not isinstance(kept, bytes):
        return None
    try:
        return pixels_of(kept).sha256
    except UnreadableImage:
        return None


def content_digest(columns: dict[str, Any]) -> bytes:
    """The name of some stored columns, whatever their order."""
    return bytes.fromhex(sha256_bytes(json.dumps(columns, sort_keys=True, default=_named).encode()))


def _named(value: Any) -> str:
    data = value.tobytes() if isinstance(value, np.ndarray) else value
    return sha256_bytes(data)
