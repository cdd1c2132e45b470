"""Images decoded by processes, for a GPU: Python's lock lets threads decode a twentieth of what one embeds."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from fairgate.ground.errors import DeviceError, FairgateError
from fairgate.ground.spans import span
from fairgate.models.checkpoints import Device

_PIECE = 64  # images at most that a process is handed at once
_PIECE_BYTES = 4 << 20  # of encoded images, about: two pieces wait for each process
_SHARED = Path("/dev/shm")  # noqa: S108
_SHARED_BYTES = 64 << 20  # that each process needs there; in Docker, all of them usually share as much

Images = list[tuple[int, bytes]]


class _Decoding:
    """A data set of torch whose places are pieces of rows and encoded images, sent to whichever process is free."""

    def __init__(
        self, decoded: Callable[[bytes, int], Any], stacked: Callable[[Sequence[Any]], torch.Tensor], shared: bool
    ) -> None:
        self._decoded, self._stacked, self._shared = decoded, stacked, shared

    def __getitem__(self, place: tuple[Images, bool]) -> tuple[list[int], Any, bool]:
        piece, last = place
        rows = [row for row, _ in piece]
        try:
            levels = self._stacked([self._decoded(data, row) for row, data in piece])
        except FairgateError as error:
            return rows, error, last  # raised here, torch would wrap it in a traceback
        return rows, levels if self._shared else levels.numpy(), last


def decoded_by_processes(
    decoded: Callable[[bytes, int], Any],
    stacked: Callable[[Sequence[Any]], torch.Tensor],
    batches: Iterable[Images],
    workers: int,
    device: Device,
) -> Generator[tuple[list[int], torch.Tensor]]:
    """Rows of each batch, and their prepared images on the device.

    Forked processes read no file and touch no GPU: they get bytes, and hand tensors back through shared memory, or
    through pipes where there is little of it. Raises what `decoded` does, and DeviceError if one of them is killed.
    """
    shared = _SHARED.is_dir() and shutil.disk_usage(_SHARED).free >= workers * _SHARED_BYTES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, of forks beside threads: no thread of this process decodes
        loader: Any = DataLoader(
            _Decoding(decoded, stacked, shared),  # type: ignore[arg-type]
            sampler=_pieces(batches),
            batch_size=None,
            num_workers=workers,
            collate_fn=lambda piece: piece,
            pin_memory=device.is_cuda,
            multiprocessing_context="fork",
            generator=torch.Generator(),  # not the process's own, which others draw from
            timeout=300,
        )
        pieces = iter(loader)
    rows, tensors = list[int](), list[torch.Tensor]()
    try:
        while True:
            with span("wait"):
                if (piece := next(pieces, None)) is None:
                    return
            some, levels, last = piece
            if isinstance(levels, FairgateError):
                raise levels
            rows, tensors = rows + some, [*tensors, torch.as_tensor(levels).to(device.name, non_blocking=True)]
            if last:
                yield rows, torch.cat(tensors)
                rows, tensors = [], []
    finally:
        pieces._shutdown_workers()  # now, and not when a traceback that names it is forgotten


def _pieces(batches: Iterable[Images]) -> Iterator[tuple[Images, bool]]:
    """Pieces of each batch, and whether it is its last."""
    for batch in batches:
        step = min(_PIECE, max(1, _PIECE_BYTES // max(len(data) for _, data in batch)))
        for start in range(0, len(batch), step):
            yield batch[start : start + step], start + step >= len(batch)


@contextmanager
def dead_workers() -> Iterator[None]:
    """Turns what torch raises for a process that is gone, wherever the main thread is then, into a DeviceError."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("DataLoader"):
            raise
        raise DeviceError(
            f"a process that decodes images ended early ({str(error).splitlines()[0].rstrip('. ')}).",
            remedy="free memory (a container needs some at /dev/shm, too) and run again: what is done is cached",
        ) from error
