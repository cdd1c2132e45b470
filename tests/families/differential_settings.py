"""Further variants of a group of layouts: settings of processors, decoding, and generation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from differential_models import Layout

Edit = Callable[[Path, Layout], None]
GONE = object()
TEMPLATE = "{% for one in messages %}You answer 'nurse'. {{ one.content }}{% endfor %}"


def changed(name: str, under: str = "", **changes: Any) -> Edit:
    """Keys of a JSON file, at its top or under another key; GONE removes one. A file that is not there is made."""

    def edit(folder: Path, _: Layout) -> None:
        path = folder / name
        whole = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        part = whole.setdefault(under, {}) if under else whole
        part.update(changes)
        for key in [key for key, value in part.items() if value is GONE]:
            del part[key]
        path.write_text(json.dumps(whole), encoding="utf-8")

    return edit


def every(*edits: Edit) -> Edit:
    def edit(folder: Path, layout: Layout) -> None:
        for one in edits:
            one(folder, layout)

    return edit


def _removed(name: str) -> Edit:
    return lambda folder, _: (folder / name).unlink(missing_ok=True)


def _written(name: str, text: str) -> Edit:
    return lambda folder, _: (folder / name).write_text(text, encoding="utf-8") and None


def _images(**changes: Any) -> Edit:
    """Settings of the image processor, in the file where its library wrote them."""

    def edit(folder: Path, layout: Layout) -> None:
        alone = (folder / "preprocessor_config.json").exists()
        name, under = ("preprocessor_config.json", "") if alone else ("processor_config.json", "image_processor")
        changed(name, under, **changes)(folder, layout)

    return edit


def _beside(folder: Path, layout: Layout, mean: Sequence[float] = (0.1, 0.5, 0.9)) -> None:
    """The image processor's settings in both files, with other means in the one that its library did not write."""
    own, whole = folder / "preprocessor_config.json", folder / "processor_config.json"
    if own.exists():
        said = json.loads(own.read_text(encoding="utf-8"))
        whole.write_text(json.dumps({"image_processor": {**said, "image_mean": mean}}), encoding="utf-8")
    else:
        said = json.loads(whole.read_text(encoding="utf-8"))["image_processor"]
        own.write_text(json.dumps({**said, "image_mean": mean or said.get("image_mean")}), encoding="utf-8")


def _swapped(folder: Path, layout: Layout) -> None:
    path = folder / "config.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    if "id2label" in said:
        names = list(said["id2label"].values())
        said["id2label"] = dict(zip(said["id2label"], [*names[1:], names[0]], strict=True))
        path.write_text(json.dumps(said), encoding="utf-8")


def _in_tokenizer(**changes: Any) -> Edit:
    """Blocks of tokenizer.json, where there is one."""

    def edit(folder: Path, layout: Layout) -> None:
        if (folder / "tokenizer.json").exists():
            changed("tokenizer.json", **changes)(folder, layout)

    return edit


