"""Images and texts in one space: CLIP and SigLIP as the gate loads them, and DINO for images alone.

`hf:` is a folder or hub id of transformers' CLIP, SigLIP, DINOv2 or ViT (DINO); `open_clip:` is written as for the
gate. DINO is the encoder of the neighbour filter in paper 5's appendix F.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairgate.errors import ModelError
from fairgate.models.adapters import hf, open_clip
from fairgate.models.adapters.perceiving import Perceiver, device_of
from fairgate.models.device import Device
from fairgate.models.embed_texts import embed_texts
from fairgate.models.encoder import Checkpoint, Encoder, Guarded, naming
from fairgate.models.files import read_config
from fairgate.models.hub import model_folder
from fairgate.models.making import Vectors
from fairgate.models.torch_runtime import Halving, scoring
from fairgate.models.unit import unit_or_error

if TYPE_CHECKING:
    from PIL.Image import Image

BATCH = 64
"""Images that are embedded at once; a caller that hands over fewer sets the batch itself."""


def open_matcher(uri: str, address: str, *, device: str, base: Path) -> Towers:
    """Load two towers, or one. Raises ModelError or DeviceError."""
    where = device_of(device)
    found = open_clip.checkpoint(uri, address, base) if uri.startswith("open_clip:") else _of_folder(address, base)
    with naming(uri, "be loaded"):
        encoder = found.load(where)
    return Towers(uri, found.fingerprint, where, Guarded(encoder, uri))


def _of_folder(address: str, base: Path) -> Checkpoint:
    from fairgate.models.adapters import image_only

    folder = model_folder(address, base)
    config = folder / "config.json"
    if config.is_file() and str(read_config(config).get("model_type")) in image_only.MODEL_TYPES:
        return image_only.checkpoint(folder)
    return hf.checkpoint(folder)


class Towers(Perceiver):
    """Unit vectors of images and texts. `spent` counts "image_tower" and "text_tower", once per image and text.

    Nothing is remembered between calls: a vector depends on its own call's batch to the last bit, so that a shard that
    is made again is the same.
    """

    def __init__(self, uri: str, fingerprint: str, device: Device, encoder: Encoder) -> None:
        super().__init__(uri, fingerprint, device)
        self._encoder = encoder

    def embed_images(self, images: Sequence[Image]) -> Vectors:
        """(images, dim) float32, unit length. Raises ModelError for a NaN or zero vector."""
        if not images:
            raise ModelError("no image was given to embed.", where=self.uri, remedy="give at least one")
        encode = Halving(self._encoder.encode_images, self._device.name)
        parts = []
        with scoring(self._device):
            for start in range(0, len(images), BATCH):
                batch = [self._encoder.prepare(image.convert("RGB")) for image in images[start : start + BATCH]]
                parts.append(unit_or_error(encode(batch), lambda row, start=start: f"{self.uri}, image {start + row}"))  # type: ignore[misc]
        self.spent["image_tower"] += len(images)
        return np.concatenate(parts)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """(texts, dim) float32, unit length; equal texts are computed once. Raises ModelError for DINO."""
        different = list(dict.fromkeys(texts))
        if not different:
            raise ModelError("no text was given to embed.", where=self.uri, remedy="give at least one")
        vectors = dict(zip(different, embed_texts(self._encoder, different, self._device, self.uri), strict=True))
        self.spent["text_tower"] += len(different)
        return np.stack([vectors[text] for text in texts])
