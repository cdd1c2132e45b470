"""Models of pictures and text of types without a layout, as transformers saves them: tiny, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import vlm_world


def random(make: Callable[[], Any]) -> Any:
    """A model whose outputs depend on what it is given."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = make()
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                torch.nn.init.kaiming_normal_(parameter)
            elif parameter.ndim:
                torch.nn.init.normal_(parameter, mean=float(name.endswith("weight")), std=0.2)
    return model.eval()


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}USER: {% for c in m['content'] %}{% if c['type'] == 'image' %}IMAGE"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %} ASSISTANT:{% endfor %}"
)


def gemma3(t: Any) -> tuple[Any, Any]:
    marks = {"boi_token": "<img>", "eoi_token": "</img>", "image_token": "<image>"}
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    words = t.PreTrainedTokenizerFast(
        tokenizer_object=vlm_world.tokenizer()._tokenizer, extra_special_tokens=marks, **ends
    )
    config = t.Gemma3Config(
        text_config={**SEEING, "vocab_size": len(words), "head_dim": 16, "num_key_value_heads": 2},
        vision_config={**SEEING, "image_size": 32, "patch_size": 8},
        mm_tokens_per_image=4,
        image_token_index=vlm_world.SPECIAL.index("<image>"),
    )
    images = t.Gemma3ImageProcessor(size={"height": 32, "width": 32})
    template = TEMPLATE.replace("IMAGE", "<img>")
    processor = t.Gemma3Processor(images, words, image_seq_length=4, chat_template=template)
    return random(lambda: t.Gemma3ForConditionalGeneration(config)), processor


def mistral3(t: Any) -> tuple[Any, Any]:
    words = vlm_world.tokenizer()
    config = t.Mistral3Config(
        text_config={
            **SEEING,
            "model_type": "mistral",
            "vocab_size": len(words),
            "head_dim": 16,
            "num_key_value_heads": 2,
        },
        vision_config={**SEEING, "model_type": "pixtral", "image_size": 32, "patch_size": 8, "head_dim": 16},
        image_token_index=vlm_world.SPECIAL.index("<image>"),
        vision_feature_layer=-1,
        spatial_merge_size=1,
    )
    images = t.PixtralImageProcessor(size={"longest_edge": 32}, patch_size={"height": 8, "width": 8})
    template = TEMPLATE.replace("IMAGE", "<image>")
    marks = {"image_token": "<image>", "image_break_token": "<img>", "image_end_token": "</img>"}
    processor = t.PixtralProcessor(images, words, patch_size=8, chat_template=template, **marks)
    return random(lambda: t.Mistral3ForConditionalGeneration(config)), processor


def qwen3_5(t: Any) -> tuple[Any, Any]:
    """Three of four layers keep a state in the place of keys and values."""
    words, marks = vlm_world.tokenizer(), {"image": "<|image_pad|>", "video": "<|video_pad|>"}
    marks |= {"vision_start": "<|vision_start|>", "vision_end": "<|vision_end|>"}
    linear = {f"linear_{part}": 2 for part in ("num_key_heads", "num_value_heads")}
    linear |= {f"linear_{part}_head_dim": 8 for part in ("key", "value")}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 0], "partial_rotary_factor": 0.25}
    text = {**SEEING, "vocab_size": len(words), "num_key_value_heads": 1, "head_dim": 16, "num_hidden_layers": 4}
    patches = {"patch_size": 8, "temporal_patch_size": 2, "spatial_merge_size": 2}
    vision = {"num_heads": 2, "depth": 2, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48}
    config = t.Qwen3_5Config(
        text_config={**text, **linear, "rope_parameters": {**rope, "mrope_interleaved": True}},
        vision_config={**patches, **vision, "num_position_embeddings": 16},
        **{f"{name}_token_id": vlm_world.SPECIAL.index(mark) for name, mark in marks.items()},
    )
    pixels = {"shortest_edge": 256, "longest_edge": 4096}
    images = t.Qwen2VLImageProcessor(size=pixels, patch_size=8, merge_size=2)
    template = TEMPLATE.replace("{{ bos_token }}", "").replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    video = t.Qwen3VLVideoProcessor(patch_size=8, merge_size=2)
    processor = t.Qwen3VLProcessor(images, words, video, chat_template=template)
    return random(lambda: t.Qwen3_5ForConditionalGeneration(config)), processor


def florence2(t: Any) -> tuple[Any, Any]:
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    marks = {"image_token": "<image>"}
    words = t.PreTrainedTokenizerFast(
        tokenizer_object=vlm_world.tokenizer()._tokenizer, extra_special_tokens=marks, **ends
    )
    layers = {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in LAYERS.items()}
    config = t.Florence2Config(
        text_config={"model_type": "bart", "vocab_size": len(words), "d_model": 32, **layers, **IDS},
        vision_config={
            **{"embed_dim": [8, 16], "depths": [1, 1], "num_heads": [1, 2], "num_groups": [1, 2], "window_size": 4},
            **{"patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1], "patch_prenorm": [False, True]},
            **{"projection_dim": 32, "max_position_embeddings": 10, "max_temporal_embeddings": 10},
        },
        image_token_id=vlm_world.SPECIAL.index("<image>"),
        is_encoder_decoder=True,
    )
    processor = t.Florence2Processor(vlm_world._clip_images(image_seq_length=17), words, num_additional_image_tokens=0)
    return random(lambda: t.Florence2ForConditionalGeneration(config)), processor


LAYERS = {"layers": 2, "attention_heads": 2, "ffn_dim": 48}
IDS = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
SEEING = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2},
    "max_position_embeddings": 512,
}


def save_seeing(make: Callable[[Any], tuple[Any, Any]], folder: Path) -> Path:
    import transformers

    for part in make(transformers):
        part.save_pretrained(folder)
    return folder
