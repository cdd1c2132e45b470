"""Embeddings of a source's images (decoded ahead; saved in parts, so that interrupted runs continue) and of prompts."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain, pairwise
from typing import Any, TypeVar, cast

import numpy as np
import torch

from fairgate.ground.spans import span
from fairgate.models import checkpoints
from fairgate.models.checkpoints import Device, EightBit, Embeddings, Encoder
from fairgate.models.contract import Request
from fairgate.models.decoding import decode_rgb, name_of
from fairgate.models.family import RowParts
from fairgate.models.known_images import KnownImages
from fairgate.models.workers import decoded_by_processes

BATCH_CPU, BATCH_CUDA = 32, 512
_DECODERS = min(16, os.cpu_count() or 1)
_FEW = 512  # images that threads decode before as many processes have started


Finish = Callable[[Embeddings, Callable[[int], str]], Embeddings]
"""What is stored of the numbers of a batch; the second argument names one of its images."""
Begun = TypeVar("Begun")
Batches = Generator[tuple[list[int], Any]]
"""Rows, and their images as they are prepared: a list, or one tensor."""


def numbers_of_images(
    loaded: Callable[[], tuple[Callable[[Any], Any], Callable[[Sequence[Any]], Embeddings]]],
    finish: Finish,
    request: Request,
    device: Device,
    parts: str,
    known: KnownImages | None = None,
) -> Embeddings:
    """What a model makes of every prepared image of the request's source, and `finish` of that: (images, width)
    float32. `loaded` gives its functions that prepare and encode, if there is an image left.

    Finished pieces are cached below the name `parts`, and reused by the next run; numbers of images that another source
    has too are taken from what is `known` of it. Raises DatasetError for an unreadable
    image or a source that does not yield each row once, ModelError as `finish` does, DeviceError when not even one
    image fits in memory, or when a process that decodes images is killed.
    """
    source = request.source
    if (pieces := RowParts(request, parts, known)).has.all():
        return pieces.merged()
    prepare, encode = loaded()
    size = request.batch_size or (BATCH_CUDA if device.is_cuda else BATCH_CPU)
    levels = prepare.levels if isinstance(prepare, EightBit) else prepare

    def decoded(data: bytes, row: int) -> Any:
        image = decode_rgb(data, source, row)
        with span("prepare"):
            return levels(image)

    def stacked(images: Sequence[Any]) -> torch.Tensor:
        with checkpoints.naming(request.uri, "prepare pictures in one size"):
            return torch.stack(list(images))

    def encoded(images: Any) -> Embeddings:
        if isinstance(prepare, EightBit):
            images = images if isinstance(images, torch.Tensor) else stacked(images)
            images = prepare.finish(images.to(device.name))
        return encode(images)

    halving = checkpoints.Halving(encoded, device.name)

    def scored(images: Any) -> Embeddings:
        with checkpoints.scoring(device):  # again: inference mode and autocast are a thread's own
            return halving(images)

    with pieces as work, checkpoints.scoring(device):
        workers = processes_for(device, int((~work.has).sum())) if isinstance(prepare, EightBit) else 0
        batches: Batches
        if workers:
            batches = decoded_by_processes(decoded, stacked, work.batches(size), workers, device)
        else:
            batches = _decoded_by_threads(decoded, work.batches(size))
        results = _one_late(scored, batches) if device.is_cuda else ((rows, scored(some)) for rows, some in batches)
        with closing(batches):
            for rows, numbers in results:
                work.add(np.array(rows), finish(numbers, lambda place, rows=rows: name_of(source, rows[place])))  # type: ignore[misc]
    numbers = work.merged()
    if known:
        known.keep()
    return numbers


def processes_for(device: Device, images: int) -> int:
    """How many processes decode so many images: 0 where threads do, which keep up with a CPU's model, not a GPU's."""
    can = "fork" in multiprocessing.get_all_start_methods() and not multiprocessing.current_process().daemon
    cores = len(os.sched_getaffinity(0)) if can else 0
    return min(cores, 32) if device.is_cuda and images >= _FEW and cores >= 4 else 0


def _one_late(scored: Callable[[Any], Embeddings], batches: Batches) -> Iterator[tuple[list[int], Embeddings]]:
    """A thread waits for the GPU, which has the next batch by then."""
    with ThreadPoolExecutor(1, thread_name_prefix="encode") as thread:
        begun = ((rows, thread.submit(scored, images)) for rows, images in batches)
        for rows, numbers in _next_begun(begun):
            with span("forward"):
                result = numbers.result()
            yield rows, result


def _decoded_by_threads(decoded: Callable[[bytes, int], Any], batches: Iterable[list[tuple[int, bytes]]]) -> Batches:
    """Rows and prepared images of batches; the next batch is decoded while one is being encoded."""
    pool = ThreadPoolExecutor(_DECODERS, thread_name_prefix="decode")
    try:
        begun = (
            ([row for row, _ in batch], [pool.submit(decoded, data, row) for row, data in batch]) for batch in batches
        )
        for rows, futures in _next_begun(begun):
            with span("wait"):
                prepared = [future.result() for future in futures]
            yield rows, prepared
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _next_begun(items: Iterable[Begun]) -> Iterator[Begun]:
    """The items, each after the next one was made, which begins its work."""
    return (item for item, _ in pairwise(chain(items, [cast(Begun, None)])))


BATCH = 64


def embed_texts(encoder: Encoder, prompts: Sequence[str], device: Device, uri: str) -> Embeddings:
    """Unit embeddings, (prompts, dim) float32. Raises ModelError for a prompt that comes out as NaN or zero."""
    encode = checkpoints.Halving(lambda batch: encoder.encode_tokens(encoder.tokens(batch)), device.name)
    parts = []
    with checkpoints.scoring(device):
        for start in range(0, len(prompts), BATCH):
            batch = prompts[start : start + BATCH]
            named = [f"{uri}, prompt '{prompt}'" for prompt in batch]
            parts.append(checkpoints.unit_or_error(encode(batch), named.__getitem__))
    return np.concatenate(parts)
