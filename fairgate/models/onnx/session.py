"""An ONNX model in onnxruntime: run from the bytes that were hashed, on the CPU, without any other file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import sha256_bytes
from fairgate.models.checkpoints import MAX_SIDE, Embeddings, HashedFiles, diverged

MODEL, DATA = "model", "data"
"""Roles of the file, and of its weights where they are in another one."""
SCORES = ("logits", "probabilities", "sigmoid")
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
_ENOUGH = 8
"""How many pictures by which outputs between 0 and 1 are known to be no logits."""
_SUM = 0.01
"""How far the probabilities of a picture may be from a sum of 1."""
_SMALLEST = float(np.finfo(np.float32).tiny)
_FROM_MODEL = "ORT_LOAD_CONFIG_FROM_MODEL"
"""With this variable, onnxruntime would take its options from the file."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a URI says of a model's input and outputs; None where the file is to tell."""

    name: str | None
    scores: str | None
    layout: str | None


class OnnxClassifier:
    """A session, and what it takes and gives. Raises ModelError for a file that onnxruntime does not run, and for
    inputs and outputs that are not those of an image classifier."""

    def __init__(self, files: HashedFiles, said: Outputs, width: int, uri: str) -> None:
        self._where, self._said, self._width, self._uri = str(files.paths[MODEL]), said, width, uri
        self._session = _session(files)
        shape = self._take_input()
        self._output = self._find_output()
        self._batch = shape[0] if isinstance(shape[0], int) else None

    def __call__(self, pictures: Any) -> Embeddings:
        """Logits of prepared pictures, each (3, height, width), or of all as one array: (pictures, labels) float32."""
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
        raw = np.concatenate(list(self._run(np.ascontiguousarray(batch, dtype=self._kind)))).astype(np.float64)
        return self._logits(raw.reshape(len(raw), -1))

    def _run(self, batch: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Raw outputs in pieces; of a model with a fixed batch, the last piece is filled up with its last picture."""
        step = self._batch or len(batch)
        for start in range(0, len(batch), step):
            piece = batch[start : start + step]
            missing = (self._batch or len(piece)) - len(piece)
            filled = np.concatenate([piece, np.repeat(piece[-1:], missing, axis=0)]) if missing else piece
            (raw,) = self._session.run([self._output], {self._input: filled})
            if len(raw) != len(filled):
                raise diverged(
                    f"the output '{self._output}' has {len(raw)} rows for {len(filled)} pictures.", self._where
                )
            yield np.asarray(raw)[: len(piece)]

    def _logits(self, raw: NDArray[np.float64]) -> Embeddings:
        """Outputs as logits, by what they are. Raises ModelError where they are something else."""
        inside = bool(raw.size and (raw >= 0).all() and (raw <= 1 + 1e-6).all())
        if self._said.scores is None and inside and len(raw) >= _ENOUGH:
            raise ModelError(
                "every output is between 0 and 1: these are probabilities, or logits that look alike.",
                where=self._uri,
                remedy="say which: &scores=probabilities (after a softmax), &scores=sigmoid (of each label alone), or "
                "&scores=logits",
            )
        scores = self._said.scores or SCORES[0]
        if scores != SCORES[0] and np.isfinite(raw).all():
            sums = raw.sum(axis=1)
            if not inside or (scores == "probabilities" and np.abs(sums - 1).max() > _SUM):
                worst = (
                    f"{raw.min():.4g} to {raw.max():.4g}" if not inside else f"{sums[np.abs(sums - 1).argmax()]:.4g}"
                )
                raise ModelError(
                    f"the outputs are no {'probabilities' if scores == 'probabilities' else 'sigmoids'} "
                    f"({'a sum of ' if inside else 'they are from '}{worst}).",
                    where=self._uri,
                    remedy=f"say what they are: &scores={', '.join(SCORES)}",
                )
        # what is 0 in float32 has a logarithm below its smallest number's
        if scores == "probabilities":
            raw = np.log(np.maximum(raw, _SMALLEST))
        elif scores == "sigmoid":
            raw = np.log(np.maximum(raw, _SMALLEST)) - np.log(np.maximum(1 - raw, _SMALLEST))
        if raw.shape[1] == 1 and self._width == 2:  # one number for two labels: that of the second
            raw = np.concatenate([np.zeros_like(raw), raw], axis=1)
        return raw.astype(np.float32)

    def _take_input(self) -> list[Any]:
        """The shape of the only input; sets its name, layout, kind and sides."""
        inputs = self._session.get_inputs()
        first = inputs[0] if inputs else None
        if first is None or len(inputs) > 1 or len(first.shape) != 4:
            told = ", ".join(f"{each.name} {each.shape}" for each in inputs[:4])
            raise ModelError(
                f"the model does not take pictures alone, (batch, 3, height, width): its inputs are {told or 'none'}.",
                where=self._where,
                remedy="export the classifier by itself; of another model, judge a table of its answers: labels:FILE",
            )
        shape, self._input = list(first.shape), first.name
        if first.type not in _KINDS:
            raise ModelError(
                f"the input '{first.name}' is a {first.type}.",
                where=self._where,
                remedy=f"export the model with an input of these: {', '.join(_KINDS)}",
            )
        self._kind = _KINDS[first.type]
        self._layout = self._layout_of(shape)
        self._sides = tuple(shape[2:] if self._layout == "nchw" else shape[1:3])
        sides = [side for side in self._sides if isinstance(side, int)]
        if isinstance(shape[0], int) and shape[0] * _CHANNELS * int(np.prod([MAX_SIDE, *sides][-2:])) > _MOST_AT_ONCE:
            raise ModelError(
                f"the model takes {shape[0]:,} pictures at once, and no fewer.",
                where=self._where,
                remedy="export it with a free batch dimension",
            )
        return shape

    def _layout_of(self, shape: list[Any]) -> str:
        """Where the channels are, as the shape tells or the URI says."""
        fits = [name for name, place in zip(LAYOUTS, (1, 3), strict=True) if shape[place] == _CHANNELS]
        free = [name for name, place in zip(LAYOUTS, (1, 3), strict=True) if not isinstance(shape[place], int)]
        said = self._said.layout
        if said is None and len(fits) == 1:
            return fits[0]
        if said is not None and said in fits + free:
            return said
        raise ModelError(
            f"the input's shape {shape} does not tell where its three channels are."
            if said is None
            else f"the input's shape {shape} is not {said}.",
            where=self._where,
            remedy="say it: &layout=nchw or &layout=nhwc; fairgate shows models pictures with 3 channels",
        )

    def _find_output(self) -> str:
        """The output with a number for every label."""
        outputs = {each.name: list(each.shape) for each in self._session.get_outputs()}
        told = ", ".join(f"{name} {shape}" for name, shape in list(outputs.items())[:8])
        if self._said.name is not None and self._said.name not in outputs:
            raise ModelError(
                f"the model has no output '{self._said.name[:80]}'.", where=self._uri, remedy=f"it has: {told}"
            )
        named = [self._said.name] if self._said.name is not None else [*outputs]
        fitting = [name for name in named if self._fits(outputs[name])]
        if len(fitting) == 1:
            return fitting[0]
        problem = (
            f"none of the model's outputs has a number for each of {self._width} labels ({told})."
            if not fitting
            else f"several of the model's outputs have {self._width} numbers ({told})."
        )
        raise ModelError(
            problem,
            where=self._where,
            remedy=f"name one: &output={fitting[0]}" if fitting else "name all outputs, in their order, in labels=",
        )

    def _fits(self, shape: list[Any]) -> bool:
        """Whether a shape is (pictures, labels), also with sides of 1 after them."""
        wide, known = shape[1:2], (self._width, *([1] if self._width == 2 else []))
        if not wide or any(side != 1 for side in shape[2:]):
            return False
        return not isinstance(wide[0], int) or wide[0] in known

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


def _pixels(prepared: Any) -> NDArray[Any]:
    """A prepared picture as an array; other families' (`reading_as`) may be tensors, or a mapping with one."""
    return np.asarray(prepared["pixel_values"] if isinstance(prepared, Mapping) else prepared)


def _session(files: HashedFiles) -> Any:
    """A session on the bytes that were hashed. No path reaches onnxruntime but that of an empty folder: it would read
    what the file names, from where this process was started. Raises ModelError."""
    import onnxruntime

    content = {role: _bytes(path, files.hashes[role]) for role, path in files.paths.items() if role in (MODEL, DATA)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.load_model_format", "ONNX")  # never its own format, which holds options
    if DATA in content:
        name = os.path.relpath(files.paths[DATA], files.paths[MODEL].parent)
        data = content[DATA]
        options.add_external_initializers_from_files_in_memory([name], [data], [len(data)])
    with tempfile.TemporaryDirectory(prefix="fairgate-onnx-") as empty, _without(_FROM_MODEL):
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", empty)
        try:
            return onnxruntime.InferenceSession(content[MODEL], options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common class
            raise _refused(error, str(files.paths[MODEL])) from error


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
