"""Embeddings of a source's images (decoded ahead; saved in parts, so that interrupted runs continue) and of prompts."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from fairgate.checkpoints import Device, Embeddings, Encoder, Halving, scoring, unit_or_error
from fairgate.errors import DatasetError
from fairgate.models.cache import EmbeddingCache
from fairgate.models.contract import ImageSource, Request, Rows
from fairgate.pixels import UnreadableImage, opened, readable

PART = 1024  # images between two checkpoints of the work
BATCH_CPU, BATCH_CUDA = 32, 256
_DECODERS = min(16, os.cpu_count() or 1)


def embed_images(encoder: Encoder, request: Request, device: Device, parts: str) -> Embeddings:
    """Unit embeddings of every image of the request's source, (images, dim) float32.

    Finished pieces are cached below the name `parts`, and reused by the next run. Raises DatasetError for an unreadable
    image or a source that does not yield each row once, ModelError for an embedding that is NaN or zero, DeviceError
    when not even one image fits in memory.
    """
    source, total = request.source, len(request.source)
    work = RowParts(request.cache, parts, total)
    batch_size = request.batch_size or (BATCH_CUDA if device.is_cuda else BATCH_CPU)
    encode = Halving(encoder.encode_images, device.name)
    if request.progress:
        request.progress(work.done, total)
    try:
        with scoring(device):
            for rows, prepared in _prepared(encoder, source, batch_size, work.has):
                raw = encode(prepared)
                work.add(rows, unit_or_error(raw, lambda i, rows=rows: name_of(source, int(rows[i]))))  # type: ignore[misc]
                if request.progress:
                    request.progress(work.done, total)
    finally:  # also after Ctrl-C or an unreadable image: what is done stays in the cache
        work.flush()
    return work.merged(source)


class RowParts:
    """Embeddings by row, and the rows not yet written to the cache."""

    def __init__(self, cache: EmbeddingCache | None, prefix: str, total: int) -> None:
        self._cache, self._prefix = cache, prefix
        self._fresh: list[tuple[Rows, Embeddings]] = []
        self._embeddings: Embeddings | None = None
        self.has = np.zeros(total, dtype=np.bool_)
        for entry in cache.below(prefix) if cache else []:
            self._place(np.asarray([int(row) for row in entry.notes["rows"].split()]), entry.arrays["embeddings"])

    @property
    def done(self) -> int:
        return int(self.has.sum())

    def add(self, rows: Rows, embeddings: Embeddings) -> None:
        self._place(rows, embeddings)
        self._fresh.append((rows, embeddings))
        if sum(len(piece) for piece, _ in self._fresh) >= PART:
            self.flush()

    def flush(self) -> None:
        if self._cache and self._fresh:
            rows = np.concatenate([piece for piece, _ in self._fresh])
            embeddings = np.concatenate([piece for _, piece in self._fresh])
            name = f"{self._prefix}/{int(rows[0]):012d}-{len(rows)}"
            self._cache.write(name, {"embeddings": embeddings}, {"rows": " ".join(map(str, rows.tolist()))})
        self._fresh = []

    def merged(self, source: ImageSource) -> Embeddings:
        if self._embeddings is None or not self.has.all():
            missing = np.flatnonzero(~self.has)
            raise DatasetError(
                f"the dataset yielded {self.done} of its {len(self.has)} images.",
                where=f"{source.folder}" + (f": {name_of(source, int(missing[0]))}" if missing.size else ""),
                remedy="run `fairgate dataset verify`",
            )
        return self._embeddings

    def _place(self, rows: Rows, embeddings: Embeddings) -> None:
        if self._embeddings is None:
            self._embeddings = np.zeros((len(self.has), embeddings.shape[1]), dtype=np.float32)
        self._embeddings[rows] = embeddings
        self.has[rows] = True


def _prepared(
    encoder: Encoder, source: ImageSource, batch_size: int, has: np.ndarray[Any, np.dtype[np.bool_]]
) -> Iterator[tuple[Rows, list[Any]]]:
    """Batches of prepared images that are not done yet; the next batch is decoded while one is being encoded."""
    waiting: deque[tuple[Rows, list[Future[Any]]]] = deque()
    pool = ThreadPoolExecutor(_DECODERS, thread_name_prefix="decode")

    def prepare(data: bytes, row: int) -> Any:
        return encoder.prepare(decode_rgb(data, source, row))

    try:
        for rows, blobs in source.image_batches(batch_size):
            todo = [(int(row), data) for row, data in zip(rows, blobs, strict=True) if not has[row]]
            if todo:
                numbers = np.array([row for row, _ in todo], dtype=np.int64)
                waiting.append((numbers, [pool.submit(prepare, data, row) for row, data in todo]))
            if len(waiting) > 1:
                numbers, futures = waiting.popleft()
                yield numbers, [future.result() for future in futures]
        while waiting:
            numbers, futures = waiting.popleft()
            yield numbers, [future.result() for future in futures]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


BATCH = 64


def embed_texts(encoder: Encoder, prompts: Sequence[str], device: Device, uri: str) -> Embeddings:
    """Unit embeddings, (prompts, dim) float32. Raises ModelError for a prompt that comes out as NaN or zero."""
    encode = Halving(lambda batch: encoder.encode_tokens(encoder.tokens(batch)), device.name)
    parts = []
    with scoring(device):
        for start in range(0, len(prompts), BATCH):
            batch = prompts[start : start + BATCH]
            parts.append(unit_or_error(encode(batch), lambda row, batch=batch: f"{uri}, prompt '{batch[row]}'"))  # type: ignore[misc]
    return np.concatenate(parts)


def decode_rgb(data: bytes, source: ImageSource, row: int) -> Image.Image:
    """One image as 8-bit RGB, turned upright by its EXIF orientation.

    Palettes and CMYK are converted before any resizing (open_clip's own transform resizes first, which would pick
    palette entries at random), transparency is dropped as `convert("RGB")` does. Raises DatasetError naming the image.
    """
    try:
        with readable():
            image = opened(data)
            image.load()
            image = ImageOps.exif_transpose(image)
    except UnreadableImage as error:
        raise _unreadable(f"cannot be decoded ({error})", source, row) from error
    if image.mode == "I" or image.mode.startswith(("I;", "F")):
        # Pillow clips these to 255 instead of scaling them: the model would be shown a white square
        raise _unreadable(f"has more than 8 bits a channel (mode {image.mode})", source, row)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # the same picture as straight to RGB, without Pillow's warning
    return image.convert("RGB")


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
