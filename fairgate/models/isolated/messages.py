"""What both processes write to each other: a JSON object with arrays of numbers in it. Neither unpickles anything."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import FairgateError

if TYPE_CHECKING:
    from fairgate.models.checkpoints import HashedFiles, TransformersFolder

KINDS = ("<f4", "<f8", "<i4", "<i8", "|u1", "|b1")
_ARRAY = "@array"
"""The key of an object that stands for an array: its place among those that follow."""
_LONGEST = 1 << 24  # bytes of the JSON
_LARGEST = 1 << 32  # bytes of all arrays


def send(stream: BinaryIO, content: Mapping[str, Any]) -> None:
    """Write one message: texts, numbers, lists and objects of them, and whatever numpy takes as an array of float32,
    float64, int32, int64, uint8 or bool, of any shape."""
    arrays: list[NDArray[Any]] = []
    packed = _packed(content, arrays)
    header = json.dumps({"content": packed, "arrays": [[each.dtype.str, each.shape] for each in arrays]}).encode()
    stream.write(struct.pack("<I", len(header)) + header)
    for array in arrays:
        stream.write(array.data.cast("B") if array.size else b"")
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any]:
    """Read one message. Raises EOFError for a stream that ends, and another error for what `send` does not write: the
    other process may be in a stranger's hands."""
    (length,) = struct.unpack("<I", _exactly(stream, 4))
    if length > _LONGEST:
        raise ValueError("a message is too long")
    header = json.loads(_exactly(stream, length))
    arrays, left = [], _LARGEST
    for kind, shape in header["arrays"]:
        if kind not in KINDS or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError("a message describes no array")
        size = math.prod(shape) * np.dtype(kind).itemsize
        left -= size
        if left < 0:
            raise ValueError("a message is too large")
        arrays.append(np.frombuffer(_exactly(stream, size), dtype=kind).reshape(shape))
    content = _unpacked(header["content"], arrays)
    if not isinstance(content, dict):
        raise ValueError("a message is no object")
    return content


def answer_questions(
    opened: Callable[[], tuple[Mapping[str, Any], Mapping[str, Callable[..., Any]]]],
    missing: Sequence[str],
    questions: BinaryIO,
    answers: BinaryIO,
) -> None:
    """Open a model, tell the facts about it and what the machine could not take away, and answer until nobody asks.

    `opened` returns the facts, and by the name of a question the function that answers it.
    """
    functions: dict[str, Callable[..., Any]] = {}

    def told() -> dict[str, Any]:
        facts, found = opened()
        functions.update(found)
        return {**facts, "missing": list(missing)}

    def answered(question: Mapping[str, Any]) -> dict[str, Any]:
        return {"answer": functions[question["what"]](*question["given"])}

    _reply(answers, told, "the model cannot be loaded")
    while functions:
        try:
            question = receive(questions)
        except EOFError:
            return
        _reply(answers, partial(answered, question), "the model cannot answer")


def files_as_data(files: HashedFiles) -> dict[str, Any]:
    """Path, digest and stamp of each file, by role."""
    return {role: [str(path), files.hashes[role], list(files.stamps[role])] for role, path in files.paths.items()}


def files_of_data(data: Mapping[str, Any]) -> HashedFiles:
    """The same files, from that data."""
    from fairgate.models.checkpoints import HashedFiles

    return HashedFiles(
        {role: Path(path) for role, (path, _, _) in data.items()},
        {role: hashed for role, (_, hashed, _) in data.items()},
        {role: tuple(stamp) for role, (_, _, stamp) in data.items()},
    )


def folder_as_data(found: TransformersFolder) -> dict[str, Any]:
    """A folder that was found and hashed, as plain data."""
    named = {"path": str(found.path), "kind": found.kind, "weights": [str(path) for path in found.weights]}
    adapter = found.adapter and {
        "path": str(found.adapter.path),
        "config": found.adapter.config.model_dump(mode="json"),
        "files": files_as_data(found.adapter.files),
    }
    return {**named, "config": dict(found.config), "files": files_as_data(found.files), "adapter": adapter}


def folder_of_data(data: Mapping[str, Any]) -> TransformersFolder:
    """The same folder, from that data: a plain one."""
    from fairgate.models.checkpoints import Adapter, LoraConfig, PeftSettings, TransformersFolder

    files, weights = files_of_data(data["files"]), tuple(Path(path) for path in data["weights"])
    adapter = None
    if added := data["adapter"]:
        kind = PeftSettings if "settings" in added["config"] else LoraConfig
        adapter = Adapter(Path(added["path"]), kind(**added["config"]), files_of_data(added["files"]))
    return TransformersFolder(Path(data["path"]), data["kind"], data["config"], weights, files, adapter, plain=True)


def _packed(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {name: _packed(each, arrays) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(each, arrays) for each in value]
    arrays.append(np.ascontiguousarray(value))
    return {_ARRAY: len(arrays) - 1}


def _unpacked(value: Any, arrays: Sequence[NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_unpacked(each, arrays) for each in value]
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {name: _unpacked(each, arrays) for name, each in value.items()}
    return value


def _exactly(stream: BinaryIO, count: int) -> bytearray:
    found = bytearray(count)
    view, have = memoryview(found), 0
    while have < count:
        read = stream.readinto(view[have:])  # type: ignore[attr-defined]
        if not read:
            raise EOFError
        have += read
    return found


def _reply(answers: BinaryIO, make: Callable[[], Mapping[str, Any]], doing: str) -> None:
    """Answer with what `make` returns, or with what it raises."""
    try:
        content = make()
    except FairgateError as error:
        content = {"error": type(error).__name__, "words": error.problem, "where": error.where, "remedy": error.remedy}
    except Exception as error:  # of any type: each library has its own
        content = {"error": type(error).__name__, "words": str(error)[:4000], "doing": doing}
    send(answers, content)
