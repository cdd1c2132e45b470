"""`hf:FOLDER`: a CLIP or SigLIP that transformers saved. Local files, safetensors, and no code from the folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairgate.checkpoints import (
    IMAGE_CONFIGS,
    LOCAL,
    TOKENIZER_FILES,
    Checkpoint,
    Device,
    Embeddings,
    Encoder,
    TransformersFolder,
    find_folder,
    load_model,
    loading,
    require_folder,
    resolve,
    versions,
)
from fairgate.models.contract import Capability, Request
from fairgate.models.reading import preprocessing_digest, tokenizer_class, tokenizer_digest
from fairgate.models.registry import register
from fairgate.models.two_towers import TwoTowers

if TYPE_CHECKING:
    import torch

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other embeddings for the same files


@register
class HuggingFace:
    """Folders that transformers saved."""

    scheme: ClassVar[str] = "hf"
    forms: ClassVar[tuple[str, ...]] = ("hf:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = TwoTowers.capabilities

    def local_path(self, address: str) -> Path | None:
        """The folder."""
        return Path(address)

    def open(self, request: Request) -> TwoTowers:
        """Find and hash a folder. Raises ModelError; loading waits until an embedding is needed."""
        folder = resolve(request.address, request.base)
        require_folder(folder)
        return TwoTowers(checkpoint(folder), request)


def checkpoint(folder: Path) -> Checkpoint:
    """A CLIP or SigLIP in a folder that `require_folder` has accepted, hashed and not loaded. Raises ModelError."""
    found = find_folder(folder, ("clip", "siglip"))
    libraries = versions("transformers", "tokenizers", "torch", "torchvision", "pillow")
    identity = {"adapter": "hf", "code": CODE_VERSION, "libraries": libraries}
    texts = [path for name, path in found.files.paths.items() if name in TOKENIZER_FILES]
    text = found.config.get("text_config")
    length = text.get("max_position_embeddings") if isinstance(text, dict) else None
    decided = {name: value for name, value in tokenizer_class(found.config).items() if name != "model_type"}
    tokenizer = tokenizer_digest(texts, kind=found.kind, length=length, **decided)
    pictures = [path for name, path in found.files.paths.items() if name in IMAGE_CONFIGS]
    return Checkpoint(
        found.fingerprint, identity, partial(_load, found), tokenizer, preprocessing_digest(pictures, adapter="hf")
    )


def _load(found: TransformersFolder, device: Device) -> Encoder:
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel, SiglipModel

    found.files.require_unchanged()
    model = load_model({"clip": CLIPModel, "siglip": SiglipModel}[found.kind], found)
    with loading(found) as folder:
        processor = AutoImageProcessor.from_pretrained(folder, **LOCAL)
        tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL)
    return HfEncoder(model.to(device.name), processor, tokenizer, device)


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
        import torch

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


def _to_numpy(features: Any) -> Embeddings:
    """transformers 5 wraps features in an object, transformers 4 returns the tensor."""
    embeddings = getattr(features, "pooler_output", features)
    return np.asarray(embeddings.float().cpu().numpy(), dtype=np.float32)
