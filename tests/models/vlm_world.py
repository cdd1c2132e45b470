"""Language models that see, as transformers saves them: every layout, tiny, with random weights, and a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = (
    "a photo of a doctor nurse chef line cook physician assistant firefighter pilot person with male female the image "
    "Question: Can you please identify the occupation that best represents the image? Short Answer: USER ASSISTANT"
)
SPECIAL = ["<pad>", "<s>", "</s>", "<image>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
SPECIAL += ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"]
SPECIAL += ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
SPECIAL += [f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)]
SIDE, PATCH = 32, 8
KINDS = ("llava", "qwen2_vl", "qwen2_5_vl", "paligemma", "blip-2", "internvl", "blip-2-t5")
KINDS += ("qwen3_vl", "llava_next", "llava_onevision", "smolvlm", "idefics3")

_SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
_VISION = {**_SMALL, "image_size": SIDE, "patch_size": PATCH}
_NO_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def tokenizer(ends: str = "") -> Any:
    """Byte-level BPE that knows some words whole, begins texts with <s>, and has every layout's marks."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([WORDS] * 4, trainer)
    made.post_processor = processors.TemplateProcessing(
        single=f"<s> $A {ends}".strip(), special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        extra_special_tokens={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    )


def _id(name: str) -> int:
    return SPECIAL.index(name)


def _llama(words: int, **more: Any) -> dict[str, Any]:
    return {"model_type": "llama", **_SMALL, "vocab_size": words, "max_position_embeddings": 512, **_NO_IDS, **more}


def _clip_images(**more: Any) -> Any:
    from transformers import CLIPImageProcessor

    return CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}, **more)


def llava(words: Any) -> tuple[Any, Any]:
    import transformers as t

    config = t.LlavaConfig(
        vision_config={"model_type": "clip_vision_model", **_VISION},
        text_config=_llama(len(words)),
        image_token_index=_id("<image>"),
        vision_feature_layer=-1,
    )
    processor = t.LlavaProcessor(
        _clip_images(), words, patch_size=PATCH, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    return t.LlavaForConditionalGeneration(config), processor


def qwen(words: Any, kind: str) -> tuple[Any, Any]:
    import transformers as t

    text = {**_llama(len(words)), "model_type": f"{kind}_text", "num_key_value_heads": 1}
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
    ids = {"image_token_id": _id("<|image_pad|>"), "video_token_id": _id("<|video_pad|>")}
    ids |= {"vision_start_token_id": _id("<|vision_start|>"), "vision_end_token_id": _id("<|vision_end|>")}
    patches = {"patch_size": PATCH, "temporal_patch_size": 2, "spatial_merge_size": 2, "num_heads": 2, "depth": 2}
    pixels = {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}
    images = t.Qwen2VLImageProcessor(size=pixels, patch_size=PATCH, merge_size=2)
    video = t.Qwen2VLVideoProcessor(size=pixels, patch_size=PATCH, merge_size=2)
    if kind == "qwen2_vl":
        vision = {**patches, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2}
        config = t.Qwen2VLConfig(text_config=text, vision_config=vision, **ids, **_NO_IDS)
        return t.Qwen2VLForConditionalGeneration(config), t.Qwen2VLProcessor(images, words, video)
    vision = {**patches, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48, "window_size": 32}
    vision["fullatt_block_indexes"] = [1]
    config = t.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids, **_NO_IDS)
    return t.Qwen2_5_VLForConditionalGeneration(config), t.Qwen2_5_VLProcessor(images, words, video)


