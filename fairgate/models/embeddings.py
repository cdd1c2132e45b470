"""Embeddings of a source's images (decoded ahead; saved in parts, so that interrupted runs continue) and of prompts."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from fairgate.models.checkpoints import Device, Embeddings, Encoder, Halving, scoring, unit_or_error
from fairgate.models.contract import ImageSource, Request, Rows
from fairgate.models.decoding import decode_rgb, name_of
from fairgate.models.row_parts import RowParts

BATCH_CPU, BATCH_CUDA = 32, 256
_DECODERS = min(16, os.cpu_count() or 1)


Finish = Callable[[Embeddings, Callable[[int], str]], Embeddings]
"""What is stored of the numbers of a batch; the second argument names one of its images."""


def embed_images(encoder: Encoder, request: Request, device: Device, parts: str) -> Embeddings:
    """Unit embeddings of every image of the request's source, (images, dim) float32.

    Finished pieces are cached below the name `parts`, and reused by the next run. Raises DatasetError for an unreadable
    image or a source that does not yield each row once, ModelError for an embedding that is NaN or zero, DeviceError
    when not even one image fits in memory.
    """
    return numbers_of_images(encoder.prepare, encoder.encode_images, unit_or_error, request, device, parts)


def numbers_of_images(
    prepare: Callable[[Any], Any],
    encode: Callable[[Sequence[Any]], Embeddings],
    finish: Finish,
    request: Request,
    device: Device,
    parts: str,
) -> Embeddings:
    """What `encode` makes of every prepared image of the request's source, and `finish` of that: (images, width)
    float32. Cached and refused as embeddings are."""
    source, total = request.source, len(request.source)
    work = RowParts(request.cache, parts, total)
    batch_size = request.batch_size or (BATCH_CUDA if device.is_cuda else BATCH_CPU)
    halving = Halving(encode, device.name)
    if request.progress:
        request.progress(work.done, total)
    try:
        with scoring(device):
            for rows, prepared in _prepared(prepare, source, batch_size, work.has):
                raw = halving(prepared)
                work.add(rows, finish(raw, partial(_name_in, source, rows)))
                if request.progress:
                    request.progress(work.done, total)
    finally:  # also after Ctrl-C or an unreadable image: what is done stays in the cache
        work.flush()
    return work.merged(source)


def _name_in(source: ImageSource, rows: Rows, place: int) -> str:
    """The name of an image of a batch."""
    return name_of(source, int(rows[place]))


def _prepared(
    prepare: Callable[[Any], Any], source: ImageSource, batch_size: int, has: np.ndarray[Any, np.dtype[np.bool_]]
) -> Iterator[tuple[Rows, list[Any]]]:
    """Batches of prepared images that are not done yet; the next batch is decoded while one is being encoded."""
    waiting: deque[tuple[Rows, list[Future[Any]]]] = deque()
    pool = ThreadPoolExecutor(_DECODERS, thread_name_prefix="decode")

    def decoded(data: bytes, row: int) -> Any:
        return prepare(decode_rgb(data, source, row))

    try:
        for rows, blobs in source.image_batches(batch_size):
            todo = [(int(row), data) for row, data in zip(rows, blobs, strict=True) if not has[row]]
            if todo:
                numbers = np.array([row for row, _ in todo], dtype=np.int64)
                waiting.append((numbers, [pool.submit(decoded, data, row) for row, data in todo]))
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
