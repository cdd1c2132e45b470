"""What the isolated process runs for an ONNX file: onnxruntime on the CPU, on the bytes that were hashed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import sha256_bytes
from fairgate.models.isolated.messages import KINDS, Opened

MODEL, DATA = "model", "data"
"""Roles of the file, and of its weights where they are in another one."""
_FROM_MODEL = "ORT_LOAD_CONFIG_FROM_MODEL"
"""With this variable, onnxruntime would take its options from the file."""


def opened(paths: Mapping[str, Path], hashes: Mapping[str, str]) -> Opened:
    """Open files, tell their inputs and outputs, and run them."""
    session = session_here(paths, hashes)
    halves = {each.name for each in session.get_inputs() if each.type == "tensor(float16)"}

    def run(outputs: Sequence[str], arrays: Mapping[str, Any]) -> list[Any]:
        fed = {name: array.astype(np.float16) if name in halves else array for name, array in arrays.items()}
        found = [np.asarray(each) for each in session.run(list(outputs), fed)]
        return [each if each.dtype.str in KINDS else each.astype(np.float64) for each in found]

    facts = {
        "inputs": [[each.name, each.type, list(each.shape)] for each in session.get_inputs()],
        "outputs": [[each.name, each.type, list(each.shape)] for each in session.get_outputs()],
    }
    return facts, {"run": run}


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
