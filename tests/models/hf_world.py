"""Two-tower folders as transformers saves them: tiny, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = ["a", "photo", "of", "doctor", "nurse", "chef", "man", "woman", "person"]
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 16,
}
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 16,
    "max_position_embeddings": 12,
    "bos_token_id": 1,
    "eos_token_id": 15,
    "pad_token_id": 0,
}

EFFICIENT = {
    "image_size": 32,
    "in_channels": [32, 8],
    "out_channels": [8, 12],
    "kernel_sizes": [3, 3],
    "strides": [2, 2],
    "expand_ratios": [1, 2],
    "num_block_repeats": [1, 1],
    "depthwise_padding": [],
    "hidden_dim": 12,
    "width_coefficient": 1.0,
    "depth_coefficient": 1.0,
    "depth_divisor": 4,
}


def tiny_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"[PAD]": 0, "[BOS]": 1, "[UNK]": 2, "[EOS]": 15, **{word: 3 + k for k, word in enumerate(WORDS)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 1), ("[EOS]", 15)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", bos_token="[BOS]", eos_token="[EOS]", pad_token="[PAD]"
    )


LETTER_IDS = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}


def letter_tokenizer(kind: str = "Siglip2Tokenizer") -> Any:
    """A tokenizer whose pieces are letters: SigLIP 2's own class, which lowers what it is given, or Gemma's."""
    import transformers

    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "\u2581", *"abcdefghijklmnopqrstuvwxyz"]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    merges = {} if kind == "Siglip2Tokenizer" else {"merges": []}
    return getattr(transformers, kind)(vocab=vocabulary, padding_side="right", **merges)


def save_folder(kind: str, folder: Path) -> Path:
    from transformers import (
        AlignConfig,
        AlignModel,
        ChineseCLIPConfig,
        ChineseCLIPImageProcessor,
        ChineseCLIPModel,
        CLIPConfig,
        CLIPImageProcessor,
        CLIPModel,
        EfficientNetImageProcessor,
        FlavaImageProcessor,
        Siglip2Config,
        Siglip2ImageProcessor,
        Siglip2Model,
        SiglipConfig,
        SiglipImageProcessor,
        SiglipModel,
    )

    size = {"height": 32, "width": 32}
    with torch.random.fork_rng():
        torch.manual_seed(2)
        if kind == "clip":
            model: Any = CLIPModel(CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=16))
            processor: Any = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size)
        elif kind == "flava":
            model, processor = _flava(), FlavaImageProcessor(size=size, crop_size=size)
        elif kind == "chinese_clip":
            config = ChineseCLIPConfig(
                text_config={**TEXT, "type_vocab_size": 2}, vision_config=VISION, projection_dim=16
            )
            model, processor = ChineseCLIPModel(config), ChineseCLIPImageProcessor(size=size, crop_size=size)
            _spread(model)
        elif kind == "align":
            words = {**TEXT, "type_vocab_size": 2, "max_position_embeddings": 80}
            model = AlignModel(AlignConfig(text_config=words, vision_config=EFFICIENT, projection_dim=12))
            processor = EfficientNetImageProcessor(size=size, crop_size=size, do_center_crop=False)
            _spread(model)
            _spread(model.vision_model, 0.5)  # else its pictures differ by nothing
        elif kind == "siglip2":
            patches = {name: VISION[name] for name in VISION if name != "image_size"}
            letters = letter_tokenizer()
            words = {**TEXT, "vocab_size": len(letters), "max_position_embeddings": 64, **LETTER_IDS}
            model = Siglip2Model(Siglip2Config(text_config=words, vision_config={**patches, "num_patches": 16}))
            processor = Siglip2ImageProcessor(patch_size=16, max_num_patches=12)
            _spread(model)
        else:
            model = SiglipModel(SiglipConfig(text_config=TEXT, vision_config=VISION))
            processor = SiglipImageProcessor(size=size)
            with torch.no_grad():
                model.logit_scale.fill_(2.0)
                model.logit_bias.fill_(-5.0)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    (letter_tokenizer() if kind == "siglip2" else tiny_tokenizer()).save_pretrained(folder)
    return folder


def _spread(model: Any, by: float = 0.1) -> None:
    """Weights whose answers differ: as they are made, biases are 0 and a vision tower's positions alike."""
    for name, parameter in model.named_parameters():
        if parameter.dim() and "norm" not in name.lower():
            parameter.data.add_(torch.randn_like(parameter) * by)


def _flava() -> Any:
    """As published: the towers under `flava.`, next to the heads and the codebook of its pretraining."""
    from transformers import FlavaConfig, FlavaForPreTraining

    model = FlavaForPreTraining(
        FlavaConfig(
            image_config=VISION,
            text_config={**TEXT, "max_position_embeddings": 100},
            multimodal_config={name: VISION[name] for name in list(VISION)[:4]},
            image_codebook_config={"num_groups": 4, "hidden_size": 8, "vocab_size": 16, "num_blocks_per_group": 1},
            hidden_size=32,
            projection_dim=16,
        )
    )
    torch.nn.init.normal_(model.flava.logit_scale, mean=1.5, std=0.1)
    return model
