"""`hf:FOLDER`: a CLIP, SigLIP or FLAVA that transformers saved. Local files, safetensors, no code from the folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fairgate.checkpoints import (
    IMAGE_CONFIGS,
    LOCAL,
    TOKENIZER_FILES,
    Checkpoint,
    Device,
    Encoder,
    TransformersFolder,
    find_folder,
    load_model,
    loading,
    require_folder,
    resolve,
    versions,
)
from fairgate.models.contract import Capability, Request, register
from fairgate.models.reading import preprocessing_digest, tokenizer_class, tokenizer_digest
from fairgate.models.two_towers import TwoTowers

if TYPE_CHECKING:
    import torch

_CLASSES = {"clip": "CLIPModel", "siglip": "SiglipModel", "flava": "FlavaModel"}
_HEADS = ("image_codebook.", "mim_head.", "mlm_head.", "itm_head.", "mmm_image_head.", "mmm_text_head.")
"""What FLAVA's pretraining adds to the two towers that were trained to agree; its checkpoints hold all of it."""
_FLAVA_LENGTH = 77  # tokens of a prompt as in its processor's examples; the tower takes 512
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


def checkpoint(folder: Path, *, pickled: bool = False) -> Checkpoint:
    """A model in a folder that `require_folder` has accepted, hashed and not loaded. Raises ModelError.

    With `pickled`, a `pytorch_model.bin` will do where there are no safetensors: it is read with `weights_only`.
    """
    found = find_folder(folder, tuple(_CLASSES), pickled=pickled)
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
    import transformers
    from transformers import AutoImageProcessor, AutoTokenizer

    from fairgate.checkpoints import encoder_of

    found.files.require_unchanged()
    flava = found.kind == "flava"
    unused = _HEADS if flava else ()
    model = load_model(getattr(transformers, _CLASSES[found.kind]), found, unused=unused).to(device.name)
    with loading(found) as folder:
        processor = AutoImageProcessor.from_pretrained(folder, **LOCAL)
        tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL)
    config = model.config.text_config
    length = int(config.max_position_embeddings)
    length = min(length, _FLAVA_LENGTH) if flava else length
    options = {"padding": "max_length", "truncation": True, "max_length": length}

    def tokens(prompts: Sequence[str]) -> Mapping[str, Any]:
        cut = tokenizer(list(prompts), return_tensors="pt", **options)
        # SigLIP was trained without a mask, on prompts padded to the full length
        return {"ids": cut["input_ids"], **({"mask": cut["attention_mask"]} if found.kind != "siglip" else {})}

    def texts(given: Mapping[str, Any]) -> torch.Tensor:
        mask = {"attention_mask": given["mask"]} if "mask" in given else {}
        return _features(model.get_text_features(input_ids=given["ids"], **mask), flava)

    return encoder_of(
        model,
        device,
        vocabulary=int(config.vocab_size),
        prepare=lambda image: processor(images=image, return_tensors="pt")["pixel_values"][0],
        images=lambda pixels: _features(model.get_image_features(pixel_values=pixels), flava),
        tokens=tokens,
        texts=texts,
        words=model.text_model.embeddings.token_embedding if found.kind == "clip" else None,
    )


def _features(output: Any, first: bool) -> torch.Tensor:
    """transformers 5 wraps features in an object, transformers 4 returns the tensor. FLAVA's are of every token:
    those of the `first` were trained to agree."""
    features: torch.Tensor = getattr(output, "pooler_output", output)
    return features[:, 0] if first else features
