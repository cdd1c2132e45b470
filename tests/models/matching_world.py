"""BLIP and BLIP-2 folders that match pictures and texts, as transformers saves them: tiny, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from hf_world import tiny_tokenizer

KINDS = ("blip", "blip-2")
QUERIES = 3
_SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
_VISION = {**_SMALL, "image_size": 32, "patch_size": 16}
_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 15, "sep_token_id": 15}


def save_matcher(kind: str, folder: Path) -> Path:
    """As `save_pretrained` writes model, image processor and tokenizer."""
    import transformers as t

    with torch.random.fork_rng():
        torch.manual_seed(5)
        if kind == "blip":
            text = {**_SMALL, "vocab_size": 16, "encoder_hidden_size": 32, "max_position_embeddings": 64, **_IDS}
            config: Any = t.BlipConfig(text_config=text, vision_config=_VISION, image_text_hidden_size=16)
            model: Any = t.BlipForImageTextRetrieval(config)
        else:
            former = {**_SMALL, "vocab_size": 16, "encoder_hidden_size": 32, "use_qformer_text_input": True}
            language = {**_SMALL, "model_type": "opt", "vocab_size": 16, "ffn_dim": 48, "word_embed_proj_dim": 32}
            config = t.Blip2Config(
                vision_config=_VISION,
                qformer_config={**former, "max_position_embeddings": 64},
                text_config=language,
                num_query_tokens=QUERIES,
                image_text_hidden_size=16,
            )
            model = t.Blip2ForImageTextRetrieval(config)
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower():  # as they are made, queries are zeros, and every text matches alike
                torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    t.BlipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
