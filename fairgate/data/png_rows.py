"""Are all rows of a PNG there? Pillow takes data that end early for a whole picture, and leaves the rest black."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from PIL.Image import Image

_PIECE: Final = 1 << 20
_ADAM7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Interlacing's seven passes: first column, first row, and the distance of columns and rows (PNG 3, 8.1)."""


class RowCount:
    """Counts the bytes that a PNG's compressed data unpack to, while Pillow reads them; holds at most a megabyte.

    `image` is an opened PNG that is not loaded yet.
    """

    def __init__(self, image: Image) -> None:
        opened: Any = image
        self._expected = _bytes_of(opened)
        self._found = 0
        self._inflate = zlib.decompressobj()
        read = opened.load_read

        def counted(size: int) -> bytes:
            piece: bytes = read(size)
            self._count(piece)
            return piece

        opened.load_read = counted

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
