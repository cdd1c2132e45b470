"""The layouts of image-text-to-text models that transformers saves: their classes, and where the picture goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairgate.checkpoints import LOCAL, Device, TransformersFolder, load_model, loading
from fairgate.errors import ModelError


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
}
"""By `model_type` of config.json."""
MAX_IMAGE_TOKENS = 16_384
"""Of one picture: attention needs memory by their square, and the prompt's text is as long."""


def load(found: TransformersFolder, device: Device) -> tuple[Any, Any]:
    """The model, on the device, and its processor, made of the hashed tokenizer and image processor alone."""
    import transformers

    layout = LAYOUTS[found.kind]
    model_class, processor_class = (getattr(transformers, name, None) for name in (layout.model, layout.processor))
    if model_class is None or processor_class is None:
        raise ModelError(
            f"the installed transformers ({transformers.__version__}) does not know a {found.kind}.",
            where=str(found.path),
            remedy="install a newer one: `pip install --upgrade transformers`",
        )
    found.files.require_unchanged()
    model = load_model(model_class, found).to(device.name)
    with loading(found) as folder:
        images = transformers.AutoImageProcessor.from_pretrained(folder, **LOCAL)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL)
        options = processor_options(found, model.config)
        _require_modest(options.get("patch_size"), images, str(found.path))
        if layout.video:
            options["video_processor"] = getattr(transformers, layout.video)()
        return model, processor_class(image_processor=images, tokenizer=tokenizer, **options)


def _require_modest(patch: int | None, images: Any, where: str) -> None:
    """Raises ModelError for a LLaVA whose settings make a text of very many image tokens for a picture."""
    if patch is None:
        return
    sides = [side for size in (images.size, images.crop_size) for side in dict(size or {}).values() if side]
    if patch < 1 or (max(sides, default=0) // patch) ** 2 > MAX_IMAGE_TOKENS:
        raise ModelError(
            f"pictures with a side of {max(sides, default=0):,} pixels in patches of {patch} make more than "
            f"{MAX_IMAGE_TOKENS:,} tokens.",
            where=where,
            remedy="check patch_size in processor_config.json, and the size of pictures; published models have 576",
        )


def processor_options(found: TransformersFolder, config: Any) -> dict[str, Any]:
    """The options of a processor besides its parts: from processor_config.json, else as the model's config implies."""
    from fairgate.checkpoints import read_config

    path = found.files.paths.get("processor_config.json")
    written = read_config(path) if path else {}
    if found.kind == "llava":
        vision = config.vision_config
        implied = {
            "patch_size": vision.patch_size,
            "vision_feature_select_strategy": config.vision_feature_select_strategy,
            "num_additional_image_tokens": int(vision.model_type == "clip_vision_model"),  # its class token
        }
    elif found.kind == "internvl":
        implied = {"image_seq_length": config.image_seq_length}
    elif found.kind == "blip-2":
        implied = {"num_query_tokens": config.num_query_tokens}
    else:
        implied = {}
    return {name: written.get(name, value) for name, value in implied.items()}
