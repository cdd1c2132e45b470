"""What the isolated process runs for an ONNX file: a session of onnxruntime, asked by the parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fairgate.models.isolated.messages import KINDS, receive, reply
from fairgate.models.onnx.runtime import session_here


def serve(task: Mapping[str, Any], missing: Sequence[str], questions: BinaryIO, answers: BinaryIO) -> None:
    """Open the files of a task, tell their inputs and outputs and what the machine could not take away, and run them
    until nobody asks."""
    session: Any = None

    def opened() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        nonlocal session
        session = session_here({role: Path(path) for role, path in task["paths"].items()}, task["hashes"])
        described = {
            "inputs": [[each.name, each.type, list(each.shape)] for each in session.get_inputs()],
            "outputs": [[each.name, each.type, list(each.shape)] for each in session.get_outputs()],
        }
        return {**described, "missing": list(missing)}, {}

    def ran(outputs: Sequence[str], arrays: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        halves = {each.name for each in session.get_inputs() if each.type == "tensor(float16)"}
        fed = {name: array.astype(np.float16) if name in halves else array for name, array in arrays.items()}
        found = [np.asarray(each) for each in session.run(list(outputs), fed)]
        return {}, {
            str(at): each if each.dtype.str in KINDS else each.astype(np.float64) for at, each in enumerate(found)
        }

    reply(answers, opened, "the model cannot be loaded")
    while session is not None:
        try:
            question, arrays = receive(questions)
        except EOFError:
            return
        reply(answers, lambda q=question, a=arrays: ran(q["outputs"], a), "the model cannot answer")  # type: ignore[misc]
