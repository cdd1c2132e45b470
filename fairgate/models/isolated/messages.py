"""What both processes write to each other: a JSON object and arrays of numbers. Neither unpickles anything."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import FairgateError

Arrays = Mapping[str, NDArray[Any]]
KINDS = ("<f4", "<f8", "<i4", "<i8", "|u1", "|b1")
_LONGEST = 1 << 20  # bytes of the JSON
_LARGEST = 1 << 32  # bytes of all arrays


def send(stream: BinaryIO, content: Mapping[str, Any], arrays: Arrays) -> None:
    """Write one message. Arrays are float32, float64, int32, int64, uint8 or bool, of any shape."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    described = [[name, array.dtype.str, array.shape] for name, array in whole.items()]
    header = json.dumps({"content": content, "arrays": described}).encode()
    stream.write(struct.pack("<I", len(header)) + header)
    for array in whole.values():
        stream.write(array.data.cast("B") if array.size else b"")
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read one message. Raises EOFError for a stream that ends, ValueError for what `send` does not write: the other
    process may be in a stranger's hands."""
    (length,) = struct.unpack("<I", _exactly(stream, 4))
    if length > _LONGEST:
        raise ValueError("a message is too long")
    header = json.loads(_exactly(stream, length))
    if not isinstance(header, dict) or not isinstance(header.get("content"), dict):
        raise ValueError("a message is no object")
    arrays, left = {}, _LARGEST
    for name, kind, shape in header["arrays"]:
        if not isinstance(name, str) or kind not in KINDS or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError("a message describes no array")
        size = math.prod(shape) * np.dtype(kind).itemsize
        left -= size
        if left < 0:
            raise ValueError("a message is too large")
        arrays[name] = np.frombuffer(_exactly(stream, size), dtype=kind).reshape(shape)
    return header["content"], arrays


def _exactly(stream: BinaryIO, count: int) -> bytearray:
    found = bytearray(count)
    view, have = memoryview(found), 0
    while have < count:
        read = stream.readinto(view[have:])  # type: ignore[attr-defined]
        if not read:
            raise EOFError
        have += read
    return found


def reply(answers: BinaryIO, make: Callable[[], tuple[Mapping[str, Any], Mapping[str, Any]]], doing: str) -> None:
    """Answer with what `make` returns, or with what it raises."""
    arrays: Mapping[str, Any] = {}
    try:
        content, arrays = make()
        arrays = {name: np.asarray(array) for name, array in arrays.items()}
    except FairgateError as error:
        content = {"error": type(error).__name__, "words": error.problem, "where": error.where, "remedy": error.remedy}
    except Exception as error:  # of any type: each library has its own
        content = {"error": type(error).__name__, "words": str(error)[:4000], "doing": doing}
    send(answers, content, arrays)
