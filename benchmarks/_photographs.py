"""Synthetic photographs: soft shapes under a little grain, which JPEG packs about as well as a camera's pictures."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from fairgate.data import write_dataset
from fairgate.ground.randomness import stream

KINDS = {"224 px": (224, 224), "12 megapixels": (4000, 3000)}
_DISTINCT = {
    "224 px": 1024,
    "448 px": 128,
    "12 megapixels": 16,
}  # pictures: more would take minutes to make, and show nothing else


def photograph(number: int, size: tuple[int, int]) -> bytes:
    """One picture as JPEG of quality 90; equal numbers give equal bytes."""
    rng = stream(0, "photograph", number)
    shapes = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
    grain = rng.integers(-9, 10, (256, 256, 3), dtype=np.int16)
    tiles = (-(-size[1] // 256), -(-size[0] // 256), 1)
    grained = np.asarray(shapes, dtype=np.int16) + np.tile(grain, tiles)[: size[1], : size[0]]
    buffer = io.BytesIO()
    Image.fromarray(np.clip(grained, 0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def photographs(folder: Path, kind: str, images: int) -> tuple[list[Path], Path]:
    """So many pictures as paths, some of which name the same file, and as a release; both below the folder."""
    size, distinct = KINDS[kind], min(images, _DISTINCT[kind])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        blobs = list(pool.map(lambda number: photograph(number, size), range(distinct)))
    place = folder / kind.replace(" ", "-")
    place.mkdir()
    files = [place / f"{number % distinct}.jpg" for number in range(images)]
    for file, blob in zip(files, blobs, strict=False):
        file.write_bytes(blob)

    def rows() -> Iterator[dict[str, object]]:
        for number in range(images):
            said = {"subject": "person", "caption": "", "group": "one" if number % 2 else "other"}
            named = {"path": f"{number}.jpg", "set_id": f"{number:06d}", "member": "own"}
            yield {"image": blobs[number % distinct], **named, **said}

    write_dataset(
        place / "release",
        rows(),
        name="photographs",
        version="v1",
        attributes={"group": ["one", "other"]},
        recipe={},
        licence="unknown",
        counterfactual=False,
    )
    return files, place / "release"