_PICTURES: dict[str, Edit] = {
    "mean": _images(image_mean=[0.1, 0.4, 0.7]),
    "std": _images(image_std=[0.2, 0.4, 0.6]),
    "no normalisation": _images(do_normalize=False),
    "no rescaling": _images(do_rescale=False),
    "rescale factor": _images(rescale_factor=1 / 127.5),
    "interpolation": _images(resample=0),
    "no resizing": _images(do_resize=False),
    "another image processor": _images(image_processor_type="ViTImageProcessor"),
    "DETR's image processor": _images(image_processor_type="DetrImageProcessor"),
    "an older name": _images(image_processor_type=GONE, feature_extractor_type="CLIPFeatureExtractor"),
    "settings in two files": _beside,
    "another key of pictures": _images(do_something=True, input_data_format="channels_first"),
}
_TEXTS: dict[str, Edit] = {
    "truncation in tokenizer.json": _in_tokenizer(
        truncation={"max_length": 4, "strategy": "LongestFirst", "direction": "Right", "stride": 0}
    ),
    "padding in tokenizer.json": _in_tokenizer(
        padding={
            "strategy": {"Fixed": 40},
            "direction": "Left",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "<pad>",
        }
    ),
    "small letters": _in_tokenizer(normalizer={"type": "Lowercase"}),
    "padding side": changed("tokenizer_config.json", padding_side="left"),
    "longest text": changed("tokenizer_config.json", model_max_length=4),
    "prefix space": changed("tokenizer_config.json", add_prefix_space=True),
    "another end": changed("special_tokens_map.json", eos_token="<s>", pad_token="<s>"),
    "added tokens": changed("added_tokens.json", **{"person": 5}),
    "tokenizer class": changed("tokenizer_config.json", tokenizer_class="GPT2Tokenizer"),
}
_DETECTOR: dict[str, Edit] = {
    **_PICTURES,
    **_TEXTS,
    "YOLOS's image processor": _images(image_processor_type="YolosImageProcessor"),
    "size": _images(size={"shortest_edge": 48, "longest_edge": 80}),
    "no padding": _images(do_pad=False),
    "padded size": _images(pad_size={"height": 128, "width": 128}),
    "format": _images(format="coco_panoptic"),
    "classes exchanged": _swapped,
    "classes by number": changed("config.json", label2id={"person": 0, "car": 1, "N/A": 2}),
    "threshold": changed("config.json", threshold=0.9),
    "activation": changed("config.json", activation_function="gelu", hidden_act="relu"),
    "eager attention": changed("config.json", attn_implementation="eager"),
    "training": changed("config.json", dropout=0.5, attention_dropout=0.5, training=True),
}
_VLM: dict[str, Edit] = {
    **_PICTURES,
    **_TEXTS,
    "patch size": changed("processor_config.json", patch_size=16),
    "selected states of the processor": changed("processor_config.json", vision_feature_select_strategy="full"),
    "selected states of the model": changed("config.json", vision_feature_select_strategy="full"),
    "layer": changed("config.json", vision_feature_layer=-2),
    "layers": changed("config.json", vision_feature_layer=[-2, -1]),
    "additional tokens": changed("processor_config.json", num_additional_image_tokens=0),
    "tokens of a picture": changed("processor_config.json", image_seq_length=8, num_query_tokens=8, image_seq_len=8),
    "image token": changed("processor_config.json", image_token="a"),
    "image token of the tokenizer": changed("tokenizer_config.json", image_token="a"),
    "id of the image token": changed("config.json", image_token_index=5, image_token_id=5),
    "processor class": changed("processor_config.json", processor_class="LlavaNextProcessor"),
    "no processor_config.json": every(
        lambda folder, layout: _beside(folder, layout, ()), _removed("processor_config.json")
    ),
    "chat template": _written("chat_template.jinja", TEMPLATE),
    "chat template in JSON": changed("chat_template.json", chat_template=TEMPLATE),
    "chat template of the tokenizer": changed("tokenizer_config.json", chat_template=TEMPLATE),
    "chat template of the processor": changed("processor_config.json", chat_template=TEMPLATE),
    "size": _images(size={"shortest_edge": 48}, crop_size={"height": 48, "width": 48}),
    "no crop": _images(do_center_crop=False),
    "tiles": _images(crop_to_patches=True, max_patches=4, do_image_splitting=False, do_pad=False),
    "rotary base": changed("config.json", "text_config", rope_theta=100.0),
    "text's norms": changed("config.json", "text_config", rms_norm_eps=0.1, layer_norm_eps=0.1),
    "tied embeddings": changed("config.json", tie_word_embeddings=True),
    "tied embeddings of the text": changed("config.json", "text_config", tie_word_embeddings=True),
    "sliding window": changed("config.json", "text_config", sliding_window=2, use_sliding_window=True),
}
_DECODING: Mapping[str, Mapping[str, Any]] = {
    "sampling": {"do_sample": True, "temperature": 5.0, "top_k": 0},
    "as Qwen2.5-VL is published": {"do_sample": True, "temperature": 1e-6, "top_k": 1, "repetition_penalty": 1.05},
    "beams": {"num_beams": 4},
    "repetition penalty": {"repetition_penalty": 5.0},
    "no repeated tokens": {"no_repeat_ngram_size": 1},
    "forbidden words": {"bad_words_ids": [[number] for number in range(30, 300)]},
    "suppressed tokens": {"suppress_tokens": list(range(30, 300))},
    "suppressed first tokens": {"begin_suppress_tokens": list(range(30, 300))},
    "forced beginning": {"forced_bos_token_id": 40},
    "forced end": {"forced_eos_token_id": 40},
    "least new tokens": {"min_new_tokens": 5},
    "biased sequences": {"sequence_bias": [[[40], 50.0]]},
    "guidance": {"guidance_scale": 3.0},
    "fewer new tokens": {"max_new_tokens": 2},
    "greatest length": {"max_length": 3},
    "ends": {"eos_token_id": list(range(2, 64))},
    "no ends": {"eos_token_id": None},
    "ends by a text": {"stop_strings": ["a", "e"]},
    "padding": {"pad_token_id": 40},
    "beginning": {"bos_token_id": 40, "decoder_start_token_id": 40},
    "several answers": {"num_return_sequences": 2, "num_beams": 2},
    "looks text up": {"prompt_lookup_num_tokens": 3},
    "a method of a hub": {"custom_generate": "transformers-community/dola"},
    "no cache": {"use_cache": False},
    "quantised cache": {"cache_implementation": "quantized"},
}
"""Keys of generation_config.json."""
_CHAT: dict[str, Edit] = {
    **_VLM,
    **{f"decoding: {name}": changed("generation_config.json", **keys) for name, keys in _DECODING.items()},
    **{
        f"decoding, in config.json: {name}": every(
            changed("config.json", **_DECODING[name]), _removed("generation_config.json")
        )
        for name in ("repetition penalty", "forbidden words", "sampling", "ends")
    },
    **{
        f"decoding, in text_config: {name}": every(
            changed("config.json", "text_config", **_DECODING[name]), _removed("generation_config.json")
        )
        for name in ("repetition penalty", "ends")
    },
    "decoding, in both: repetition penalty": changed("config.json", repetition_penalty=5.0),
    "no generation_config.json": _removed("generation_config.json"),
}


BY_DESIGN: dict[str, str] = {
    **{
        f"decoding{place}: {name}": min(set(_DECODING[name]) - {"eos_token_id", "temperature", "top_k"}, default="-")
        for name in _DECODING
        for place in ("", ", in config.json", ", in text_config", ", in both")
    },
    "no processor_config.json": "",
    "padding in tokenizer.json": "",
    "img2img": "",
    "an image encoder": "",
    "watermark": "",
    "sample size, not square": "",
    "safety checker": "safety checker",
}
"""Variants whose setting fairgate does not use, and says so: a word of what the record holds of it, the model's note.
Its numbers are then the library's without the setting. None is held of what the library cannot run."""


def further(group: str) -> dict[str, Edit]:
    """The variants of a group."""
    from differential_pipelines import painters

    seeing = {"": {}, "detector": _DETECTOR, "vlm": _VLM, "chat": _CHAT}
    return seeing[group] if group in seeing else painters(group)
