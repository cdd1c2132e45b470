"""The half of the hf adapter that imports transformers: load, encode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel, SiglipModel

from fairgate.models.adapters.transformers_folder import TransformersFolder
from fairgate.models.adapters.transformers_load import LOCAL, load_model, loading
from fairgate.models.device import Device
from fairgate.models.protocols import Embeddings


class HfEncoder:
    """Both towers of a CLIP or SigLIP of transformers with the folder's own processor and tokenizer."""

    def __init__(self, model: Any, processor: Any, tokenizer: Any, device: Device) -> None:
        self._model, self._processor, self._tokenizer, self._device = model, processor, tokenizer, device.name
        self._length = int(model.config.text_config.max_position_embeddings)
        # SigLIP was trained without a mask, on prompts padded to the full length
        self._masked = model.config.model_type == "clip"
        bias = getattr(model, "logit_bias", None)
        self.scale = float(model.logit_scale.detach().exp())
        self.bias = 0.0 if bias is None else float(bias.detach())

    def prepare(self, image: Any) -> torch.Tensor:
        tensor: torch.Tensor = self._processor(images=image, return_tensors="pt")["pixel_values"][0]
        return tensor

    def encode_images(self, prepared: Sequence[torch.Tensor]) -> Embeddings:
        pixels = torch.stack(list(prepared)).to(self._device)
        return _to_numpy(self._model.get_image_features(pixel_values=pixels))

    @property
    def vocabulary(self) -> int:
        return int(self._model.config.text_config.vocab_size)

    def tokens(self, prompts: Sequence[str]) -> Mapping[str, Any]:
        tokens = self._tokenizer(
            list(prompts), padding="max_length", truncation=True, max_length=self._length, return_tensors="pt"
        )
        return {"ids": tokens["input_ids"], **({"mask": tokens["attention_mask"]} if self._masked else {})}

    def encode_tokens(self, tokens: Mapping[str, Any]) -> Embeddings:
        mask = {"attention_mask": tokens["mask"].to(self._device)} if "mask" in tokens else {}
        return _to_numpy(self._model.get_text_features(input_ids=tokens["ids"].to(self._device), **mask))

    def encode_texts(self, prompts: Sequence[str]) -> Embeddings:
        return self.encode_tokens(self.tokens(prompts))


def _to_numpy(features: Any) -> Embeddings:
    """transformers 5 wraps features in an object, transformers 4 returns the tensor."""
    embeddings = getattr(features, "pooler_output", features)
    return np.asarray(embeddings.float().cpu().numpy(), dtype=np.float32)


def load(found: TransformersFolder, device: Device) -> HfEncoder:
    """Load a folder that the adapter has accepted. Raises ModelError: wrong or missing tensors, NaN, broken configs."""
    model = load_model({"clip": CLIPModel, "siglip": SiglipModel}[found.kind], found)
    with loading(found) as folder:
        processor = AutoImageProcessor.from_pretrained(folder, **LOCAL)
        tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL)
    return HfEncoder(model.to(device.name), processor, tokenizer, device)
