"""How a language model that sees is asked: the text before the label (a prompt, or a question); by layout, what
transformers saves, where the picture goes; and what a folder sets of how its model writes: the tokens that end a text,
which end it in deployment, and settings of decoding, which are not used. No torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from fairgate.ground.errors import ModelError
from fairgate.models import checkpoints
from fairgate.models.checkpoints import Device, TransformersFolder
from fairgate.models.vlm.judged import Average

IMAGE = "{image}"
CAPTION = "{caption}"
QUESTION = "{question}"
LENS = "{shown}Question: {question} Short Answer:"
"""Paper 1 asks so (LENS, Berrios et al. 2023); its question: 'Can you please identify the occupation that best
represents the image?'"""
_LONGEST = 4_000
_ENDS = "eos_token_id"
_MOST = 64
_ONE = ("encoder_repetition_penalty", "guidance_scale", "num_beams", "num_return_sequences", "repetition_penalty")
"""Settings of `generate` that change nothing at 1."""
_CHOOSING = (
    *("bad_words_ids", "begin_suppress_tokens", "constraints", "custom_generate", "do_sample", "dola_layers"),
    *("encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "force_words_ids", "forced_bos_token_id"),
    *("forced_eos_token_id", "max_time", "min_length", "min_new_tokens", "no_repeat_ngram_size", "penalty_alpha"),
    *("cache_implementation", "sequence_bias", "stop_strings", "suppress_tokens", "token_healing"),
    *("watermarking_config", *_ONE),
)
"""Settings of `generate` by which another token than the likeliest may be written, or fewer."""


@dataclass(frozen=True, slots=True)
class Asking:
    """`prompt`: the text before the label, with a mark where the picture, or what was said of it, goes. `average`: the
    sum of a label's log-probabilities, or their mean over its tokens."""

    prompt: str
    average: Average


def read_asking(uri: str, options: Mapping[str, str], mark: str = IMAGE, shown: str = IMAGE) -> Asking:
    """From a URI's options. The prompt names `mark` once; LENS's prompt begins with `shown`. Raises ModelError."""
    if ("prompt" in options) == ("question" in options):
        raise ModelError(
            "the URI needs a question, or a prompt, and not both.",
            where=uri,
            remedy="add ?question=What is the person's job?, or ?prompt= with the whole text before the label"
            + ("; to ask a suite's questions, ?chat= with the text around them" if mark == IMAGE else ""),
        )
    prompt = options.get("prompt") or LENS.format(shown=shown, question=options["question"])
    if prompt.count(mark) > 1 or (mark != IMAGE and mark not in prompt) or len(prompt) > _LONGEST:
        raise ModelError(
            f"the prompt has more than {_LONGEST:,} characters, or does not name {mark} once.",
            where=uri,
            remedy=f"write {mark} once, where the model is shown it",
        )
    average = options.get("average", "sum")
    if average not in ("sum", "mean"):
        raise ModelError(
            f"average is '{average[:40]}'.",
            where=uri,
            remedy="write ?average=sum (the label's probability) or mean (over its tokens)",
        )
    return Asking(prompt if mark in prompt else mark + prompt, cast(Average, average))


def read_chat(uri: str, chat: str) -> str:
    """The whole text around a suite's questions, from a URI: with QUESTION once, and IMAGE. Raises ModelError."""
    if chat.count(QUESTION) != 1 or chat.count(IMAGE) > 1 or len(chat) > _LONGEST:
        raise ModelError(
            f"the chat has more than {_LONGEST:,} characters, or does not name {QUESTION} once, {IMAGE} at most once.",
            where=uri,
            remedy=f"write ?chat=USER: {IMAGE}%0A{QUESTION} ASSISTANT:, as the model was trained",
        )
    return chat if IMAGE in chat else IMAGE + chat


def asked_texts(chat: str, questions: Sequence[str], where: str) -> list[str]:
    """The whole text of each question; "" of an empty one. Raises ModelError for a question that holds a mark."""
    if odd := next((question for question in questions if IMAGE in question or QUESTION in question), None):
        raise ModelError(
            f"a question holds a mark, {IMAGE} or {QUESTION}: '{odd[:80]}'.",
            where=where,
            remedy="write the question in words; where it and the picture go is in the URI's chat",
        )
    return [chat.replace(QUESTION, question) if question else "" for question in questions]


def end_ids(folder: TransformersFolder) -> list[int] | None:
    """The ids that end a text, sorted: of generation_config.json where there is one, else of config.json; None where
    neither names any, and the model type's own end counts. BLIP-2's language model writes by its own config alone.

    Raises ModelError for ids that are none, and where generation_config.json leaves out an end that config.json has.
    """
    path = folder.files.paths.get(checkpoints.GENERATION_CONFIG)
    own = _ids(folder.config, str(folder.path / "config.json"))
    text = folder.config.get("text_config")
    inner = _ids(text, str(folder.path / "config.json")) if isinstance(text, Mapping) else None
    ids = _ids(checkpoints.read_config(path), str(path)) if path else None
    if ids is not None and own is not None and not set(own) <= set(ids):
        raise ModelError(
            f"texts end at {own} by config.json, and at {ids} by generation_config.json, which is used in deployment.",
            where=str(path),
            remedy=f"give both files one {_ENDS}: model.save_pretrained(FOLDER) writes both",
        )
    if folder.kind == "blip-2":
        return inner
    return own or inner if path is None else ids


def unused_decoding(folder: TransformersFolder) -> str | None:
    """A sentence on what a folder sets of decoding, by which a deployed model may write other texts than are judged;
    None where it sets nothing."""
    path = folder.files.paths.get(checkpoints.GENERATION_CONFIG)
    text = folder.config.get("text_config")
    places = (checkpoints.read_config(path) if path else {}, folder.config, text if isinstance(text, Mapping) else {})
    named = sorted({name for place in places for name in _CHOOSING if _sets(place, name)})
    if not named:
        return None
    return f"settings of decoding in the model's folder are not used, each token is the likeliest: {', '.join(named)}"


def _sets(config: Mapping[str, Any], name: str) -> bool:
    return bool(config.get(name)) and (name not in _ONE or config[name] != 1)


def _ids(config: Mapping[str, Any], where: str) -> list[int] | None:
    value = config.get(_ENDS)
    if value is None:
        return None
    ids = value if isinstance(value, list) else [value]
    if not 1 <= len(ids) <= _MOST or not all(type(token) is int and token >= -1 for token in ids):
        raise ModelError(
            f"{_ENDS} is {str(value)[:40]!r}.", where=where, remedy=f"give an id, or a list of at most {_MOST}"
        )
    return sorted(set(ids))


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
        raise checkpoints.not_known(folder)
    model, images, tokenizer = checkpoints.load_parts(layout.model, folder, device, casting=True)
    require_one_context(model.config, str(folder.path))
    with checkpoints.naming_folder(folder.path):
        options = processor_options(folder, model.config)
        _require_modest(folder.kind, options, images, str(folder.path))
        if layout.video:
            options["video_processor"] = getattr(transformers, layout.video)()
        return model, processor_class(image_processor=images, tokenizer=tokenizer, **options)


def require_one_context(config: Any, where: str) -> None:
    """Raises ModelError for settings by which transformers' cache forgets tokens that the network's attention sees:
    the library gives a label another likelihood with its cache than without."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicSlidingWindowLayer

    text = config.get_text_config(decoder=True)
    forgets = any(isinstance(layer, DynamicSlidingWindowLayer) for layer in DynamicCache(config=text).layers)
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
    try:
        most = _most_tokens(kind, options, images)
    except (TypeError, ValueError, KeyError, ZeroDivisionError, AttributeError):
        most = None
    known = isinstance(most, int)
    if not known or not 0 < most <= MAX_IMAGE_TOKENS:
        raise ModelError(
            f"the settings make {f'{most:,}' if known else 'no number of'} tokens of a picture; at most "
            f"{MAX_IMAGE_TOKENS:,} are read.",
            where=where,
            remedy="check processor_config.json (patch_size, image_seq_len, ...) and the size of pictures; published "
            "models have 8,000 at most",
        )


def _most_tokens(kind: str, options: Mapping[str, Any], images: Any) -> Any:
    """Tokens of one picture at most, no whole number for settings of which there is none. Layouts that are not listed
    here are bounded by their number of pixels or of tiles."""
    if kind in ("llava", "llava_next"):
        sides = [side for size in (images.size, images.crop_size) for side in dict(size or {}).values() if side]
        canvases = [[max(sides, default=0)] * 2, *(getattr(images, "image_grid_pinpoints", None) or [])]
        patch = options["patch_size"]
        own, *others = (high // patch * (wide // patch + 1) for high, wide in canvases)  # a row ends with one more
        return own + max(others, default=0)
    if kind == "llava_onevision":
        tiles = re.fullmatch(r"anyres_max_(\d{1,2})", str(options["vision_aspect_ratio"]))
        return None if tiles is None else (int(tiles[1]) + 2) * options["num_image_tokens"]
    if kind in ("idefics3", "smolvlm"):
        longest, tile = (dict(size)["longest_edge"] for size in (images.size, images.max_image_size))
        rows = -(-longest // tile) if images.do_image_splitting else 0
        return (rows**2 + 1) * (options["image_seq_len"] + 3)  # with the marks around each tile
    return 1


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
    # nothing is implied of a Qwen-VL, whose sizes there are numbers of pixels
    written = checkpoints.read_config(path) if path and implied else {}
    return {name: written.get(name, value) for name, value in implied.items()}