def paligemma(words: Any) -> tuple[Any, Any]:
    import transformers as t

    images = t.SiglipImageProcessor(size={"height": SIDE, "width": SIDE})
    images.image_seq_length = (SIDE // PATCH) ** 2
    processor = t.PaliGemmaProcessor(images, words)
    text = {**_llama(len(words)), "model_type": "gemma", "num_key_value_heads": 1, "head_dim": 16}
    config = t.PaliGemmaConfig(
        vision_config={"model_type": "siglip_vision_model", **_VISION, "projection_dim": 32, "vision_use_head": False},
        text_config=text,
        image_token_index=_id("<image>"),
        projection_dim=32,
    )
    return t.PaliGemmaForConditionalGeneration(config), processor


def blip2(words: Any, language: str) -> tuple[Any, Any]:
    import transformers as t

    images = t.BlipImageProcessor(size={"height": SIDE, "width": SIDE})
    processor = t.Blip2Processor(images, words, num_query_tokens=4)
    if language == "opt":
        text: dict[str, Any] = {"model_type": "opt", "hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 48}
        text |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 512}
    else:
        text = {"model_type": "t5", "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}
        text |= {"feed_forward_proj": "gated-gelu", "decoder_start_token_id": 0}
    config = t.Blip2Config(
        vision_config=_VISION,
        qformer_config={**_SMALL, "vocab_size": 16, "encoder_hidden_size": 32},
        text_config={**text, "vocab_size": len(words), **_NO_IDS},
        num_query_tokens=4,
        image_token_index=_id("<image>"),
    )
    model = t.Blip2ForConditionalGeneration(config)
    torch.nn.init.normal_(model.query_tokens)  # zeros else: the queries, and the picture, would all look alike
    return model, processor


def internvl(words: Any) -> tuple[Any, Any]:
    import transformers as t

    images = t.GotOcr2ImageProcessor(size={"height": SIDE, "width": SIDE}, crop_to_patches=False)
    config = t.InternVLConfig(
        vision_config={
            **_VISION,
            "image_size": [SIDE, SIDE],
            "patch_size": [PATCH, PATCH],
            "model_type": "internvl_vision",
        },
        text_config={**_llama(len(words)), "model_type": "qwen2", "num_key_value_heads": 1},
        image_token_id=_id("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    processor = t.InternVLProcessor(images, words, t.InternVLVideoProcessor(), image_seq_length=4)
    return t.InternVLForConditionalGeneration(config), processor


def qwen3(words: Any) -> tuple[Any, Any]:
    import transformers as t

    text = {**_llama(len(words)), "model_type": "qwen3_vl_text", "num_key_value_heads": 1, "head_dim": 16}
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]}
    ids = {"image_token_id": _id("<|image_pad|>"), "video_token_id": _id("<|video_pad|>")}
    ids |= {"vision_start_token_id": _id("<|vision_start|>"), "vision_end_token_id": _id("<|vision_end|>")}
    vision = {"patch_size": PATCH, "temporal_patch_size": 2, "spatial_merge_size": 2, "num_heads": 2, "depth": 2}
    vision |= {"hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48, "num_position_embeddings": 16}
    vision["deepstack_visual_indexes"] = [0]
    pixels = {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}
    images = t.Qwen2VLImageProcessor(size=pixels, patch_size=PATCH, merge_size=2)
    video = t.Qwen3VLVideoProcessor(patch_size=PATCH, merge_size=2)
    config = t.Qwen3VLConfig(text_config=text, vision_config=vision, **ids)
    return t.Qwen3VLForConditionalGeneration(config), t.Qwen3VLProcessor(images, words, video)


_CANVAS = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]]


def llava_next(words: Any) -> tuple[Any, Any]:
    import transformers as t

    config = t.LlavaNextConfig(
        vision_config={"model_type": "clip_vision_model", **_VISION},
        text_config=_llama(len(words)),
        image_token_index=_id("<image>"),
        vision_feature_layer=-1,
        image_grid_pinpoints=_CANVAS,
    )
    side = {"height": SIDE, "width": SIDE}
    images = t.LlavaNextImageProcessor(size={"shortest_edge": SIDE}, crop_size=side, image_grid_pinpoints=_CANVAS)
    processor = t.LlavaNextProcessor(
        images, words, patch_size=PATCH, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    return t.LlavaNextForConditionalGeneration(config), processor


def llava_onevision(words: Any) -> tuple[Any, Any]:
    import transformers as t

    config = t.LlavaOnevisionConfig(
        vision_config={"model_type": "siglip_vision_model", **_VISION, "vision_use_head": False},
        text_config={**_llama(len(words)), "model_type": "qwen2", "num_key_value_heads": 1},
        image_token_index=_id("<image>"),
        video_token_index=_id("<video>"),
        image_grid_pinpoints=_CANVAS,
        vision_aspect_ratio="anyres_max_4",
    )
    side = {"height": SIDE, "width": SIDE}
    images = t.LlavaOnevisionImageProcessor(size=side, image_grid_pinpoints=_CANVAS)
    processor = t.LlavaOnevisionProcessor(
        images,
        words,
        t.LlavaOnevisionVideoProcessor(),
        num_image_tokens=(SIDE // PATCH) ** 2,
        vision_feature_select_strategy="full",
        vision_aspect_ratio="anyres_max_4",
    )
    return t.LlavaOnevisionForConditionalGeneration(config), processor


def idefics3(words: Any) -> tuple[Any, Any]:
    import transformers as t

    config = t.Idefics3Config(
        vision_config=_VISION, text_config=_llama(len(words)), image_token_id=_id("<image>"), pad_token_id=0
    )
    images = t.Idefics3ImageProcessor(size={"longest_edge": 2 * SIDE}, max_image_size={"longest_edge": SIDE})
    return t.Idefics3ForConditionalGeneration(config), t.Idefics3Processor(images, words, image_seq_len=4)


def smolvlm(words: Any) -> tuple[Any, Any]:
    import transformers as t

    config = t.SmolVLMConfig(
        vision_config=_VISION, text_config=_llama(len(words)), image_token_id=_id("<image>"), pad_token_id=0
    )
    images = t.SmolVLMImageProcessor(size={"longest_edge": 2 * SIDE}, max_image_size={"longest_edge": SIDE})
    return t.SmolVLMForConditionalGeneration(config), t.Idefics3Processor(images, words, image_seq_len=4)


def build(kind: str) -> tuple[Any, Any]:
    """A model and its processor; `blip-2-t5` is a BLIP-2 whose language model has an encoder."""
    words = tokenizer("</s>" if kind == "blip-2-t5" else "")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        made = {
            "llava": lambda: llava(words),
            "qwen2_vl": lambda: qwen(words, "qwen2_vl"),
            "qwen2_5_vl": lambda: qwen(words, "qwen2_5_vl"),
            "paligemma": lambda: paligemma(words),
            "blip-2": lambda: blip2(words, "opt"),
            "blip-2-t5": lambda: blip2(words, "t5"),
            "internvl": lambda: internvl(words),
            "qwen3_vl": lambda: qwen3(words),
            "llava_next": lambda: llava_next(words),
            "llava_onevision": lambda: llava_onevision(words),
            "idefics3": lambda: idefics3(words),
            "smolvlm": lambda: smolvlm(words),
        }[kind]()
        for parameter in made[0].parameters():  # random biases and norms too, and weights whose answers differ
            parameter.data.add_(torch.randn_like(parameter) * 0.12)
    return made[0].eval(), made[1]


def save_vlm(kind: str, folder: Path) -> Path:
    """A folder as transformers saves it."""
    model, processor = build(kind)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
