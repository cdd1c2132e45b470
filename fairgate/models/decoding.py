"""A source's pictures, decoded, and how messages name them. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairgate.ground.errors import DatasetError
from fairgate.ground.pixels import UnreadableImage, opened, readable
from fairgate.ground.spans import span
from fairgate.models.contract import ImageIndex, ImageSource

if TYPE_CHECKING:
    from PIL import Image


class SourceLike:
    """What has the images of a source in its order and under its names: a base of those that change or watch them."""

    def __init__(self, source: ImageSource) -> None:
        self.source = source

    @property
    def folder(self) -> Path:
        """The source's."""
        return self.source.folder

    @property
    def index(self) -> ImageIndex:
        """The source's."""
        return self.source.index

    def __len__(self) -> int:
        return len(self.source)


def decode_rgb(data: bytes, source: ImageSource, row: int) -> Image.Image:
    """One image as 8-bit RGB, turned upright by its EXIF orientation.

    Palettes and CMYK are converted before any resizing (open_clip's own transform resizes first, which would pick
    palette entries at random), transparency is dropped as `convert("RGB")` does. Raises DatasetError naming the image.
    """
    from PIL import ImageOps

    try:
        with span("decode"), readable():
            image = opened(data)
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
    except UnreadableImage as error:
        raise _unreadable(f"cannot be decoded ({error})", source, row) from error
    if image.mode == "I" or image.mode.startswith(("I;", "F")):
        # Pillow clips these to 255 instead of scaling them: the model would be shown a white square
        raise _unreadable(f"has more than 8 bits a channel (mode {image.mode})", source, row)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # the same picture as straight to RGB, without Pillow's warning
    return image if image.mode == "RGB" else image.convert("RGB")  # which copies an RGB image


def name_of(source: ImageSource, row: int) -> str:
    """How a message names an image: its path where it is recorded, its set and its member."""
    index = source.index
    named = f"set {index.set_id[row]}, member {index.member[row]}"
    return f"{index.path[row]} ({named})" if index.path[row] else named


def _unreadable(fault: str, source: ImageSource, row: int) -> DatasetError:
    return DatasetError(
        f"the image {fault}.",
        where=f"{source.folder}: {name_of(source, row)}",
        remedy="replace the image by an 8-bit JPEG or PNG; `fairgate dataset verify` finds a damaged release",
    )
