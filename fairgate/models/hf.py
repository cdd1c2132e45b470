"""`hf:FOLDER`: a CLIP, SigLIP, SigLIP 2, Chinese-CLIP, ALIGN or FLAVA that transformers saved.

Local files, safetensors, no code from the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    IMAGE_CONFIGS,
    MAX_SIDE,
    Checkpoint,
    Device,
    Encoder,
    TransformersFolder,
    code_of,
    find_folder,
    load_parts,
    plain_note,
    read_config,
    split_options,
    versions,
)
from fairgate.models.contract import Capability, Request, register
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import folder_tokenizer, image_class, preprocessing_digest
from fairgate.models.isolated import isolated_towers
from fairgate.models.two_towers import TwoTowers

if TYPE_CHECKING:
    import torch

_HEADS = ("image_codebook.", "mim_head.", "mlm_head.", "itm_head.", "mmm_image_head.", "mmm_text_head.")
"""What FLAVA's pretraining adds to the two towers that were trained to agree; its checkpoints hold all of it."""


@dataclass(frozen=True, slots=True)
class _Towers:
    """A class of transformers, and how its processor reads prompts. `longest`: tokens at most, where the text tower
    takes more than it was trained with. `mask`: whether it is told which tokens only fill up. `unused`: weights that
    the towers do without. `first`: its features are of every token, and the first one's were trained to agree."""

    model: str
    longest: int | None = None
    mask: bool = True
    unused: tuple[str, ...] = ()
    first: bool = False


_TOWERS: Mapping[str, _Towers] = {
    "clip": _Towers("CLIPModel"),
    "siglip": _Towers("SiglipModel", mask=False),  # trained on prompts that are padded to the full length
    "siglip2": _Towers("Siglip2Model", longest=64, mask=False),
    "chinese_clip": _Towers("ChineseCLIPModel", longest=52),
    "align": _Towers("AlignModel", longest=64),
    "flava": _Towers("FlavaModel", longest=77, unused=_HEADS, first=True),
}
"""By `model_type` of config.json."""
_OF_TEXTS = ("text_model.", "text_projection.", "logit_scale", "logit_bias", "temperature")
"""How names of tensors begin that no features of pictures depend on."""
_NOT_SEEN = frozenset({"text_config", "_name_or_path", "transformers_version", "torch_dtype", "dtype"})
"""Keys of a config that do not concern them either; the type of numbers is that of the loaded tensors."""
_MOST_PIXELS = 1 << 24  # of a NaFlex picture; 256 patches of 16 x 16 as published are 65,536
CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other embeddings for the same files


@register
class HuggingFace(FolderFamily):
    """Folders that transformers saved."""

    scheme: ClassVar[str] = "hf"
    forms: ClassVar[tuple[str, ...]] = ("hf:FOLDER",)
    capabilities: ClassVar[frozenset[Capability]] = TwoTowers.capabilities
    ending = "Model"
    parts = ("text_config", "vision_config")

    def open(self, request: Request) -> TwoTowers:
        """Find and hash a folder. Raises ModelError; loading waits until an embedding is needed."""
        named, options = split_options(request.uri, request.address, ("processor",))
        found = self.found(request, named, options, _TOWERS)
        return TwoTowers(_checkpoint(found), request, plain_note(found))


def checkpoint_to_use(folder: Path) -> Checkpoint:
    """A model in a folder that was accepted, hashed and not loaded, to be used and not judged: without safetensors, a
    `pytorch_model.bin` will do, which is read with `weights_only`. Raises ModelError."""
    return _checkpoint(find_folder(folder, tuple(_TOWERS), pickled=True))


def _checkpoint(found: TransformersFolder) -> Checkpoint:
    libraries = versions("transformers", "tokenizers", "torch", "torchvision", "pillow", *found.packages)
    lower = _lower_cased(found)
    code = f"{CODE_VERSION} lower-cased" if lower else code_of(found, CODE_VERSION)
    identity = {"adapter": "hf", "code": code, "libraries": libraries}
    text = found.config.get("text_config")
    length = text.get("max_position_embeddings") if isinstance(text, dict) else None
    tokenizer = folder_tokenizer(found, length=length, **({"lower": True} if lower else {}))
    pictures = preprocessing_digest(found.named(IMAGE_CONFIGS), adapter="hf", **image_class(found.config))
    load = isolated_towers if found.plain else _load
    return Checkpoint(found.fingerprint, identity, partial(load, found), tokenizer, pictures)


