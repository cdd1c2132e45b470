"""Images decoded by processes, for a GPU: Python's lock lets threads decode a twentieth of what one embeds.

The processes share memory with this one, which writes encoded images there, and they levels; two pipes carry the
numbers of slots that are to be decoded, and that are. No thread and no pickle comes between them: those of a pool of
Python's, or of torch's DataLoader, take the lock from the thread that runs the model.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import select
import signal
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch

from fairgate.ground.errors import DeviceError
from fairgate.ground.spans import span
from fairgate.models.checkpoints import Device

_PIECE = 4 << 20  # bytes of decoded images, about, that a process is handed at once
_ENCODED = 16 << 20  # bytes of encoded images of a piece at most: only what is used takes memory
_MOST = 1024  # images of a piece
_NUMBER = 4  # bytes of a slot's number in a pipe, which passes so few whole
_RESTING = 2  # slots that are not filled at once: a GPU may still read them
_PATIENCE = 300  # seconds in which some process must be done with a piece

_CUDA: Any = torch.cuda
Images = list[tuple[int, bytes]]


class _Slots:
    """Memory without a name, that forked processes share with this one: `levels` (slots, images, ...) of one shape, and
    the encoded images that are to be decoded, or the error of it, as bytes of a length."""

    def __init__(self, slots: int, sample: torch.Tensor) -> None:
        images = min(_MOST, max(1, _PIECE // sample.nbytes))
        levels, contents, lengths = (mmap.mmap(-1, slots * size) for size in (images * sample.nbytes, _ENCODED, 8))
        self.levels = torch.frombuffer(levels, dtype=sample.dtype).reshape(slots, images, *sample.shape)
        self._contents = np.frombuffer(contents, dtype=np.uint8).reshape(slots, _ENCODED)
        self.lengths = np.frombuffer(lengths, dtype=np.int64)

    def put(self, slot: int, content: Images | Exception) -> bool:
        """Write it, if it fits."""
        data = pickle.dumps(content)
        if len(data) > _ENCODED:
            return False
        self._contents[slot, : len(data)] = np.frombuffer(data, dtype=np.uint8)
        self.lengths[slot] = len(data)
        return True

    def get(self, slot: int) -> Any:
        """What was written."""
        return pickle.loads(self._contents[slot, : self.lengths[slot]].data)  # noqa: S301 (of a process of ours)


def _work(slots: _Slots, decode: Callable[[int, Images], None], todo: tuple[int, int], done: tuple[int, int]) -> None:
    """What a process does until the pipe ends, which it does with the parent, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its processes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    os.close(todo[1])
    while number := os.read(todo[0], _NUMBER):
        slot = int.from_bytes(number, "little")
        try:
            decode(slot, slots.get(slot))
            slots.lengths[slot] = 0
        except Exception as error:  # of any type: it is raised in the parent
            slots.put(slot, error)
        os.write(done[1], number)


