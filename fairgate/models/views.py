"""Views of a source's pictures: changes that leave what a picture shows as it is. Made as they are read; no torch.

A view is a crop of 95% to 100% of each side, anywhere in the picture, brought back to the picture's size by one of four
filters, and mirrored half of the time. Colours and light stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from fairgate.ground.hashing import digest, sha256_bytes
from fairgate.ground.png import png_of
from fairgate.ground.randomness import stream
from fairgate.models.contract import ImageSource
from fairgate.models.decoding import SourceLike, decode_rgb

SMALLEST_SIDE = 0.95
"""Of a crop, as a share of the picture's side."""

_VERSION = 1
_FILTERS = (Image.Resampling.BILINEAR, Image.Resampling.HAMMING, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS)


def view_of(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A view of a picture, of its size and mode."""
    width, height = picture.size
    side = rng.uniform(SMALLEST_SIDE, 1.0)
    left, top = rng.uniform(0.0, 1.0 - side, size=2) * picture.size
    mirrored, chosen = rng.random() < 0.5, _FILTERS[rng.integers(len(_FILTERS))]
    box = (left, top, min(left + side * width, width), min(top + side * height, height))
    seen = picture.resize(picture.size, chosen, box=box)
    return ImageOps.mirror(seen) if mirrored else seen


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a source's images, each as often as it is viewed."""

    set_id: NDArray[Any]
    member: NDArray[Any]
    path: NDArray[Any]


class Views(SourceLike):
    """Each picture of a source `number` times, one after another: first as it is, then views of it.

    A view depends on the picture's bytes and on its number alone. Row `number * image + view` holds it, as PNG.
    """

    def __init__(self, source: ImageSource, number: int) -> None:
        super().__init__(source)
        self.number = number

    @property
    def fingerprint(self) -> str:
        """The source's, with the number of views and how they are made."""
        return digest({"views": self.number, "version": _VERSION, "of": self.source.fingerprint})

    @cached_property
    def index(self) -> _Names:
        """The source's, repeated."""
        names = self.source.index
        return _Names(*(np.repeat(column, self.number) for column in (names.set_id, names.member, names.path)))

    def __len__(self) -> int:
        return self.number * len(self.source)

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """Row numbers and encoded images, `batch_size` at most."""
        for rows, blobs in self.source.image_batches(max(1, batch_size // self.number)):
            views = [seen for row, data in zip(rows, blobs, strict=True) for seen in self._views(data, int(row))]
            places = (np.asarray(rows)[:, None] * self.number + np.arange(self.number)).ravel()
            for start in range(0, len(views), batch_size):
                yield places[start : start + batch_size], views[start : start + batch_size]

    def _views(self, data: bytes, row: int) -> list[bytes]:
        picture, content = decode_rgb(data, self.source, row), sha256_bytes(data)
        views = (view_of(picture, stream(0, "view", content, at)) for at in range(1, self.number))
        return [data, *(png_of(view, compress_level=1) for view in views)]  # a view is decoded again at once