def _lower_cased(found: TransformersFolder) -> bool:
    """Whether it is a SigLIP 2 of fixed size: it was trained on lower-cased prompts, and its tokenizer, Gemma's, leaves
    them as they are (that of NaFlex lowers them itself)."""
    config = found.files.paths.get("tokenizer_config.json")
    named = read_config(config).get("tokenizer_class") if config else None
    return found.kind == "siglip" and str(named).startswith("Gemma")


def _load(found: TransformersFolder, device: Device) -> Encoder:
    from fairgate.models.checkpoints import encoder_of, of_processor, tower_digest

    towers, naflex, lower = _TOWERS[found.kind], found.kind == "siglip2", _lower_cased(found)
    model, processor, tokenizer = load_parts(towers.model, found, device, unused=towers.unused)
    config = model.config.text_config
    length = min(int(config.max_position_embeddings), towers.longest or MAX_SIDE)
    options = {"padding": "max_length", "truncation": True, "max_length": length}

    seen = {name: value for name, value in found.config.items() if name not in _NOT_SEEN}

    def tokens(prompts: Sequence[str]) -> Mapping[str, Any]:
        written = [prompt.lower() if lower else prompt for prompt in prompts]
        cut = tokenizer(written, return_tensors="pt", **options)
        return {"ids": cut["input_ids"], **({"mask": cut["attention_mask"]} if towers.mask else {})}

    def texts(given: Mapping[str, Any]) -> torch.Tensor:
        mask = {"attention_mask": given["mask"]} if "mask" in given else {}
        return _features(model.get_text_features(input_ids=given["ids"], **mask), towers.first)

    def images(pixels: torch.Tensor) -> torch.Tensor:
        given = _unpacked(pixels) if naflex else {"pixel_values": pixels}
        return _features(model.get_image_features(**given), towers.first)

    return encoder_of(
        model,
        device,
        vocabulary=int(config.vocab_size),
        prepare=_naflex(processor, found) if naflex else of_processor(processor),
        images=images,
        tokens=tokens,
        texts=texts,
        scale=1 / float(model.temperature.detach()) if found.kind == "align" else None,
        words=model.text_model.embeddings.token_embedding if found.kind == "clip" else None,
        tower=partial(tower_digest, model, lambda name: not name.startswith(_OF_TEXTS), seen),
    )


def _naflex(processor: Any, found: TransformersFolder) -> Callable[[Any], torch.Tensor]:
    """Prepares a picture in its own shape: its patches, then whether each is one, then rows and columns of patches, as
    columns of one tensor (patches, 3 * side * side + 3), so that pictures of all shapes make a batch."""
    import torch

    if not 0 < processor.max_num_patches * processor.patch_size**2 <= _MOST_PIXELS:
        raise ModelError(
            f"pictures of {processor.max_num_patches:,} patches with {processor.patch_size:,} pixels a side are larger "
            f"than {_MOST_PIXELS:,} pixels.",
            where=str(found.path),
            remedy="check max_num_patches and patch_size of the image processor; 256 and 16 as published",
        )

    def prepare(image: Any) -> torch.Tensor:
        made = processor(images=image, return_tensors="pt")
        patches, is_one = made["pixel_values"][0].float(), made["pixel_attention_mask"][0].float()
        shape = made["spatial_shapes"][0].float().expand(len(patches), 2)
        return torch.cat([patches, is_one[:, None], shape], dim=1)

    return prepare


def _unpacked(prepared: torch.Tensor) -> dict[str, torch.Tensor]:
    """A batch of what `_naflex` prepares, as the model takes it."""
    is_one, shape = prepared[..., -3].long(), prepared[:, 0, -2:].long()
    return {"pixel_values": prepared[..., :-3], "pixel_attention_mask": is_one, "spatial_shapes": shape}


def _features(output: Any, first: bool) -> torch.Tensor:
    """transformers 5 wraps features in an object, transformers 4 returns the tensor. FLAVA's are of every token:
    those of the `first` were trained to agree."""
    features: torch.Tensor = getattr(output, "pooler_output", output)
    return features[:, 0] if first else features
