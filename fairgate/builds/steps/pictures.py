"""Pictures and masks in rows (PIL images in memory, PNG bytes in storage), what made them and what it cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.builds.steps.contract import Meter
from fairgate.data import UnreadableImage, decode
from fairgate.ground.errors import DatasetError, RecipeError
from fairgate.ground.png import png_of
from fairgate.models.generation import BuildModel, Sampling

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
    return png_of(bare, optimize=False, compress_level=COMPRESSION)


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


SEED = "seed"
HOW = "how"
GENERATOR = "generator"
COLUMNS = (SEED, HOW, GENERATOR)
"""Seed of the noise (63 bits), the sampling as JSON, and the URI of the model. The prompt is the `caption`."""

_LATER = ("refine_guidance",)  # older datasets lack it: left out where None, so that rows stay as they were


def made_with(model: BuildModel, seed: int, how: Sampling) -> dict[str, Any]:
    """The columns of an image that `model` made from `seed`."""
    stored = {name: value for name, value in asdict(how).items() if value is not None or name not in _LATER}
    return {SEED: seed, HOW: json.dumps(stored, sort_keys=True), GENERATOR: model.uri}


def sampling(text: str) -> Sampling:
    """The sampling that a `how` column holds. Raises RecipeError for text that this version did not write."""
    try:
        return Sampling(**json.loads(text))
    except (ValueError, TypeError) as error:  # no JSON, no object, or one with other fields
        known = ", ".join(sorted(field.name for field in fields(Sampling)))
        raise RecipeError(
            f"column '{HOW}' does not say how a diffusion model was run: {error}.",
            where=text,
            remedy=f"take the row from a dataset that fairgate built: it is a JSON object of: {known}",
        ) from error


@contextmanager
def spending(model: BuildModel, meter: Meter) -> Iterator[None]:
    """Counts on the meter what the model spends inside the block: {"unet": 200}."""
    before = Counter(model.spent)
    yield
    for what, times in model.spent.items():
        if times != before[what]:
            meter.count(what, times - before[what])
