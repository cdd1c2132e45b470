"""Embeddings of a source's images (decoded ahead; saved in parts, so that interrupted runs continue) and of prompts."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np

from fairgate.ground.spans import span
from fairgate.models.checkpoints import Device, Embeddings, Encoder, Halving, scoring, unit_or_error
from fairgate.models.contract import ImageSource, Request
from fairgate.models.decoding import decode_rgb, name_of
from fairgate.models.family import RowParts

BATCH_CPU, BATCH_CUDA = 32, 256
_DECODERS = min(16, os.cpu_count() or 1)


Finish = Callable[[Embeddings, Callable[[int], str]], Embeddings]
"""What is stored of the numbers of a batch; the second argument names one of its images."""


def numbers_of_images(
    loaded: Callable[[], tuple[Callable[[Any], Any], Callable[[Sequence[Any]], Embeddings]]],
    finish: Finish,
    request: Request,
    device: Device,
    parts: str,
) -> Embeddings:
    """What a model makes of every prepared image of the request's source, and `finish` of that: (images, width)
    float32. `loaded` gives its functions that prepare and encode, if there is an image left.

    Finished pieces are cached below the name `parts`, and reused by the next run. Raises DatasetError for an unreadable
    image or a source that does not yield each row once, ModelError as `finish` does, DeviceError when not even one
    image fits in memory.
    """
    source = request.source
    batch_size = request.batch_size or (BATCH_CUDA if device.is_cuda else BATCH_CPU)
    if (pieces := RowParts(request, parts)).has.all():
        return pieces.merged()
    prepare, encode = loaded()
    halving = Halving(encode, device.name)
    with pieces as work, scoring(device):
        for rows, prepared in _prepared(prepare, source, work.batches(batch_size)):
            work.add(np.array(rows), finish(halving(prepared), lambda place, rows=rows: name_of(source, rows[place])))  # type: ignore[misc]
    return work.merged()


def _prepared(
    prepare: Callable[[Any], Any], source: ImageSource, batches: Iterable[list[tuple[int, bytes]]]
) -> Iterator[tuple[list[int], list[Any]]]:
    """Rows and prepared images of batches; the next batch is decoded while one is being encoded."""
    waiting: deque[tuple[list[int], list[Future[Any]]]] = deque()
    pool = ThreadPoolExecutor(_DECODERS, thread_name_prefix="decode")

    def decoded(data: bytes, row: int) -> Any:
        image = decode_rgb(data, source, row)
        with span("prepare"):
            return prepare(image)

    try:
        for batch in chain(batches, [None]):
            if batch:
                waiting.append(([row for row, _ in batch], [pool.submit(decoded, data, row) for row, data in batch]))
            while len(waiting) > (batch is not None):
                rows, futures = waiting.popleft()
                with span("wait"):
                    prepared = [future.result() for future in futures]
                yield rows, prepared
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
