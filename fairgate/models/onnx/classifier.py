"""The outputs of an image classifier in ONNX, as logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Embeddings, HashedFiles
from fairgate.models.onnx.host import MODEL
from fairgate.models.onnx.session import PictureInput, open_session, rows_of

SCORES = ("logits", "probabilities", "sigmoid")
_ENOUGH = 8
"""How many pictures by which outputs between 0 and 1 are known to be no logits."""
_SUM = 0.01
"""How far the probabilities of a picture may be from a sum of 1."""
_SMALLEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a URI says of a model's input and outputs; None where the file is to tell."""

    name: str | None
    scores: str | None
    layout: str | None


class OnnxClassifier:
    """A session, and what it takes and gives. Raises ModelError for a file that onnxruntime does not run, and for
    inputs and outputs that are not those of an image classifier."""

    def __init__(self, files: HashedFiles, declared: Outputs, width: int, uri: str) -> None:
        self._where, self._declared, self._width, self._uri = str(files.paths[MODEL]), declared, width, uri
        self._session = open_session(files)
        given = self._session.get_inputs()
        if len(given) != 1 or len(given[0].shape) != 4:
            told = ", ".join(f"{each.name} {each.shape}" for each in given[:4])
            raise ModelError(
                f"the model does not take pictures alone, (batch, 3, height, width): its inputs are {told or 'none'}.",
                where=self._where,
                remedy="export the classifier by itself; of two towers, name both: &text=FILE; of another model, judge "
                "a table of its answers: labels:FILE",
            )
        self._input = PictureInput(given[0], declared.layout, self._where, uri)
        self._output = self._find_output()

    def __call__(self, pictures: Any) -> Embeddings:
        """Logits of prepared pictures, each (3, height, width), or of all as one array: (pictures, labels) float32."""
        raw = rows_of(self._session, self._output, self._input.name, self._input.batches(pictures), {}, self._where)
        return self._logits(raw.reshape(len(raw), -1))

    def _logits(self, raw: NDArray[np.float64]) -> Embeddings:
        """Outputs as logits, by what they are. Raises ModelError where they are something else."""
        inside = bool(raw.size and (raw >= 0).all() and (raw <= 1 + 1e-6).all())
        if self._declared.scores is None and inside and len(raw) >= _ENOUGH:
            raise ModelError(
                "every output is between 0 and 1: these are probabilities, or logits that look alike.",
                where=self._uri,
                remedy="say which: &scores=probabilities (after a softmax), &scores=sigmoid (of each label alone), or "
                "&scores=logits",
            )
        scores = self._declared.scores or SCORES[0]
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

    def _find_output(self) -> str:
        """The output with a number for every label."""
        outputs = {each.name: list(each.shape) for each in self._session.get_outputs()}
        told = ", ".join(f"{name} {shape}" for name, shape in list(outputs.items())[:8])
        if self._declared.name is not None and self._declared.name not in outputs:
            raise ModelError(
                f"the model has no output '{self._declared.name[:80]}'.", where=self._uri, remedy=f"it has: {told}"
            )
        named = [self._declared.name] if self._declared.name is not None else [*outputs]
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
