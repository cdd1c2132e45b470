"""`hf:` Grounding DINO (Liu et al. 2023): boxes of what a text names. Paper 1 detects "person" at 0.35 and 0.25."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from PIL.Image import Image
from torchvision.ops import batched_nms

from fairgate.ground.errors import ModelError
from fairgate.models.generation.perceiver import FolderPerceiver
from fairgate.models.generation.roles import Box

SAME_OBJECT = 0.8
"""Intersection over union above which two boxes are of one object. The model suppresses none; its authors recommend it
(IDEA-Research/GroundingDINO issue 131). This is the number of their demos that detect one named class
(Grounded-Segment-Anything, grounded_efficient_sam.py, NMS_THRESHOLD); where they label everything it is 0.5."""


class GroundingDino(FolderPerceiver):
    """`spent` counts "grounding_dino", once per image."""

    kinds: ClassVar = {"grounding-dino": ("GroundingDinoForObjectDetection", "GroundingDinoProcessor")}
    use = "find boxes with"

    def detect(
        self, images: Sequence[Image], text: str, *, box_threshold: float, text_threshold: float
    ) -> list[list[Box]]:
        """Boxes per image in its own pixels, clipped to it, highest score first; empty where nothing was found.

        A box scores above `box_threshold` (its likeliest token); its label holds the tokens above `text_threshold`. Of
        boxes that overlap by more than SAME_OBJECT the one with the highest score is left; where a text names several
        things, among boxes of one label.
        """
        plain = text.strip().lower().rstrip(". ")  # the model was trained on lower-case phrases that end with a dot
        if not plain:
            raise ModelError("no text says what to detect.", where=self.uri, remedy="name it, for example 'person'")
        tokens = self._tokens([f"{plain}."], self._model.config.max_text_len, remedy="name less at once")
        found: list[list[Box]] = [[] for _ in images]
        with self._running("detect"):
            for group, inputs in self._batches(images, tokens):
                outputs = self._model(**inputs)
                if torch.isnan(outputs.logits).any() or torch.isnan(outputs.pred_boxes).any():
                    raise self._diverged()
                boxes = self._processor.post_process_grounded_object_detection(
                    outputs,
                    tokens["input_ids"].repeat(len(group), 1),
                    threshold=box_threshold,
                    text_threshold=text_threshold,
                    target_sizes=[(images[position].height, images[position].width) for position in group],
                )
                for position, result in zip(group, boxes, strict=True):
                    found[position] = _boxes(result, images[position].size, several="." in plain)
        self.spent["grounding_dino"] += len(images)
        return found


def _boxes(result: Any, size: tuple[int, int], *, several: bool) -> list[Box]:
    """Boxes that have an area inside the image, one for each object, highest score first."""
    width, height = size
    found = []
    scores = result["scores"].float().cpu()
    labels = result["text_labels"] if len(scores) else []  # for no box at all, transformers gives one empty label
    corners = result["boxes"].float().cpu()
    kinds = torch.tensor([labels.index(label) if several else 0 for label in labels], dtype=torch.int64)
    for at in batched_nms(corners, scores, kinds, SAME_OBJECT).tolist():
        (left, top, right, bottom), score, label = corners[at].tolist(), float(scores[at]), labels[at]
        inside = max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))
        if inside[0] < inside[2] and inside[1] < inside[3]:
            found.append(Box(*inside, score=score, label=label))
    return sorted(found, key=lambda box: -box.score)


open_detector = GroundingDino.open
