"""An ONNX model in onnxruntime: run from the bytes that were hashed, on the CPU, in a process without other files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import sha256_bytes
from fairgate.models.checkpoints import HashedFiles, diverged
from fairgate.models.isolated.child import IsolatedModel

MODEL, DATA = "model", "data"
"""Roles of the file, and of its weights where they are in another one."""
_FROM_MODEL = "ORT_LOAD_CONFIG_FROM_MODEL"
"""With this variable, onnxruntime would take its options from the file."""


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
        self._process = IsolatedModel(str(paths[MODEL]), task, paths.values(), "fairgate.models.onnx.host")
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
        _, arrays = self._process.ask("run", {**feeds, **wide}, outputs=list(outputs))
        return [arrays[str(at)] for at in range(len(outputs))]


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


def session_here(paths: Mapping[str, Path], hashes: Mapping[str, str]) -> Any:
    """A session in this process, on the bytes that were hashed. No path reaches onnxruntime but that of an empty
    folder: it would read what the file names, from where the process was started. Raises ModelError."""
    import onnxruntime

    content = {role: _bytes(path, hashes[role]) for role, path in paths.items()}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.load_model_format", "ONNX")  # never its own format, which holds options
    if DATA in content:
        name = os.path.relpath(paths[DATA], paths[MODEL].parent)
        options.add_external_initializers_from_files_in_memory([name], [content[DATA]], [len(content[DATA])])
    with tempfile.TemporaryDirectory(prefix="fairgate-onnx-") as empty, _without(_FROM_MODEL):
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", empty)
        try:
            return onnxruntime.InferenceSession(content[MODEL], options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common class
            raise _refused(error, str(paths[MODEL])) from error


def _bytes(path: Path, sha256: str) -> bytes:
    content = path.read_bytes()
    if sha256_bytes(content) != sha256:
        raise ModelError(
            "the file changed between hashing and loading.",
            where=str(path),
            remedy="wait until it is written, then run again",
        )
    return content


@contextlib.contextmanager
def _without(variable: str) -> Iterator[None]:
    before = os.environ.pop(variable, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[variable] = before


def _refused(error: Exception, where: str) -> ModelError:
    """The error for a file that onnxruntime does not load, with what helps."""
    reason = " ".join(str(error).split())
    if "xternal" in reason:
        remedy = (
            "its weights are in another file: name that one, &data=FILE, in the model's folder; several become one by "
            "onnx.save(model, FILE, save_as_external_data=True, all_tensors_to_one_file=True)"
        )
    elif "not a registered" in reason or "opset" in reason or "domain" in reason:
        remedy = "custom operators are not run: export the model with those of ONNX, or update onnxruntime"
    else:
        remedy = (
            "check that onnxruntime loads it: python -c 'import onnxruntime; onnxruntime.InferenceSession(\"FILE\")'"
        )
    return ModelError(f"onnxruntime does not load the model ({reason[:300]}).", where=where, remedy=remedy)
