"""Model folders whose towers other libraries build: XLM-R as a text tower, ConvNeXt and a SigLIP of timm as trunks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hf_world import tiny_tokenizer
from model_world import PREPROCESS, TINY

TEXT: dict[str, Any] = {"context_length": 12, "vocab_size": 16, "width": 16, "heads": 2, "layers": 2}
TOWERS: dict[str, dict[str, Any]] = {
    "xlm-r": {
        **TINY,
        "text_cfg": {
            "context_length": 12,
            "hf_model_name": "xlm-roberta-base",
            "hf_tokenizer_name": "xlm-roberta-base",
            "hf_pooler_type": "mean_pooler",
        },
    },
    "convnext": {
        **TINY,
        "vision_cfg": {"timm_model_name": "test_convnext", "timm_pool": "", "timm_proj": "linear", "image_size": 64},
        "text_cfg": {**TEXT, "hf_tokenizer_name": "team/tokenizer"},
    },
    "siglip": {
        **TINY,
        "custom_text": True,
        "init_logit_bias": -10,
        "vision_cfg": {"timm_model_name": "test_vit", "timm_pool": "map", "timm_proj": "none", "image_size": 160},
        "text_cfg": {
            **TEXT,
            "hf_tokenizer_name": "timm/ViT-B-16-SigLIP",
            "tokenizer_kwargs": {"clean": "canonicalize"},
            "no_causal_mask": True,
            "pool_type": "last",
        },
    },
}


def text_config() -> Any:
    from transformers import XLMRobertaConfig

    return XLMRobertaConfig(
        vocab_size=16,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=20,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=15,
    )


def save_towers(kind: str, folder: Path) -> Path:
    """One of TOWERS as open_clip's local-dir, with random weights, its tokenizer and, for XLM-R, its config."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    config = json.loads(json.dumps(TOWERS[kind]))
    if kind == "siglip":
        config["embed_dim"] = 64
    tiny_tokenizer().save_pretrained(folder)
    if kind == "xlm-r":
        text_config().save_pretrained(folder)
        config["text_cfg"]["hf_model_name"] = str(folder)  # to build it here; what is saved names the hub
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": PREPROCESS}))
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    if kind == "xlm-r":
        config["text_cfg"]["hf_model_name"] = "xlm-roberta-base"
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": PREPROCESS}))
    return folder