class _Processes:
    """Processes that decode what is in slots, in whatever order they are free."""

    def __init__(self, slots: _Slots, decode: Callable[[int, Images], None]) -> None:
        self._slots, self._decode = slots, decode
        self._todo, self._done = os.pipe(), os.pipe()
        self._ready = set[int]()
        self._running: list[Any] = []
        self._events = select.poll()
        self._events.register(self._done[0], select.POLLIN)

    def start(self, number: int) -> None:
        """What was sent before is begun at once."""
        fork = multiprocessing.get_context("fork")
        given = (self._slots, self._decode, self._todo, self._done)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, of forks beside threads: no thread of this process decodes
            for _ in range(number):
                self._running.append(fork.Process(target=_work, args=given, daemon=True))
                self._running[-1].start()
                self._events.register(self._running[-1].sentinel)

    def send(self, slot: int, images: Images) -> None:
        """Have images decoded into a slot; very large ones are decoded here."""
        if self._slots.put(slot, images):
            os.write(self._todo[1], slot.to_bytes(_NUMBER, "little"))
        else:
            self._decode(slot, images)
            self._slots.lengths[slot] = 0
            self._ready.add(slot)

    def wait(self, slot: int) -> None:
        """Until a slot is decoded. Raises what that raised, and DeviceError for a process that is gone."""
        while slot not in self._ready:
            if self._done[0] not in dict(self._events.poll(1000 * _PATIENCE)):
                raise DeviceError(
                    f"a process that decodes images ended early, or did nothing for {_PATIENCE} seconds.",
                    remedy="free memory and run again: what is done is cached",
                )
            self._ready.update(np.frombuffer(os.read(self._done[0], 4096), dtype="<i4").tolist())
        self._ready.remove(slot)
        if self._slots.lengths[slot]:
            raise self._slots.get(slot)

    def close(self) -> None:
        """End them, whatever they do."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.join()
            process.close()
        for end in (*self._todo, *self._done):
            os.close(end)


def decoded_by_processes(
    decoded: Callable[[bytes, int], Any],
    stacked: Callable[[Sequence[Any]], torch.Tensor],
    batches: Iterable[Images],
    workers: int,
    device: Device,
) -> Generator[tuple[list[int], torch.Tensor]]:
    """Rows of each batch, and their prepared images on the device.

    Forked processes read no file and touch no GPU. Raises what `decoded` does, and DeviceError if one of them is
    killed.
    """
    pending = iter(batches)
    if (first := next(pending, None)) is None:
        return
    sample = decoded(first[0][1], first[0][0])
    # what each process has and waits for, and what it does while a batch is computed
    slots = _Slots(2 * workers + min(2 * workers, -(-len(first) * sample.nbytes // _PIECE)), sample)

    def decode(slot: int, images: Images) -> None:
        target = slots.levels[slot]
        for place, (row, data) in enumerate(images):
            levels = decoded(data, row)
            if levels.shape != sample.shape:
                stacked([sample, levels])  # raises
            target[place] = levels

    processes = _Processes(slots, decode)
    try:
        yield from _arriving(chain([first], pending), slots, processes, workers, device)
    finally:
        processes.close()


def _arriving(
    batches: Iterable[Images], slots: _Slots, processes: _Processes, workers: int, device: Device
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """As many pieces as there are slots are on their way; they arrive in order."""
    pieces, sent = _pieces(batches, slots.levels.shape[1]), deque[tuple[int, Images, int, int]]()
    free, copied = deque(range(len(slots.levels))), dict[int, Any]()

    def send() -> None:
        while len(free) > _RESTING and (coming := next(pieces, None)) is not None:
            slot = free.popleft()
            if slot in copied:
                copied.pop(slot).synchronize()
            processes.send(slot, coming[0])
            sent.append((slot, *coming))

    send()
    processes.start(workers)
    with _pinned(slots.levels, device) as stream:
        rows, images = list[int](), slots.levels[0]
        while sent:
            slot, piece, start, total = sent.popleft()
            with span("wait"):
                processes.wait(slot)
            with torch.cuda.stream(stream):
                if start == 0:
                    images = torch.empty((total, *images.shape[1:]), dtype=images.dtype, device=device.name)
                images[start : start + len(piece)].copy_(slots.levels[slot, : len(piece)], non_blocking=True)
                if stream is not None:
                    copied[slot] = _CUDA.Event(blocking=True)
                    copied[slot].record()
            free.append(slot)
            rows += [row for row, _ in piece]
            send()
            if len(rows) == total:
                if stream is not None:
                    computing = torch.cuda.default_stream(device.name)
                    computing.wait_stream(stream)
                    images.record_stream(computing)
                yield rows, images
                rows = []


@contextmanager
def _pinned(memory: torch.Tensor, device: Device) -> Iterator[torch.cuda.Stream | None]:
    """A GPU reads the memory without the CPU, by a stream of its own: copies do not wait for the batch before."""
    if not device.is_cuda:
        yield None
        return
    runtime, stream = _CUDA.cudart(), _CUDA.Stream(device.name)
    runtime.cudaHostRegister(memory.data_ptr(), memory.nbytes, 0)  # copies are slower where it fails
    try:
        yield stream
    finally:
        stream.synchronize()
        runtime.cudaHostUnregister(memory.data_ptr())


def _pieces(batches: Iterable[Images], most: int) -> Iterator[tuple[Images, int, int]]:
    """Pieces of each batch, their places in it, and its size."""
    for batch in batches:
        step = min(most, max(1, _PIECE // max(len(data) for _, data in batch)))
        for start in range(0, len(batch), step):
            yield batch[start : start + step], start, len(batch)
