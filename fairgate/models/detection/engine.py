"""A loaded detector of transformers, which answers as the library's own post-processing says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.spans import span
from fairgate.models import checkpoints
from fairgate.models.checkpoints import Device, TransformersFolder
from fairgate.models.classifiers.label_names import class_names, class_number
from fairgate.models.contract import LOWEST_SCORE, MOST_BOXES

MAX_PREPARED = 1 << 22
"""Pixels that a picture may have once it is prepared: attention needs memory by their square."""

BoxRow = NDArray[np.float32]
"""(MOST_BOXES, 5): left, top, right, bottom and score of each box, the highest score first; zeros where none is."""


class DetectorEngine:
    """A model in float32 on a device: published thresholds were set on such scores."""

    def __init__(self, found: TransformersFolder, device: Device) -> None:
        from transformers import GroundingDinoProcessor

        self.where, self._reads_text = str(found.path), found.kind in checkpoints.READ_TEXTS
        self._config, self._device = found.config, torch.device(device.name)
        zero_shot = "ZERO_SHOT_" if self._reads_text else ""
        name = checkpoints.class_of_task(found, f"MODEL_FOR_{zero_shot}OBJECT_DETECTION_MAPPING")
        self.model, self.images, self.texts = checkpoints.load_parts(name, found, device, texts=self._reads_text)
        self._takes = frozenset(inspect.signature(self.model.forward).parameters)
        grounded = found.kind.endswith("grounding-dino")
        self.grounded = GroundingDinoProcessor(self.images, self.texts) if grounded else None

    def boxes(self, pictures: Sequence[Image], what: str) -> list[BoxRow]:
        """What was found in each picture, in its own pixels. Raises ModelError for a `what` that it does not know."""
        wanted = None if self._reads_text else class_number(class_names(self._config, self.where), what, self.where)
        rows = {place: _best(found, wanted) for place, found in self.answers(pictures, what)}
        return [rows[place] for place in range(len(pictures))]

    def answers(
        self, pictures: Sequence[Image], what: str, box: float = LOWEST_SCORE, word: float = LOWEST_SCORE
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Places of pictures, and what the library reads of each: scores above `box`, labels of tokens above `word`,
        corners. Raises ModelError for a text that is too long, or empty."""
        tokens = self._tokens(what) if self._reads_text else {}
        for group, prepared in grouped(self.images, pictures, self.where):
            inputs = {name: value.to(self._device) for name, value in prepared.items() if name in self._takes}
            texts = {name: value.repeat(len(group), 1) for name, value in tokens.items()}
            with span("forward"):
                outputs = self.model(**inputs, **texts)
            if not _answered(outputs, texts):
                raise checkpoints.diverged("the model answered with NaN or infinity.", self.where)
            sizes = [(pictures[place].height, pictures[place].width) for place in group]
            if self.grounded is None:
                read = self.images.post_process_object_detection(outputs, threshold=box, target_sizes=sizes)
            else:
                read = self.grounded.post_process_grounded_object_detection(
                    outputs, texts["input_ids"], threshold=box, text_threshold=word, target_sizes=sizes
                )
            yield from zip(group, read, strict=True)

    def _tokens(self, what: str) -> dict[str, torch.Tensor]:
        """A text as the model was trained to read it. Raises ModelError for one that is too long, or empty."""
        assert self.texts is not None
        limit = int(self.model.config.text_config.max_position_embeddings)
        if self.grounded:  # trained on phrases in small letters that end with a dot
            what, limit = f"{what.strip().lower().rstrip('. ')}.", min(limit, int(self.model.config.max_text_len))
        with checkpoints.naming(self.where, "read the text"):
            padding = {} if self.grounded else {"padding": "max_length"}  # the tokenizer's own
            tokens = self.texts([what], return_tensors="pt", **padding)
        if not what.strip(". ") or tokens["input_ids"].shape[1] > limit:
            raise ModelError(
                f"the text is empty, or longer than the {limit} tokens that the model reads.",
                where=what[:200],
                remedy="name what is to be found in few words, such as 'person'",
            )
        return {name: value.to(self._device) for name, value in tokens.items() if name in self._takes}


def grouped(
    processor: Any, pictures: Sequence[Image], where: str
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Pictures that are prepared to one size, by their places, and their tensors: none is padded to another's size.

    Raises ModelError where a folder's settings make a picture enormous.
    """
    alike: dict[Any, list[tuple[int, Any]]] = {}
    for place, picture in enumerate(pictures):
        prepared = processor(images=picture, return_tensors="pt")
        require_modest(prepared["pixel_values"], where)
        alike.setdefault(tuple(prepared["pixel_values"].shape), []).append((place, prepared))
    for group in alike.values():
        tensors = {name: torch.cat([prepared[name] for _, prepared in group]) for name in group[0][1]}
        yield [place for place, _ in group], tensors


def require_modest(pixels: Any, where: str) -> None:
    """Raises ModelError for a prepared picture, (..., height, width), of more than MAX_PREPARED pixels."""
    height, width = pixels.shape[-2:]
    if height * width > MAX_PREPARED:
        raise ModelError(
            f"the model's settings make a picture of {width:,} x {height:,} pixels.",
            where=where,
            remedy="check 'size' in its preprocessor_config.json: published models take about a megapixel",
        )


def _answered(outputs: Any, texts: Mapping[str, torch.Tensor]) -> bool:
    """Whether logits and boxes are finite; logits beyond the tokens of a text are padding, minus infinity."""
    logits = outputs.logits[..., : texts["input_ids"].shape[1]] if texts else outputs.logits
    return bool(torch.isfinite(logits).all() and torch.isfinite(outputs.pred_boxes).all())


def _best(found: Mapping[str, Any], wanted: int | None) -> BoxRow:
    """The best boxes of a picture: of the wanted class, or, of a text, of all."""
    scores, corners = (found[name].float().cpu().numpy() for name in ("scores", "boxes"))
    if wanted is not None:
        of_class = found["labels"].cpu().numpy() == wanted
        scores, corners = scores[of_class], corners[of_class]
    best = np.argsort(-scores, kind="stable")[:MOST_BOXES]
    row = np.zeros((MOST_BOXES, 5), dtype=np.float32)
    row[: len(best), :4], row[: len(best), 4] = corners[best], scores[best]
    return row
