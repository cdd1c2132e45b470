"""A model is a closed folder: names in its configs that lead out of it, or to a hub, are refused before loading; and so
are zip archives, as torch saves checkpoints, that unpack to far more than themselves, or can be read in two ways."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError

_HARMLESS = frozenset({"special_tokens_map_file"})
"""transformers wrote where it had read this from, often a path of somebody's home, and never reads it again."""

_CODE = frozenset({"auto_map", "trust_remote_code", "custom_pipelines"})
_NAMED = frozenset({"repo_path", "init_inputs", "subfolder", "tokenizer_object", "fast_tokenizer_files"})
_BUILT_BY_NAME = frozenset({"architecture", "model_args", "checkpoint_path", "backbone"})
"""What has timm or a hub make a part of a model: transformers' timm_wrapper and timm_backbone read them."""
_IMAGE_PROCESSORS = re.compile(
    r"(CLIP|ChineseCLIP|Siglip2?|ViT|DeiT|Bit|ConvNext|Vilt|Sam\d?|Sam2Video|GroundingDino|DINOv3ViT|EfficientNet|"
    r"Flava|Detr|ConditionalDetr|DeformableDetr|RTDetr|Yolos|OwlViT|Owlv2)"
    r"(ImageProcessor|FeatureExtractor)(Fast|Pil)?"
)
_TOKENIZER_OPTIONS = frozenset(
    {
        *("clean", "strip_sep_token", "language", "additional_special_tokens", "add_prefix_space", "do_lower_case"),
        *("padding_side", "truncation_side", "legacy", "use_fast"),
    }
)
_TEXT_TOWERS = ("bert", "roberta", "xlm-roberta", "mt5", "m2m_100")
"""Text models that open_clip can use as a text tower; none of them loads a part by its name."""
_SAM2 = tuple(f"sam2_{part}" for part in ("vision_model", "hiera_det_model", "prompt_encoder", "mask_decoder"))
_PARTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("grounding-dino", "mm-grounding-dino"), ("swin", "bert")),
    "detr": ("resnet",),
    "conditional_detr": ("resnet",),
    "deformable_detr": ("resnet", "swin"),
    "rt_detr": ("rt_detr_resnet",),
    "rt_detr_v2": ("rt_detr_resnet",),
    "d_fine": ("hgnet_v2",),
    "yolos": (),
    "owlvit": ("owlvit_vision_model", "owlvit_text_model"),
    "owlv2": ("owlv2_vision_model", "owlv2_text_model"),
    "sam2": _SAM2,
    "sam2_video": (*_SAM2, "sam2_video_prompt_encoder", "sam2_video_mask_decoder"),
}
"""Of models whose parts transformers builds by the parts' own `model_type`: the types that config.json describes whole.
The parts of all other models are of fixed classes."""


def require_closed(config: Any, where: str, named: Collection[str] = ()) -> None:
    """Raises ModelError when a config, at any depth, would have a library run code that ships with the model, read a
    file by name, or query a hub. Keys that are `named` may hold what builds a part by its name: whoever reads them
    checks them."""
    require_no_code(config, where)
    for key, value in entries(config):
        if not value:
            continue
        if key in _NAMED or (key.endswith("_file") and key not in _HARMLESS):
            raise _leaves(key, value, where, "remove the key: libraries find a folder's files by their usual names")
        by_timm = key == "model_type" and str(value).startswith("timm_") and "architecture" not in named
        if (key in _BUILT_BY_NAME and key not in named) or by_timm:
            raise _leaves(key, value, where, "use a model whose parts config.json describes: none is built by its name")
        if "_implementation" in key and "/" in str(value):  # of attention and experts: a kernel, by its name on the hub
            raise _leaves(key, value, where, "remove the key: kernels from a hub are not loaded")
        if key in ("image_processor_type", "feature_extractor_type") and not _IMAGE_PROCESSORS.fullmatch(str(value)):
            raise ModelError(
                f"images are prepared by a {str(value)[:80]}, which fairgate does not use: some read files by name.",
                where=where,
                remedy="save the model's own processor (CLIPImageProcessor, SiglipImageProcessor) into the folder",
            )


def require_no_code(config: Any, where: str, _: Collection[str] = ()) -> None:
    """Raises ModelError for a config that, at any depth, names code that ships with the model, or has a library round
    the weights as the device can: all that has to be refused of a model which an isolated process opens."""
    table = "a table of its answers always works: answers:, labels:, detections: or scores:FILE"
    for key, value in entries(config):
        if value and key in _CODE:
            raise ModelError(
                f"the config names code of its own ('{key}'), which fairgate does not run.",
                where=where,
                remedy=f"use a checkpoint whose architecture the library knows, and remove the key; {table}",
            )
        if value and key == "quantization_config":
            raise ModelError(
                "the weights are quantized ('quantization_config'), and the code for that may come from a hub.",
                where=where,
                remedy=f"save the model dequantized, without the key; {table}",
            )


