"""The layouts of image-text-to-text models that transformers saves: their classes, and where the picture goes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Device, TransformersFolder, load_parts, naming_folder, not_known, read_config


@dataclass(frozen=True, slots=True)
class Layout:
    """Classes of transformers, and the text that marks the picture in a prompt ("{image_token}" is the processor's).

    `video`: the processor has a part for videos, which is made with its defaults and never used. `first`: the picture
    comes before all text. `line_ends`: the processor ends the prompt with a line break itself. `inner`: the language
    model inside writes, by its own config.
    """

    model: str
    processor: str
    marker: str = "{image_token}"
    video: str | None = None
    first: bool = False
    line_ends: bool = False
    inner: bool = False


_QWEN_VIDEO = "Qwen2VLVideoProcessor"
_QWEN = "<|vision_start|>{image_token}<|vision_end|>"
LAYOUTS: Mapping[str, Layout] = {
    "llava": Layout("LlavaForConditionalGeneration", "LlavaProcessor"),
    "qwen2_vl": Layout("Qwen2VLForConditionalGeneration", "Qwen2VLProcessor", _QWEN, _QWEN_VIDEO),
    "qwen2_5_vl": Layout("Qwen2_5_VLForConditionalGeneration", "Qwen2_5_VLProcessor", _QWEN, _QWEN_VIDEO),
    "paligemma": Layout("PaliGemmaForConditionalGeneration", "PaliGemmaProcessor", first=True, line_ends=True),
    "blip-2": Layout("Blip2ForConditionalGeneration", "Blip2Processor", marker="", first=True, inner=True),
    "internvl": Layout("InternVLForConditionalGeneration", "InternVLProcessor", video="InternVLVideoProcessor"),
    "qwen3_vl": Layout("Qwen3VLForConditionalGeneration", "Qwen3VLProcessor", _QWEN, "Qwen3VLVideoProcessor"),
    "llava_next": Layout("LlavaNextForConditionalGeneration", "LlavaNextProcessor"),
    "llava_onevision": Layout(
        "LlavaOnevisionForConditionalGeneration", "LlavaOnevisionProcessor", video="LlavaOnevisionVideoProcessor"
    ),
    "idefics3": Layout("Idefics3ForConditionalGeneration", "Idefics3Processor"),
    # SmolVLM's own processor writes the same text for a picture, and needs num2words for videos
    "smolvlm": Layout("SmolVLMForConditionalGeneration", "Idefics3Processor"),
}
"""By `model_type` of config.json."""
_NAMING = ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json")
"""Files that name a processor's class, in the order in which the library asks them."""
_OTHER_NAMES = {"smolvlm": "SmolVLMProcessor"}
MAX_IMAGE_TOKENS = 16_384
"""Of one picture: attention needs memory by their square, and the prompt's text is as long."""


def load(folder: TransformersFolder, device: Device) -> tuple[Any, Any]:
    """The model, on the device, and its processor, made of the hashed tokenizer and image processor alone."""
    import transformers

    layout = LAYOUTS[folder.kind]
    processor_class = getattr(transformers, layout.processor, None)
    if processor_class is None:
        raise not_known(folder)
    model, images, tokenizer = load_parts(layout.model, folder, device, casting=True)
    require_one_context(model.config, str(folder.path))
    with naming_folder(folder.path):
        options = processor_options(folder, model.config)
        _require_modest(folder.kind, options, images, str(folder.path))
        if layout.video:
            options["video_processor"] = getattr(transformers, layout.video)()
        return model, processor_class(image_processor=images, tokenizer=tokenizer, **options)


def require_one_context(config: Any, where: str) -> None:
    """Raises ModelError for settings by which transformers' cache forgets tokens that the network's attention sees:
    the library gives a label another likelihood with its cache than without."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    text = config.get_text_config(decoder=True)
    forgets = any(type(layer) is not DynamicLayer for layer in DynamicCache(config=text).layers)
    if forgets and "sliding_window" not in getattr(type(text), "__dataclass_fields__", {}):
        raise ModelError(
            f"the config has a window for the cache (sliding_window or the like), which a {text.model_type} has not.",
            where=where,
            remedy="remove it from config.json: with and without its cache, the library computes two different models",
        )


def require_processor(folder: TransformersFolder) -> None:
    """Raises ModelError for a folder that the library reads with the processor of another architecture."""
    own = LAYOUTS[folder.kind].processor
    for path in (folder.files.paths[name] for name in _NAMING if name in folder.files.paths):
        named = json.loads(path.read_text(encoding="utf-8")).get("processor_class")
        if named in (own, _OTHER_NAMES.get(folder.kind)):
            return
        if named is not None:
            raise ModelError(
                f"pictures and texts are prepared by a {str(named)[:80]}, and a {folder.kind} is read with a {own}.",
                where=str(path),
                remedy="save the model's own processor into the folder: processor.save_pretrained(FOLDER)",
            )


def _require_modest(kind: str, options: Mapping[str, Any], images: Any, where: str) -> None:
    """Raises ModelError for settings that make a text of very many image tokens for a picture."""
    most = _most_tokens(kind, options, images)
    if most is None or not 0 < most <= MAX_IMAGE_TOKENS:
        raise ModelError(
            f"the settings make {'no number of' if most is None else f'{most:,}'} tokens of a picture; at most "
            f"{MAX_IMAGE_TOKENS:,} are read.",
            where=where,
            remedy="check processor_config.json (patch_size, image_seq_len, ...) and the size of pictures; published "
            "models have 8,000 at most",
        )


def _most_tokens(kind: str, options: Mapping[str, Any], images: Any) -> int | None:
    """Tokens of one picture at most; None for settings of which there is none. Layouts that are not listed here are
    bounded by their number of pixels or of tiles."""
    try:
        if kind in ("llava", "llava_next"):
            canvas, side = getattr(images, "image_grid_pinpoints", None) or [], max(_sides(images), default=0)
            own, *others = (_grid(grid, options["patch_size"]) for grid in ((side, side), *canvas))
            return own + max(others, default=0)
        if kind == "llava_onevision":
            tiles = re.fullmatch(r"anyres_max_(\d{1,2})", str(options["vision_aspect_ratio"]))
            return None if tiles is None else (int(tiles[1]) + 2) * _whole(options["num_image_tokens"])
        if kind in ("idefics3", "smolvlm"):
            longest, tile = (_whole(dict(size)["longest_edge"]) for size in (images.size, images.max_image_size))
            rows = -(-longest // tile) if images.do_image_splitting else 0
            return (rows**2 + 1) * (_whole(options["image_seq_len"]) + 3)  # with the marks around each tile
    except (TypeError, ValueError, KeyError, ZeroDivisionError, AttributeError):
        return None
    return 1


def _whole(number: Any) -> int:
    if not isinstance(number, int):
        raise TypeError(number)
    return number


def _sides(images: Any) -> list[int]:
    return [_whole(side) for size in (images.size, images.crop_size) for side in dict(size or {}).values() if side]


def _grid(sides: Sequence[int], patch: int) -> int:
    """Patches of a canvas, with one more in each row for its end."""
    high, wide = (_whole(side) // _whole(patch) for side in sides)
    return high * (wide + 1)


def processor_options(folder: TransformersFolder, config: Any) -> dict[str, Any]:
    """The options of a processor besides its parts: from processor_config.json, else as the model's config implies."""
    if folder.kind in ("llava", "llava_next"):
        vision = config.vision_config
        implied = {
            "patch_size": vision.patch_size,
            "vision_feature_select_strategy": config.vision_feature_select_strategy,
            "num_additional_image_tokens": int(vision.model_type == "clip_vision_model"),  # its class token
        }
    elif folder.kind == "llava_onevision":
        vision = config.vision_config
        implied = {
            "num_image_tokens": (vision.image_size // vision.patch_size) ** 2,
            "vision_feature_select_strategy": config.vision_feature_select_strategy,
            "vision_aspect_ratio": config.vision_aspect_ratio,
        }
    elif folder.kind in ("idefics3", "smolvlm"):
        vision = config.vision_config
        implied = {"image_seq_len": (vision.image_size // vision.patch_size) ** 2 // config.scale_factor**2}
    elif folder.kind == "internvl":
        implied = {"image_seq_length": config.image_seq_length}
    elif folder.kind == "blip-2":
        implied = {"num_query_tokens": config.num_query_tokens}
    else:
        implied = {}
    path = folder.files.paths.get("processor_config.json")
    written = read_config(path) if path and implied else {}  # without: Qwen-VL's sizes are numbers of pixels
    return {name: written.get(name, value) for name, value in implied.items()}
