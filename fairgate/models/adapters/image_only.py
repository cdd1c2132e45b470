"""`hf:` DINO: a ViT or DINOv2 of transformers that embeds images and knows no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairgate.errors import ModelError
from fairgate.models.adapters.perceiving import require_modest
from fairgate.models.adapters.transformers_folder import TransformersFolder, find_folder
from fairgate.models.device import Device
from fairgate.models.encoder import Checkpoint, Encoder
from fairgate.models.protocols import Embeddings

if TYPE_CHECKING:
    import torch

MODEL_TYPES = {"vit": "ViTModel", "dinov2": "Dinov2Model"}


def checkpoint(folder: Path) -> Checkpoint:
    """A DINO in a folder that `require_folder` has accepted, hashed and not loaded. Raises ModelError."""
    found = find_folder(folder, tuple(MODEL_TYPES), tokenizer=False, pickled=True)

    def load(device: Device) -> Encoder:
        found.files.require_unchanged()
        return _load(found, device)

    return Checkpoint(found.fingerprint, {"adapter": "image_only", "code": 1}, load)


class ImageEncoder:
    """The class token of the last layer after its norm, which DINO's own nearest-neighbour classifier uses."""

    scale, bias, vocabulary = 1.0, 0.0, 0

    def __init__(self, model: Any, processor: Any, device: Device, where: str) -> None:
        self._model, self._processor, self._device, self._where = model.to(device.name), processor, device.name, where

    def prepare(self, image: Any) -> torch.Tensor:
        tensor: torch.Tensor = self._processor(images=image, return_tensors="pt")["pixel_values"][0]
        require_modest(tensor, self._where)  # DINOv2 takes any size
        return tensor

    def encode_images(self, prepared: Sequence[torch.Tensor]) -> Embeddings:
        import torch

        hidden = self._model(pixel_values=torch.stack(list(prepared)).to(self._device)).last_hidden_state
        return np.asarray(hidden[:, 0].float().cpu().numpy(), dtype=np.float32)

    def tokens(self, prompts: Sequence[str]) -> Mapping[str, Any]:
        raise self._no_texts(len(prompts))

    def encode_tokens(self, tokens: Mapping[str, Any]) -> Embeddings:
        raise self._no_texts(len(tokens))

    def encode_texts(self, prompts: Sequence[str]) -> Embeddings:
        raise self._no_texts(len(prompts))

    def _no_texts(self, count: int) -> ModelError:
        return ModelError(
            f"the model embeds images alone, and {count} texts were given to it.",
            where=self._where,
            remedy="use a CLIP or a SigLIP where texts are compared with images",
        )


def _load(found: TransformersFolder, device: Device) -> Encoder:
    import transformers

    from fairgate.models.adapters.transformers_load import LOCAL, load_model, loading

    # DINO's ViT was published without the pooling layer that ViTModel would make up
    without = {"add_pooling_layer": False} if found.kind == "vit" else {}
    model = load_model(getattr(transformers, MODEL_TYPES[found.kind]), found, unused=("pooler.",), **without)
    with loading(found) as folder:
        processor = transformers.AutoImageProcessor.from_pretrained(folder, **LOCAL)
    return ImageEncoder(model, processor, device, str(found.path))
