"""`hf:FOLDER`: a CLIP, SigLIP, SigLIP 2, Chinese-CLIP, ALIGN or FLAVA that transformers saved.

Local files, safetensors, no code from the folder.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.models import checkpoints
from fairgate.models.checkpoints import Checkpoint, Device, Encoder, TransformersFolder
from fairgate.models.contract import Capability, Request, register
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import folder_tokenizer, image_class, preprocessing_digest
from fairgate.models.isolated import isolated_towers
from fairgate.models.two_towers import TwoTowers, unit

if TYPE_CHECKING:
    import torch

_HEADS = ("image_codebook.", "mim_head.", "mlm_head.", "itm_head.", "mmm_image_head.", "mmm_text_head.")
"""What FLAVA's pretraining adds to the two towers that were trained to agree; its checkpoints hold all of it."""


@dataclass(frozen=True, slots=True)
class _Towers:
    """How a type's processor reads prompts, and its towers. `longest`: tokens at most, where the text tower
    takes more than it was trained with. `mask`: whether it is told which tokens only fill up. `unused`: weights that
    the towers do without. `first`: its features are of every token, and the first one's were trained to agree."""

    longest: int | None = None
    mask: bool = True
    unused: tuple[str, ...] = ()
    first: bool = False


_TOWERS: Mapping[str, _Towers] = {
    "clip": _Towers(),
    "siglip": _Towers(mask=False),  # trained on prompts that are padded to the full length
    "siglip2": _Towers(longest=64, mask=False),
    "chinese_clip": _Towers(longest=52),
    "align": _Towers(longest=64),
    "flava": _Towers(longest=77, unused=_HEADS, first=True),
}
"""By `model_type` of config.json."""
_OF_TEXTS = ("text_model.", "text_projection.", "logit_scale", "logit_bias", "temperature")
"""How names of tensors begin that no features of pictures depend on."""
_NOT_SEEN = frozenset({"text_config", "_name_or_path", "transformers_version", "torch_dtype", "dtype"})
"""Keys of a config that do not concern them either; the type of numbers is that of the loaded tensors."""
_TRIED_PROMPTS = ("a photo of a person", "a", "two dogs that play in the snow near a red house", "an engineer")
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
        named, options = checkpoints.split_options(request.uri, request.address, ("processor",))
        found = self.found(request, named, options, _TOWERS)
        return TwoTowers(_checkpoint(found), request, checkpoints.plain_note(found))


def checkpoint_to_use(folder: Path) -> Checkpoint:
    """A model in a folder that was accepted, hashed and not loaded, to be used and not judged: without safetensors, a
    `pytorch_model.bin` will do, which is read with `weights_only`. Raises ModelError."""
    return _checkpoint(checkpoints.find_folder(folder, tuple(_TOWERS), pickled=True))


def _checkpoint(found: TransformersFolder) -> Checkpoint:
    libraries = checkpoints.versions("transformers", "tokenizers", "torch", "torchvision", "pillow", *found.packages)
    lower = _lower_cased(found)
    code = f"{CODE_VERSION} lower-cased" if lower else checkpoints.code_of(found, CODE_VERSION)
    identity = {"adapter": "hf", "code": code, "libraries": libraries}
    text = found.config.get("text_config")
    length = text.get("max_position_embeddings") if isinstance(text, dict) else None
    tokenizer = folder_tokenizer(found, length=length, **({"lower": True} if lower else {}))
    pictures = preprocessing_digest(found.named(checkpoints.IMAGE_CONFIGS), adapter="hf", **image_class(found.config))
    load = partial(isolated_towers, load_towers) if found.plain else load_towers
    return Checkpoint(found.fingerprint, identity, partial(load, found), tokenizer, pictures)


def _lower_cased(found: TransformersFolder) -> bool:
    """Whether it is a SigLIP 2 of fixed size: it was trained on lower-cased prompts, and its tokenizer, Gemma's, leaves
    them as they are (that of NaFlex lowers them itself)."""
    config = found.files.paths.get("tokenizer_config.json")
    named = checkpoints.read_config(config).get("tokenizer_class") if config else None
    return found.kind == "siglip" and str(named).startswith("Gemma")


