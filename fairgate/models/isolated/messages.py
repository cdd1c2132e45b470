"""What both processes write to each other. Questions are pickled, since this package writes them. Answers may come from
a stranger's model: they are a JSON object with arrays of numbers in it, and nothing in them is unpickled."""

from __future__ import annotations

import json
import math
import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Queue
from threading import Thread
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import FairgateError

Answers = Mapping[str, Callable[..., Any]]
"""By the name of a question, the function that answers it."""
Opened = tuple[Mapping[str, Any], Answers]
"""Facts about a model, and its answers."""
KINDS = ("<f4", "<f8", "<i4", "<i8", "|u1", "|b1")
_ARRAY = "@array"
"""The key of an object that stands for an array: its place among those that follow."""
_LONGEST = 1 << 24  # bytes of the JSON
_LARGEST = 1 << 32  # bytes of all arrays
_WAITING = 2  # questions that are read before they are answered
_SIDES = 32  # of an array: a product of many or long numbers takes hours, in which nothing else runs


def send(stream: BinaryIO, content: Mapping[str, Any]) -> None:
    """Write one message: texts, numbers, lists and objects of them, and whatever numpy takes as an array of float32,
    float64, int32, int64, uint8 or bool, of any shape."""
    arrays: list[NDArray[Any]] = []

    def packed(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        arrays.append(np.ascontiguousarray(value))
        return {_ARRAY: len(arrays) - 1}

    text = json.dumps(content, default=packed)
    header = json.dumps({"content": text, "arrays": [[each.dtype.str, each.shape] for each in arrays]}).encode()
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
    arrays, left = dict[int, NDArray[Any]](), _LARGEST
    for place, (kind, shape) in enumerate(header["arrays"]):
        few = len(shape) <= _SIDES
        if kind not in KINDS or not few or not all(isinstance(n, int) and 0 <= n < _LARGEST for n in shape):
            raise ValueError("a message describes no array")
        size = math.prod(shape) * np.dtype(kind).itemsize
        left -= size
        if left < 0:
            raise ValueError("a message is too large")
        arrays[place] = np.frombuffer(_exactly(stream, size), dtype=kind).reshape(shape)
    # each array once: a million references to a large one would be stacked
    content = json.loads(
        header["content"], object_hook=lambda made: arrays.pop(made[_ARRAY]) if made.keys() == {_ARRAY} else made
    )
    if not isinstance(content, dict):
        raise ValueError("a message is no object")
    return content


def serve(open_model: bytes, missing: Sequence[str], questions: BinaryIO, answers: BinaryIO) -> None:
    """Open a model by a pickled function, tell the facts about it and what the machine could not take away, and answer
    until nobody asks. A thread reads the questions, and does at once what is to be done `beside` their answers, such as
    to prepare the pictures of the next question. Few questions wait to be answered: they may hold large pictures."""
    functions: dict[str, Callable[..., Any]] = {}

    def told() -> dict[str, Any]:
        facts, found = pickle.loads(open_model)()  # noqa: S301 - the parent's
        functions.update(found)
        return {**facts, "missing": list(missing)}

    def answered(what: str, given: Sequence[Any]) -> dict[str, Any]:
        return {"answer": functions[what](*given)}

    coming = Queue[Callable[[], object] | None](maxsize=_WAITING)

    def read() -> None:
        try:
            while True:
                what, given, waits, beside = pickle.load(questions)  # noqa: S301 - the parent's
                if beside:
                    functions[what](*given)
                elif waits:
                    coming.put(partial(_reply, answers, partial(answered, what, given), "the model cannot answer"))
                else:
                    coming.put(partial(functions[what], *given))
        except EOFError:
            pass
        finally:  # also where it cannot go on
            coming.put(None)

    _reply(answers, told, "the model cannot be loaded")
    if functions:
        Thread(target=read, daemon=True).start()
        while (act := coming.get()) is not None:
            act()


def _exactly(stream: BinaryIO, count: int) -> bytearray:
    content = bytearray(count)
    if stream.readinto(content) < count:  # type: ignore[attr-defined]
        raise EOFError
    return content


def _reply(answers: BinaryIO, make: Callable[[], Mapping[str, Any]], doing: str) -> None:
    """Answer with what `make` returns, or with what it raises."""
    try:
        content = make()
    except FairgateError as error:
        content = {"error": type(error).__name__, "words": error.problem, "where": error.where, "remedy": error.remedy}
    except Exception as error:  # of any type: each library has its own
        content = {"error": type(error).__name__, "words": str(error)[:4000], "doing": doing}
    send(answers, content)
