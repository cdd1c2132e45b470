"""Images as content: what a file shows, whatever encoder wrote it."""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from fairgate.data.png_rows import RowCount

if TYPE_CHECKING:
    from PIL.Image import Image


FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded. Pillow knows many more; reading some of them runs other programs (EPS: Ghostscript)."""
MAX_PIXELS = 1 << 26
"""Pixels of one image (8,192 x 8,192): a small file can unpack to billions."""
_LARGE = 1 << 24
"""Pixels from which images are decoded one after another: sixteen of the largest at once would take 6 GB."""
_one_at_a_time = threading.Lock()


class Pixels(NamedTuple):
    """What an encoded image holds: its file format, and the SHA-256 of its decoded pixels, mode and size."""

    encoding: str
    sha256: str


class UnreadableImage(ValueError):
    """Bytes that do not decode to an image; the message is Pillow's reason."""


@contextmanager
def _readable() -> Iterator[None]:
    """Turns whatever Pillow raises for bytes that are no image into UnreadableImage."""
    import PIL.Image

    try:
        yield
    except UnreadableImage:
        raise
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, struct.error, zlib.error) as error:
        raise UnreadableImage(str(error) or type(error).__name__) from error
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise UnreadableImage(str(error)) from error


def _opened(data: bytes) -> Image:
    """The image, its header read and nothing decoded."""
    import PIL.Image

    image: Image = PIL.Image.open(BytesIO(data), formats=FORMATS)
    if image.width * image.height > MAX_PIXELS:
        raise UnreadableImage(f"it has {image.width:,} x {image.height:,} pixels; at most {MAX_PIXELS:,} are decoded")
    return image


def require_bounded(data: bytes) -> None:
    """Raises UnreadableImage for bytes whose header is no image's, or names more than `MAX_PIXELS`."""
    with _readable():
        _opened(data)


def decode(data: bytes) -> Image:
    """The image as a viewer shows it: fully decoded, upright (EXIF), palettes and transparency resolved.

    Raises UnreadableImage for bytes that are no image, are cut short, or decode to an unreasonable size.
    """
    import PIL.ImageOps

    with _readable():
        image = _opened(data)
        rows = RowCount(image) if image.format == "PNG" else None
        image.load()
        if rows is not None and rows.missing:
            raise UnreadableImage(f"it ends early: {rows.missing:,} bytes of its rows are missing")
        upright = PIL.ImageOps.exif_transpose(image)
        if upright.mode == "P" or "transparency" in upright.info:
            upright = upright.convert("RGBA")
    upright.format = image.format
    return upright


def pixels_of(data: bytes) -> Pixels:
    """Format and content hash of one encoded image. Raises UnreadableImage."""
    with _readable():
        header = _opened(data)
    with _one_at_a_time if header.width * header.height >= _LARGE else nullcontext():
        image = decode(data)
        content = hashlib.sha256(f"{image.mode} {image.width}x{image.height}\n".encode())
        content.update(image.tobytes())
    return Pixels(image.format or "unknown", content.hexdigest())


def _pixels_or_reason(data: bytes) -> Pixels | UnreadableImage:
    try:
        return pixels_of(data)
    except UnreadableImage as reason:
        return reason


def many_pixels(images: Sequence[bytes]) -> list[Pixels | UnreadableImage]:
    """Format and content hash of each image, or why it is unreadable. Decodes on all cores."""
    if len(images) < 2:
        return [_pixels_or_reason(data) for data in images]
    with ThreadPoolExecutor(max_workers=min(len(images), os.cpu_count() or 1)) as pool:
        return list(pool.map(_pixels_or_reason, images))