def load_towers(found: TransformersFolder, device: Device) -> Encoder:
    """Two towers, by the library's features of pictures and texts; a plain folder's only in the process that is for it.

    Raises ModelError for a plain model without them, and for one whose own logits are not a scale times the cosine of
    its features, plus a bias.
    """
    towers, name = _TOWERS.get(found.kind, _Towers()), checkpoints.class_of_task(found, "MODEL_MAPPING")
    naflex, lower = found.kind == "siglip2", _lower_cased(found)
    model, processor, tokenizer = checkpoints.load_parts(name, found, device, unused=towers.unused)
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        raise _no_towers(found, f"{type(model).__name__} gives no features of pictures and of texts")
    config = model.config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", checkpoints.MAX_SIDE), towers.longest or checkpoints.MAX_SIDE]
    length = int(min(limits + [tokenizer.model_max_length] * found.plain))
    takes = frozenset(inspect.signature(model.get_text_features).parameters) if found.plain else {"attention_mask"}
    seen = {name: value for name, value in found.config.items() if name not in _NOT_SEEN}

    def tokens(prompts: Sequence[str]) -> Mapping[str, Any]:
        written = [prompt.lower() if lower else prompt for prompt in prompts]
        cut = tokenizer(written, return_tensors="pt", padding="max_length", truncation=True, max_length=length)
        more = takes & cut.keys() - {"input_ids"} if towers.mask else ()
        return {"ids": cut["input_ids"], **{name: cut[name] for name in more}}

    def texts(given: Mapping[str, Any]) -> torch.Tensor:
        more = {name: given[name] for name in given if name != "ids"}
        return of_first(model.get_text_features(input_ids=given["ids"], **more))

    def images(pixels: torch.Tensor) -> torch.Tensor:
        return of_first(model.get_image_features(**(_unpacked(pixels) if naflex else {"pixel_values": pixels})))

    def of_first(output: Any) -> torch.Tensor:
        features = checkpoints.pooled(output)
        return features[:, 0] if towers.first else features

    scale = 1 / float(model.temperature.detach()) if found.kind == "align" else None
    encoder = checkpoints.encoder_of(
        model,
        device,
        vocabulary=int(config.vocab_size),
        prepare=_naflex(processor) if naflex else checkpoints.of_processor(processor),
        images=images,
        tokens=tokens,
        texts=texts,
        scale=1.0 if found.plain and not hasattr(model, "logit_scale") else scale,
        words=model.text_model.embeddings.token_embedding if found.kind == "clip" else None,
        tower=partial(checkpoints.tower_digest, model, lambda name: not name.startswith(_OF_TEXTS), seen),
    )
    if found.plain:
        with checkpoints.scoring(device):
            _require_own_logits(model, encoder, found, device)
    return encoder


def _require_own_logits(model: Any, encoder: Encoder, found: TransformersFolder, device: Device) -> None:
    """Raises ModelError unless the library's forward pass gives the encoder's logits on some pictures and prompts."""
    pictures = [encoder.prepare(picture) for picture in checkpoints.trial_pictures()]
    tokens = {name: value.to(device.name) for name, value in encoder.tokens(_TRIED_PROMPTS).items()}
    ids = tokens.pop("ids")
    outputs = model(input_ids=ids, pixel_values=checkpoints.on_device(pictures, device), **tokens)
    logits = getattr(outputs, "logits_per_image", None)
    if logits is None:
        raise _no_towers(found, f"{type(model).__name__} does not say how alike pictures and texts are")
    wanted = logits.float().cpu().numpy()
    shown, said = encoder.encode_images(pictures), encoder.encode_tokens({"ids": ids, **tokens})
    cosines = unit(shown.astype(np.float64)) @ unit(said.astype(np.float64)).T
    ours = encoder.scale * cosines + encoder.bias
    most = checkpoints.TRIAL_TOLERANCE[device.precision] * np.abs(wanted).max()
    if wanted.shape != ours.shape or not np.abs(ours - wanted).max() <= most:
        raise _no_towers(found, "its own logits are not those of its features: a scale times their cosine, plus a bias")


def _no_towers(found: TransformersFolder, reason: str) -> ModelError:
    return ModelError(
        f"the {found.kind[:80]} cannot be judged as two towers: {reason}.",
        where=str(found.path),
        remedy="judge a table of its scores: scores:FILE?values=cosine",
    )


def _naflex(processor: Any) -> Callable[[Any], torch.Tensor]:
    """Prepares a picture in its own shape: its patches, then whether each is one, then rows and columns of patches, as
    columns of one tensor (patches, 3 * side * side + 3), so that pictures of all shapes make a batch."""
    import torch

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
