"""A loaded detector of transformers, which answers as the library's own post-processing says."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import LOCAL, Device, TransformersFolder, load_model, loading, naming
from fairgate.models.contract import LOWEST_SCORE, MOST_BOXES
from fairgate.models.detection.layouts import DETECTORS, class_names, class_number

MAX_PREPARED = 1 << 22
"""Pixels that a picture may have once it is prepared: attention needs memory by their square."""

BoxRow = NDArray[np.float32]
"""(MOST_BOXES, 5): left, top, right, bottom and score of each box, the highest score first; zeros where none is."""


class DetectorEngine:
    """A model in float32 on a device: published thresholds were set on such scores."""

    def __init__(self, found: TransformersFolder, device: Device) -> None:
        import transformers

        layout = DETECTORS[found.kind]
        self.where, self._reads_text = str(found.path), layout.reads_text
        self._config, self._device = found.config, torch.device(device.name)
        model_class = getattr(transformers, layout.model, None)
        if model_class is None:
            raise ModelError(
                f"the installed transformers ({transformers.__version__}) does not know a {found.kind}.",
                where=self.where,
                remedy="install a newer one: `pip install --upgrade transformers`",
            )
        found.files.require_unchanged()
        self.model = load_model(model_class, found).to(device.name)
        self._takes = frozenset(inspect.signature(self.model.forward).parameters)
        with loading(found) as folder:
            self.images = transformers.AutoImageProcessor.from_pretrained(folder, **LOCAL)
            self.texts = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL) if layout.reads_text else None
        if found.kind == "grounding-dino":
            self._grounded = transformers.GroundingDinoProcessor(self.images, self.texts)

    def boxes(self, pictures: Sequence[Image], what: str) -> list[BoxRow]:
        """What was found in each picture, in its own pixels. Raises ModelError for a `what` that it does not know."""
        wanted = None if self._reads_text else class_number(class_names(self._config, self.where), what, self.where)
        tokens = self._tokens(what) if self._reads_text else {}
        found: list[BoxRow] = [np.zeros((MOST_BOXES, 5), dtype=np.float32) for _ in pictures]
        for group, inputs in self._groups(pictures):
            said = {name: value.repeat(len(group), 1) for name, value in tokens.items()}
            outputs = self.model(**inputs, **said)
            if not _answered(outputs, said):
                raise ModelError(
                    "the model answered with NaN or infinity.",
                    where=self.where,
                    remedy="check the checkpoint: did its training diverge?",
                )
            sizes = [(pictures[place].height, pictures[place].width) for place in group]
            for place, one in zip(group, self._read(outputs, said, sizes), strict=True):
                _fill(found[place], one, wanted)
        return found

    def _read(
        self, outputs: Any, said: Mapping[str, torch.Tensor], sizes: list[tuple[int, int]]
    ) -> list[dict[str, Any]]:
        """The library's own reading of the outputs: scores, labels and boxes of each picture."""
        if "input_ids" in said and hasattr(self, "_grounded"):
            options = {"threshold": LOWEST_SCORE, "text_threshold": LOWEST_SCORE, "target_sizes": sizes}
            read = self._grounded.post_process_grounded_object_detection(outputs, said["input_ids"], **options)
        else:
            read = self.images.post_process_object_detection(outputs, threshold=LOWEST_SCORE, target_sizes=sizes)
        return list(read)

    def _tokens(self, what: str) -> dict[str, torch.Tensor]:
        """A text as the model was trained to read it. Raises ModelError for one that is too long, or empty."""
        assert self.texts is not None
        limit = int(self.model.config.text_config.max_position_embeddings)
        if hasattr(self, "_grounded"):  # trained on phrases in small letters that end with a dot
            what, limit = f"{what.strip().lower().rstrip('. ')}.", min(limit, int(self.model.config.max_text_len))
        with naming(self.where, "read the text"):
            padding = {} if hasattr(self, "_grounded") else {"padding": "max_length"}  # the tokenizer's own
            tokens = self.texts([what], return_tensors="pt", **padding)
        if not what.strip(". ") or tokens["input_ids"].shape[1] > limit:
            raise ModelError(
                f"the text is empty, or longer than the {limit} tokens that the model reads.",
                where=what[:200],
                remedy="name what is to be found in few words, such as 'person'",
            )
        return {name: value.to(self._device) for name, value in tokens.items() if name in self._takes}

    def _groups(self, pictures: Sequence[Image]) -> list[tuple[list[int], dict[str, torch.Tensor]]]:
        """Pictures that are prepared to one size, by their places, and the model's inputs: none is padded to another's.

        Raises ModelError where a folder's settings make a picture enormous.
        """
        alike: dict[Any, list[tuple[int, Any]]] = {}
        for place, picture in enumerate(pictures):
            prepared = self.images(images=picture, return_tensors="pt")
            height, width = prepared["pixel_values"].shape[-2:]
            if height * width > MAX_PREPARED:
                raise ModelError(
                    f"the model's settings make a picture of {width:,} x {height:,} pixels.",
                    where=self.where,
                    remedy="check 'size' in its preprocessor_config.json: published models take about a megapixel",
                )
            alike.setdefault((height, width), []).append((place, prepared))
        return [
            (
                [place for place, _ in group],
                {
                    name: torch.cat([prepared[name] for _, prepared in group]).to(self._device)
                    for name in group[0][1]
                    if name in self._takes
                },
            )
            for group in alike.values()
        ]


def _answered(outputs: Any, said: Mapping[str, torch.Tensor]) -> bool:
    """Whether logits and boxes are finite; logits beyond the tokens of a text are padding, minus infinity."""
    logits = outputs.logits[..., : said["input_ids"].shape[1]] if said else outputs.logits
    return bool(torch.isfinite(logits).all() and torch.isfinite(outputs.pred_boxes).all())


def _fill(row: BoxRow, found: Mapping[str, Any], wanted: int | None) -> None:
    """Write the best boxes into a row: of the wanted class, or, of a text, all."""
    scores, corners = (found[name].float().cpu().numpy() for name in ("scores", "boxes"))
    if wanted is not None:
        of_class = found["labels"].cpu().numpy() == wanted
        scores, corners = scores[of_class], corners[of_class]
    best = np.argsort(-scores, kind="stable")[:MOST_BOXES]
    row[: len(best), :4], row[: len(best), 4] = corners[best], scores[best]
