"""Images and texts in one space: CLIP and SigLIP as the gate loads them, and DINO for images alone.

`hf:` is a folder or hub id of transformers' CLIP, SigLIP, DINOv2 or ViT (DINO); `open_clip:` is written as for the
gate. DINO is the encoder of the neighbour filter in paper 5's appendix F.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.models import checkpoints, embed_texts, hf, open_clip
from fairgate.models.detection.engine import require_modest
from fairgate.models.features import load_backbone
from fairgate.models.generation.perceivers import Perceiver, device_of
from fairgate.models.generation.roles import Vectors

_IMAGES_ALONE = ("vit", "dinov2")
"""Types of transformers that embed images and know no text."""


def open_matcher(uri: str, address: str, *, device: str, base: Path) -> Towers:
    """Load two towers, or one. Raises ModelError or DeviceError."""
    where = device_of(device)
    found = open_clip.checkpoint(uri, address, base) if uri.startswith("open_clip:") else _of_folder(address, base)
    return Towers(uri, found.fingerprint, where, found.open(where, uri))


class Towers(Perceiver):
    """Unit vectors of images and texts. `spent` counts "image_tower" and "text_tower", once per image and text.

    Nothing is remembered between calls: a vector depends on its own call's batch to the last bit, so that a shard that
    is made again is the same.
    """

    def __init__(self, uri: str, fingerprint: str, device: checkpoints.Device, encoder: checkpoints.Encoder) -> None:
        super().__init__(uri, fingerprint, device)
        self._encoder = encoder

    def embed_images(self, images: Sequence[Image]) -> Vectors:
        """(images, dim) float32, unit length, of one batch. Raises ModelError for a NaN or zero vector."""
        if not images:
            raise ModelError("no image was given to embed.", where=self.uri, remedy="give at least one")
        encode = checkpoints.Halving(self._encoder.encode_images, self._device.name)
        with checkpoints.scoring(self._device):
            vectors = encode([self._encoder.prepare(image.convert("RGB")) for image in images])
        self.spent["image_tower"] += len(images)
        return checkpoints.unit_or_error(vectors, lambda row: f"{self.uri}, image {row}")

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """(texts, dim) float32, unit length; equal texts are computed once. Raises ModelError for DINO."""
        different = list(dict.fromkeys(texts))
        if not different:
            raise ModelError("no text was given to embed.", where=self.uri, remedy="give at least one")
        vectors = dict(zip(different, embed_texts(self._encoder, different, self._device, self.uri), strict=True))
        self.spent["text_tower"] += len(different)
        return np.stack([vectors[text] for text in texts])


def _of_folder(address: str, base: Path) -> checkpoints.Checkpoint:
    """Two towers or a DINO, hashed and not loaded. Raises ModelError."""
    folder = checkpoints.model_folder(address, base)
    config = folder / "config.json"
    if not config.is_file() or str(checkpoints.read_config(config).get("model_type")) not in _IMAGES_ALONE:
        return hf.checkpoint_to_use(folder)
    found = checkpoints.find_folder(folder, _IMAGES_ALONE, use="embed", tokenizer=False, pickled=True)

    def load(device: checkpoints.Device) -> checkpoints.Encoder:
        # the class token of the last layer after its norm, which DINO's own nearest-neighbour classifier uses
        backbone = load_backbone(found, device, "cls")

        def prepare(image: Image) -> torch.Tensor:
            tensor: torch.Tensor = backbone.prepare(image)
            require_modest(tensor, str(found.path))  # DINOv2 takes any size
            return tensor

        def refused(prompts: Sized) -> NoReturn:
            raise ModelError(
                f"the model embeds images alone, and {len(prompts)} texts were given to it.",
                where=str(found.path),
                remedy="use a CLIP or a SigLIP where texts are compared with images",
            )

        return checkpoints.Encoder(1.0, 0.0, 0, prepare, backbone.outputs, refused, refused)

    return checkpoints.Checkpoint(found.fingerprint, {"adapter": "image_only", "code": 1}, load)
