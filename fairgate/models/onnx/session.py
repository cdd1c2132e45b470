"""An ONNX model in onnxruntime, in a process without network, programs and other files; and the pictures that it takes,
by what its input says of them, in batches that it accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import MAX_SIDE, HashedFiles, diverged
from fairgate.models.isolated.child import IsolatedModel
from fairgate.models.onnx.host import DATA, MODEL, opened

LAYOUTS = ("nchw", "nhwc")
_KINDS: Mapping[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}
_CHANNELS = 3
_MOST_AT_ONCE = 1 << 28
"""Numbers that a batch of a fixed size may hold."""


def rows_of(
    session: Any,
    output: str,
    name: str,
    batches: Iterable[tuple[NDArray[Any], int]],
    besides: Mapping[str, NDArray[Any]],
    where: str,
) -> NDArray[np.float64]:
    """A row of an output for each row of the input `name`, in the batches that it takes; `besides` are what other
    inputs are given. Raises ModelError for another number of rows."""
    found = []
    for batch, count in batches:
        (raw,) = session.run([output], {**besides, name: batch})
        if len(raw) != len(batch):
            raise diverged(f"the output '{output}' has {len(raw)} rows for {len(batch)} inputs.", where)
        found.append(np.asarray(raw, dtype=np.float64)[:count])
    return np.concatenate(found)


class OnnxSession:
    """A session in a process of its own, without network, programs and other files: it is asked as onnxruntime's is.

    Raises ModelError for a file that onnxruntime does not run, and for a process that ends.
    """

    def __init__(self, paths: Mapping[str, Path], hashes: Mapping[str, str]) -> None:
        task = partial(opened, dict(paths), dict(hashes))
        self._process = IsolatedModel(str(paths[MODEL]), task, paths.values())
        self._told = {what: [_Told(*each) for each in self._process.facts[what]] for what in ("inputs", "outputs")}

    def get_inputs(self) -> list[_Told]:
        """Name, type and shape of each."""
        return self._told["inputs"]

    def get_outputs(self) -> list[_Told]:
        """The same of outputs."""
        return self._told["outputs"]

    def run(self, outputs: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """The outputs, in this order."""
        wide = {name: each.astype(np.float32) for name, each in feeds.items() if each.dtype == np.float16}
        found = self._process.ask("run", list(outputs), {**feeds, **wide})
        return [np.asarray(found[at]) for at in range(len(outputs))]


@dataclass(frozen=True, slots=True)
class _Told:
    """What a session says of an input or output."""

    name: str
    type: str
    shape: list[Any]


def open_session(files: HashedFiles, model: str = MODEL, data: str = DATA) -> Any:
    """A session on the hashed files of two roles, in a process of its own. Raises ModelError."""
    roles = {name: role for name, role in ((MODEL, model), (DATA, data)) if role in files.paths}
    paths = {name: files.paths[role].absolute() for name, role in roles.items()}
    return OnnxSession(paths, {name: files.hashes[role] for name, role in roles.items()})


class PictureInput:
    """An input of a session: `layout` is what a URI says of it, None where its shape is to tell. Raises ModelError for
    one that takes no pictures of three channels."""

    def __init__(self, given: Any, layout: str | None, where: str, uri: str) -> None:
        self.name, self._declared, self._where, self._uri = given.name, layout, where, uri
        shape = list(given.shape)
        if given.type not in _KINDS:
            raise ModelError(
                f"the input '{given.name}' is a {given.type}.",
                where=where,
                remedy=f"export the model with an input of these: {', '.join(_KINDS)}",
            )
        self._kind = _KINDS[given.type]
        self._layout = self._layout_of(shape)
        self._sides = tuple(shape[2:] if self._layout == "nchw" else shape[1:3])
        self._fixed = shape[0] if isinstance(shape[0], int) else None
        sides = [side for side in self._sides if isinstance(side, int)]
        if self._fixed and self._fixed * _CHANNELS * int(np.prod([MAX_SIDE, *sides][-2:])) > _MOST_AT_ONCE:
            raise ModelError(
                f"the model takes {self._fixed:,} pictures at once, and no fewer.",
                where=where,
                remedy="export it with a free batch dimension",
            )

    def batches(self, pictures: Any) -> Iterator[tuple[NDArray[Any], int]]:
        """Prepared pictures, each (3, height, width), or all as one array, as the model takes them, and how many of a
        batch count: a fixed batch is filled up with its last picture."""
        batch = np.asarray(pictures if hasattr(pictures, "shape") else np.stack([_pixels(each) for each in pictures]))
        self._require_size(batch)
        if self._layout == "nhwc":
            batch = batch.transpose(0, 2, 3, 1)
        if self._kind is np.uint8 and not np.array_equal(batch, np.clip(np.rint(batch), 0, 255)):
            raise ModelError(
                "the model takes levels from 0 to 255, and its pictures are prepared as other numbers.",
                where=self._uri,
                remedy="write &scale=1, without mean= and std=",
            )
        batch = np.ascontiguousarray(batch, dtype=self._kind)
        yield from filled_up(batch, self._fixed)

    def _layout_of(self, shape: list[Any]) -> str:
        """Where the channels are, as the shape tells or the URI says."""
        fits = [name for name, place in zip(LAYOUTS, (1, 3), strict=True) if shape[place] == _CHANNELS]
        free = [name for name, place in zip(LAYOUTS, (1, 3), strict=True) if not isinstance(shape[place], int)]
        declared = self._declared
        if declared is None and len(fits) == 1:
            return fits[0]
        if declared is not None and declared in fits + free:
            return declared
        raise ModelError(
            f"the input's shape {shape} does not tell where its three channels are."
            if declared is None
            else f"the input's shape {shape} is not {declared}.",
            where=self._where,
            remedy="say it: &layout=nchw or &layout=nhwc; fairgate shows models pictures with 3 channels",
        )

    def _require_size(self, batch: NDArray[Any]) -> None:
        sides = tuple(batch.shape[2:])
        wanted = tuple(own if isinstance(own, int) else side for own, side in zip(self._sides, sides, strict=False))
        if batch.ndim != 4 or batch.shape[1] != _CHANNELS or sides != wanted:
            raise ModelError(
                f"the model takes pictures of {self._sides} (height, width), and they are prepared as "
                f"{tuple(batch.shape[1:])}.",
                where=self._uri,
                remedy="write their size: &size=HEIGHTxWIDTH, or &size=256&crop=224",
            )


def filled_up(rows: NDArray[Any], fixed: int | None) -> Iterator[tuple[NDArray[Any], int]]:
    """Rows in pieces of a fixed size, the last one filled up with its last row, and how many of a piece count; all at
    once without a size."""
    step = fixed or len(rows)
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        missing = step - len(piece) if fixed else 0
        yield (np.concatenate([piece, np.repeat(piece[-1:], missing, axis=0)]) if missing else piece), len(piece)


def _pixels(prepared: Any) -> NDArray[Any]:
    """A prepared picture as an array; other families' (`reading_as`) may be tensors, or a mapping with one."""
    return np.asarray(prepared["pixel_values"] if isinstance(prepared, Mapping) else prepared)