def require_closed_towers(config: dict[str, Any], where: str) -> None:
    """Raises ModelError for an open_clip config whose towers or tokenizer would be looked up outside of its folder.

    Names of timm are architectures of the library, which are built without weights; the tokenizer's name is ignored,
    as open_clip does for a folder: its files are those of the folder.
    """
    vision, text = config.get("vision_cfg") or {}, config.get("text_cfg") or {}
    trunk = vision.get("timm_model_name")
    if trunk and not (isinstance(trunk, str) and re.fullmatch(r"\w+(\.\w+)?", trunk)):
        raise _leaves("timm_model_name", trunk, where, "name an architecture of timm, such as convnext_base")
    options = text.get("tokenizer_kwargs") or {}
    options = options if isinstance(options, dict) else {"tokenizer_kwargs": options}
    if unknown := sorted(set(options) - _TOKENIZER_OPTIONS):
        remedy = f"remove it; options that are passed on: {', '.join(sorted(_TOKENIZER_OPTIONS))}"
        raise _leaves(f"tokenizer_kwargs.{unknown[0]}", options[unknown[0]], where, remedy)


def require_text_tower(config: dict[str, Any], where: str) -> None:
    """Raises ModelError unless a config of transformers describes a text tower that open_clip builds without names."""
    kind = config.get("model_type")
    if kind not in _TEXT_TOWERS:
        raise ModelError(
            f"the text tower is of type '{str(kind)[:80]}', which open_clip does not build.",
            where=where,
            remedy=f"types it knows: {', '.join(_TEXT_TOWERS)}",
        )


def require_known_parts(config: Mapping[str, Any], where: str) -> None:
    """Raises ModelError for a config of transformers with a part, at any depth, of a type that its model does not have.

    A type may be one that reads files by name, or asks a hub.
    """
    known = _PARTS.get(str(config.get("model_type")))
    for key, value in entries({name: part for name, part in config.items() if name != "model_type"}):
        if known is not None and key == "model_type" and value not in (None, *known):
            raise ModelError(
                f"a part is of type '{str(value)[:80]}', which fairgate does not build into a {config['model_type']}.",
                where=where,
                remedy=f"types it knows there: {', '.join(known)}",
            )


def entries(config: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth; the items of a list under the list's key."""
    pending: list[tuple[str, Any]] = [("", config)]
    while pending:  # a loop: a config may be nested deeper than Python calls
        key, value = pending.pop()
        yield key, value
        if isinstance(value, dict):
            pending += value.items()
        elif isinstance(value, list):
            pending += ((key, item) for item in value)


def _leaves(key: str, value: Any, where: str, remedy: str) -> ModelError:
    return ModelError(
        f"the config names '{str(value)[:80]}' as '{key}', which could be read from outside of the model's folder or "
        "from a hub.",
        where=where,
        remedy=remedy,
    )


def damaged(path: Path, reason: str) -> ModelError:
    """The error for a file of weights that is not as it was written."""
    fault = f"the {path.suffix.removeprefix('.') or 'checkpoint'} file is truncated or damaged ({reason})."
    return ModelError(fault, where=str(path), remedy="save or download it again, best as .safetensors")


_SPARE_BYTES = 64 << 20  # the code in a TorchScript archive is compressed


def is_archive(path: Path) -> bool:
    """Whether a file says that it is a zip archive, a broken one too."""
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":  # torch goes by it; some releases of Python do not call a broken one a zip
            return True
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # one that spans several disks, say
        return True


def require_uncompressed(path: Path) -> None:
    """Raises ModelError for a zip archive that unpacks to far more than itself: torch compresses no tensor."""
    _require_one_directory(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise damaged(path, str(error)) from error
    unpacked, size = sum(entry.file_size for entry in entries), path.stat().st_size
    if unpacked > size + _SPARE_BYTES:
        raise ModelError(
            f"the archive of {size:,} bytes unpacks to {unpacked:,}.",
            where=str(path),
            remedy="save it with torch.save, which compresses no tensor, or better as .safetensors",
        )


def _require_one_directory(path: Path) -> None:
    """Raises ModelError for an archive whose list of files is not right before its end, as torch writes it.

    Python looks for the list there, torch where the end record says: the sizes that were checked would be another's.
    """
    length = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(length - 98, 0))
        tail = file.read().rjust(98, b"\0")
    record, locator, end = tail[:56], tail[56:76], tail[76:]
    size, offset = struct.unpack("<II", end[12:20])
    start, agree = length - 22, end.startswith(b"PK\x05\x06") and end.endswith(b"\0\0")  # and no comment
    if locator.startswith(b"PK\x06\x07"):
        start -= 76
        agree &= record.startswith(b"PK\x06\x06") and struct.unpack("<Q", locator[8:16])[0] == start
        wide = struct.unpack("<QQ", record[40:])
        agree &= all(small in (large, 0xFFFFFFFF) for small, large in zip((size, offset), wide, strict=True))
        size, offset = wide
    if not agree or offset + size != start:
        raise damaged(path, "the archive's list of files is not at its end")
