"""`hf:` Segment Anything (Kirillov et al. 2023) and SAM 2 (Ravi et al. 2024): a mask of what is in a box."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from PIL.Image import Image

from fairgate.checkpoints import TransformersFolder, find_folder, model_folder
from fairgate.errors import ModelError
from fairgate.generation.perceiver import FolderPerceiver, device_of
from fairgate.generation.roles import Box, Mask

# model_type -> model and processor; published SAM 2 folders are of the video model, whose image half is used
_CLASSES = {
    "sam": ("SamModel", "SamProcessor"),
    "sam2": ("Sam2Model", "Sam2Processor"),
    "sam2_video": ("Sam2Model", "Sam2Processor"),
}
MAX_GRID = 1024


def open_segmenter(uri: str, address: str, *, device: str, base: Path) -> Sam:
    """Load a SAM or SAM 2 from a folder or the hub's cache. Raises ModelError or DeviceError."""
    where = device_of(device)
    found = find_folder(model_folder(address, base), tuple(_CLASSES), use="segment with", tokenizer=False, pickled=True)
    model_class, processor_class = (getattr(transformers, name, None) for name in _CLASSES[found.kind])
    if model_class is None or processor_class is None:
        raise ModelError(
            f"the installed transformers ({transformers.__version__}) does not know SAM 2.",
            where=str(found.path),
            remedy="install a newer one: `pip install 'transformers>=4.56'`",
        )
    _require_small_grid(found)
    return Sam.load(uri, found, where, model_class, processor_class)


def _require_small_grid(found: TransformersFolder) -> None:
    """Raises ModelError for a config whose grid of positions would fill the memory; it is no weight of the model."""
    prompts = found.config.get("prompt_encoder_config")
    sides = [prompts.get(name, 1) if isinstance(prompts, dict) else 1 for name in ("image_size", "patch_size")]
    whole = all(isinstance(side, int) and side > 0 for side in sides)
    if not whole or sides[0] // sides[1] > MAX_GRID:
        raise ModelError(
            f"prompts lie on a grid of {sides[0]} / {sides[1]} positions a side; at most {MAX_GRID} are built.",
            where=str(found.path / "config.json"),
            remedy="check 'prompt_encoder_config': published models have 64",
        )


class Sam(FolderPerceiver):
    """Of the three masks that the model proposes for a box, the one whose predicted IoU is highest is taken.

    `spent` counts "sam", once per image.
    """

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
