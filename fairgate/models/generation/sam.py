"""`hf:` Segment Anything (Kirillov et al. 2023) and SAM 2 (Ravi et al. 2024): a mask of what is in a box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import TransformersFolder
from fairgate.models.generation.perceiver import FolderPerceiver
from fairgate.models.generation.roles import Box, Mask

MAX_GRID = 1024


class Sam(FolderPerceiver):
    """Of the three masks that the model proposes for a box, the one whose predicted IoU is highest is taken.

    `spent` counts "sam", once per image.
    """

    kinds: ClassVar = {  # published SAM 2 folders are of the video model, whose image half is used
        "sam": ("SamModel", "SamProcessor"),
        "sam2": ("Sam2Model", "Sam2Processor"),
        "sam2_video": ("Sam2Model", "Sam2Processor"),
    }
    use = "segment with"
    reads_text = False

    @classmethod
    def require_usable(cls, found: TransformersFolder) -> None:
        """Raises ModelError for a config whose grid of positions would fill the memory."""
        prompts = found.config.get("prompt_encoder_config")
        sides = [prompts.get(name, 1) if isinstance(prompts, dict) else 1 for name in ("image_size", "patch_size")]
        whole = all(isinstance(side, int) and side > 0 for side in sides)
        if not whole or sides[0] // sides[1] > MAX_GRID:
            raise ModelError(
                f"prompts lie on a grid of {sides[0]} / {sides[1]} positions a side; at most {MAX_GRID} are built.",
                where=str(found.path / "config.json"),
                remedy="check 'prompt_encoder_config': published models have 64",
            )

    def segment(self, images: Sequence[Image], boxes: Sequence[Box]) -> list[Mask]:
        """A mask per image, (height, width) of the image itself, True inside. One box per image, in its pixels."""
        if len(images) != len(boxes):
            raise ValueError(f"{len(images)} images and {len(boxes)} boxes: one box per image is needed")
        if not images:
            return []
        pictures = [image.convert("RGB") for image in images]
        corners = [[[box.left, box.top, box.right, box.bottom]] for box in boxes]
        with self._running("segment"):
            inputs = self._processor(images=pictures, input_boxes=corners, return_tensors="pt")
            sizes = {name: inputs.pop(name) for name in ("original_sizes", "reshaped_input_sizes") if name in inputs}
            moved = {name: value.to(self._device.name) for name, value in inputs.items()}
            outputs = self._model(**moved, multimask_output=True)
            # (images, 1, masks): one box per image
            best = outputs.iou_scores[:, 0].argmax(dim=1)
            chosen = outputs.pred_masks[torch.arange(len(pictures)), :, best][:, :, None].cpu()
            if torch.isnan(outputs.iou_scores).any() or torch.isnan(chosen).any():
                raise self._diverged()
            masks = self._processor.image_processor.post_process_masks(chosen, **sizes)
        self.spent["sam"] += len(pictures)
        return [mask[0, 0].numpy().astype(bool) for mask in masks]


open_segmenter = Sam.open
