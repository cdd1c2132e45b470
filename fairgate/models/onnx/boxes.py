"""Detectors in ONNX, whose outputs a URI declares to be those of a DETR, an RT-DETR or a YOLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import HashedFiles, diverged
from fairgate.models.classifiers.label_names import class_number
from fairgate.models.contract import LOWEST_SCORE, MOST_BOXES
from fairgate.models.onnx.host import MODEL
from fairgate.models.onnx.pictures import PicturePreparation
from fairgate.models.onnx.session import PictureInput, open_session, rows_of

if TYPE_CHECKING:
    from PIL.Image import Image

BOXES = ("detr", "rt_detr", "yolo")
OVERLAP = 0.7
"""Of two boxes of a YOLO's class that overlap more (intersection over union), the lower score goes: as Ultralytics'."""
_DETR_OUTPUTS = ("logits", "pred_boxes")


@dataclass(frozen=True, slots=True)
class DetectorOptions:
    """What a URI says of a detector."""

    boxes: str
    overlap: float
    output: str | None
    layout: str | None


class OnnxDetector:
    """A session, and boxes of its classes by its declared outputs. Raises ModelError for outputs of another layout."""

    def __init__(
        self,
        files: HashedFiles,
        names: Mapping[int, str],
        pictures: PicturePreparation,
        declared: DetectorOptions,
        uri: str,
    ) -> None:
        self._names, self._prepare, self._declared = names, pictures, declared
        self._uri, self._where = uri, str(files.paths[MODEL])
        self._session = open_session(files)
        given = self._session.get_inputs()
        if len(given) != 1 or len(given[0].shape) != 4:
            raise ModelError(
                "the detector does not take pictures alone.",
                where=self._where,
                remedy="export it with one input, (batch, 3, height, width), or judge detections:FILE",
            )
        self._input = PictureInput(given[0], declared.layout, self._where, uri)
        self._outputs = self._named()

    def boxes(self, pictures: Sequence[Image], what: str) -> list[NDArray[np.float32]]:
        """Rows (MOST_BOXES, 5) of each picture: left, top, right, bottom in its own pixels, and score, the highest
        first; zeros where there is none."""
        number = class_number(self._names, what, self._uri)
        rows = []
        for picture in pictures:
            found = [self._output(name, self._prepare(picture)) for name in self._outputs]
            scores, corners = (self._of_yolo if self._declared.boxes == "yolo" else self._of_detr)(found, number)
            row = np.zeros((MOST_BOXES, 5), dtype=np.float32)
            best = np.argsort(-scores, kind="stable")[:MOST_BOXES]
            best = best[scores[best] > LOWEST_SCORE]
            row[: len(best), :4], row[: len(best), 4] = self._in_pixels(corners[best], picture), scores[best]
            rows.append(row)
        return rows

    def _named(self) -> tuple[str, ...]:
        outputs = {each.name: list(each.shape) for each in self._session.get_outputs()}
        if self._declared.boxes != "yolo":
            wanted: tuple[str, ...] = _DETR_OUTPUTS
        else:
            wanted = (self._declared.output,) if self._declared.output else tuple(outputs)
        if not set(wanted) <= set(outputs) or (self._declared.boxes == "yolo" and len(wanted) != 1):
            told = ", ".join(f"{name} {shape}" for name, shape in list(outputs.items())[:8])
            raise ModelError(
                f"the outputs are not those of boxes={self._declared.boxes} ({told}).",
                where=self._where,
                remedy=f"a DETR has {' and '.join(_DETR_OUTPUTS)}; of a YOLO, name one: &output=NAME; or judge a "
                "table of boxes: detections:FILE",
            )
        return wanted

    def _output(self, name: str, prepared: NDArray[np.float32]) -> NDArray[np.float64]:
        """An output for one picture, finite."""
        batches = self._input.batches([prepared])
        (found,) = rows_of(self._session, name, self._input.name, batches, {}, self._where)
        if found.ndim != 2 or not np.isfinite(found).all():
            raise diverged(f"the output '{name}' is NaN, infinite, or no table of boxes {found.shape}.", self._where)
        return np.asarray(found)

    def _of_detr(
        self, found: Sequence[NDArray[np.float64]], number: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores and corners, relative to the picture, as transformers reads them: a DETR's best class of each box, of
        an RT-DETR as many pairs of box and class as there are boxes."""
        logits, boxes = found
        none = self._declared.boxes == "detr"
        self._require_classes(logits.shape[1] - none, boxes.shape[1], 4)
        if none:
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            odds = (odds / odds.sum(axis=1, keepdims=True))[:, :-1]
            best = odds.argmax(axis=1)
            rows, scores = np.flatnonzero(best == number), odds[best == number, number]
        else:
            odds = 1 / (1 + np.exp(-logits))
            pairs = np.argsort(-odds, axis=None, kind="stable")[: len(odds)]
            pairs = pairs[pairs % odds.shape[1] == number]
            rows, scores = pairs // odds.shape[1], odds.reshape(-1)[pairs]
        return scores, _corners(boxes[rows])

    def _of_yolo(
        self, found: Sequence[NDArray[np.float64]], number: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores and corners, in prepared pixels: each box's best class, without those that overlap a better one."""
        import torch
        from torchvision.ops import nms

        table = found[0].T if found[0].shape[0] == 4 + len(self._names) else found[0]
        self._require_classes(table.shape[1] - 4, 4, 4)
        scores = table[:, 4:].max(axis=1)
        mine = (table[:, 4:].argmax(axis=1) == number) & (scores > LOWEST_SCORE)
        corners, scores = _corners(table[mine, :4]), scores[mine]
        kept = nms(torch.as_tensor(corners), torch.as_tensor(scores), self._declared.overlap).numpy()
        return scores[kept], corners[kept]

    def _require_classes(self, classes: int, sides: int, wanted: int) -> None:
        if classes != len(self._names) or sides != wanted:
            raise ModelError(
                f"the outputs have {classes} classes and {sides} numbers a box, and {len(self._names)} are named.",
                where=self._where,
                remedy="name all classes, in their order, in labels=, and the right layout: &boxes=" + ", ".join(BOXES),
            )

    def _in_pixels(self, corners: NDArray[np.float64], picture: Image) -> NDArray[np.float64]:
        """Corners in the picture's own pixels."""
        height, width = self._prepare.size
        by_x, by_y, left, top = self._prepare.placed(*picture.size)
        if self._declared.boxes != "yolo":
            corners = corners * [width, height, width, height]
        return np.asarray((corners - [left, top, left, top]) / [by_x, by_y, by_x, by_y])


def _corners(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Left, top, right, bottom of boxes that are given by their centre and sides, (boxes, 4)."""
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
