"""Images as content: which files are decoded, and what one shows, whatever encoder wrote it."""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image


FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded. Pillow knows many more; reading some of them runs other programs (EPS: Ghostscript)."""
MAX_PIXELS = 1 << 26
"""Pixels of one image (8,192 x 8,192): a small file can unpack to billions."""
_LARGE = 1 << 24
"""Pixels from which images are decoded one after another: sixteen of the largest at once would take 6 GB."""
_MOST_BLOCKS = 64
_one_at_a_time = threading.Lock()


class Pixels(NamedTuple):
    """What an encoded image holds: its file format, and the SHA-256 of its decoded pixels, mode and size."""

    encoding: str
    sha256: str


class UnreadableImage(ValueError):
    """Bytes that do not decode to an image; the message is Pillow's reason."""


@contextmanager
def readable() -> Iterator[None]:
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


@cache
def _reuse_memory() -> None:
    """Let Pillow use the memory of pictures again, four blocks of 16 MB a core at most, in place of new pages each
    time, which took up to half of decoding 12 megapixels."""
    import PIL.Image

    core: Any = PIL.Image.core  # type: ignore[attr-defined] # documented: Pillow's block allocator
    core.set_blocks_max(max(core.get_blocks_max(), min(_MOST_BLOCKS, 4 * (os.cpu_count() or 1))))


def opened(data: bytes) -> Image:
    """The image, its header read and nothing decoded. UnreadableImage for more than `MAX_PIXELS`; Pillow's errors."""
    import PIL.Image

    _reuse_memory()
    image: Image = PIL.Image.open(BytesIO(data), formats=FORMATS)
    if image.width * image.height > MAX_PIXELS:
        raise UnreadableImage(f"it has {image.width:,} x {image.height:,} pixels; at most {MAX_PIXELS:,} are decoded")
    return image


def require_bounded(data: bytes) -> None:
    """Raises UnreadableImage for bytes whose header is no image's, or names more than `MAX_PIXELS`."""
    with readable():
        opened(data)


def decode(data: bytes) -> Image:
    """The image as a viewer shows it: fully decoded, upright (EXIF), palettes and transparency resolved.

    Raises UnreadableImage for bytes that are no image, are cut short, or decode to an unreasonable size.
    """
    with readable():
        return _decoded(opened(data))


def _decoded(image: Image) -> Image:
    import PIL.ImageOps

    encoding = image.format
    rows = _RowCount(image) if encoding == "PNG" else None
    image.load()
    if rows is not None and rows.missing:
        raise UnreadableImage(f"it ends early: {rows.missing:,} bytes of its rows are missing")
    PIL.ImageOps.exif_transpose(image, in_place=True)
    if image.mode == "P" or "transparency" in image.info:
        image = image.convert("RGBA")
    image.format = encoding
    return image


def pixels_of(data: bytes) -> Pixels:
    """Format and content hash of one encoded image. Raises UnreadableImage."""
    with readable():
        image = opened(data)
    with _one_at_a_time if image.width * image.height >= _LARGE else nullcontext(), readable():
        image = _decoded(image)
        content = hashlib.sha256(f"{image.mode} {image.width}x{image.height}\n".encode())
        content.update(image.tobytes())
    return Pixels(image.format or "unknown", content.hexdigest())


_SMALL: Final = 16 << 10
"""Bytes of an encoded image, on average, below which handing it to a thread takes longer than decoding it."""


def _pixels_or_reason(data: bytes) -> Pixels | UnreadableImage:
    try:
        return pixels_of(data)
    except UnreadableImage as reason:
        return reason


def many_pixels(images: Sequence[bytes]) -> list[Pixels | UnreadableImage]:
    """Format and content hash of each image, or why it is unreadable. Decodes large ones on all cores."""
    if sum(map(len, images)) < _SMALL * len(images) or len(images) < 2:
        return [_pixels_or_reason(data) for data in images]
    with ThreadPoolExecutor(max_workers=min(len(images), os.cpu_count() or 1)) as pool:
        return list(pool.map(_pixels_or_reason, images))


_PIECE: Final = 1 << 20
_ADAM7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Interlacing's seven passes: first column, first row, and the distance of columns and rows (PNG 3, 8.1)."""


class _RowCount:
    """Counts the bytes that a PNG's compressed data unpack to, while Pillow reads them; holds at most a megabyte.

    `image` is an opened PNG that is not loaded yet. Pillow takes data that end early for a whole picture, and leaves
    the rest black.
    """

    def __init__(self, image: Image) -> None:
        reader: Any = image
        self._expected = _bytes_of(reader)
        self._found = 0
        self._inflate = zlib.decompressobj()
        read = reader.load_read

        def counted(size: int) -> bytes:
            piece: bytes = read(size)
            self._count(piece)
            return piece

        reader.load_read = counted

    @property
    def missing(self) -> int:
        """How many bytes of the picture were not there, once it is loaded; 0 where it is whole."""
        return max(0, self._expected - self._found)

    def _count(self, piece: bytes) -> None:
        while piece and self.missing and not self._inflate.eof:
            self._found += len(self._inflate.decompress(piece, _PIECE))
            piece = self._inflate.unconsumed_tail


def _bytes_of(image: Any) -> int:
    """What the picture unpacks to: a byte for the filter and the packed pixels, for every row (of every pass)."""
    tile = image.tile[0]
    bits = _bits(str(tile.args if isinstance(tile.args, str) else tile.args[0]))
    width, height = image.size  # of the picture: a first frame that is smaller than it does not fill it
    passes = _ADAM7 if image.info.get("interlace") else ((0, 0, 1, 1),)
    total = 0
    for x, y, dx, dy in passes:
        columns, rows = -(-(width - x) // dx), -(-(height - y) // dy)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits + 7) // 8)
    return total


def _bits(raw: str) -> int:
    """Bits of a pixel, by Pillow's name for how it is packed.

    >>> [_bits(raw) for raw in ("1", "P;4", "L", "I;16B", "LA;16B", "RGB", "RGBA;16B")]
    [1, 4, 8, 16, 32, 24, 64]
    """
    channels, _, depth = raw.partition(";")
    return 1 if raw == "1" else len(channels) * int(depth.removesuffix("B") or 8)
