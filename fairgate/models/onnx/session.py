"""An ONNX model in onnxruntime, in a process without network, programs and other files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.models.checkpoints import HashedFiles, diverged
from fairgate.models.isolated.child import IsolatedModel
from fairgate.models.onnx.host import DATA, MODEL


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
        task = {"paths": {role: str(path) for role, path in paths.items()}, "hashes": dict(hashes)}
        self._process = IsolatedModel(str(paths[MODEL]), task, paths.values(), "fairgate.models.onnx")
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
