"""CLIP and SigLIP folders as transformers saves them: tiny, with random weights."""

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


def save_folder(kind: str, folder: Path) -> Path:
    from transformers import (
        CLIPConfig,
        CLIPImageProcessor,
        CLIPModel,
        FlavaImageProcessor,
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
        else:
            model = SiglipModel(SiglipConfig(text_config=TEXT, vision_config=VISION))
            processor = SiglipImageProcessor(size=size)
            with torch.no_grad():
                model.logit_scale.fill_(2.0)
                model.logit_bias.fill_(-5.0)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


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
