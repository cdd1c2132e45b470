"""Two towers of types that are in no list, as transformers saves them: tiny, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from classifier_world import processor
from hf_world import TEXT, VISION, tiny_tokenizer
from seeing_world import random

TOWERS: dict[str, Callable[[Any], Any]] = {
    "AltCLIP": lambda t: t.AltCLIPModel(
        t.AltCLIPConfig(
            text_config={**TEXT, "project_dim": 32, "max_position_embeddings": 16},
            vision_config=VISION,
            projection_dim=12,
        )
    ),
    "MetaCLIP 2": lambda t: t.MetaClip2Model(
        t.MetaClip2Config(text_config=TEXT, vision_config=VISION, projection_dim=12)
    ),
    "a pair of towers": lambda t: t.VisionTextDualEncoderModel(
        t.VisionTextDualEncoderConfig.from_vision_text_configs(
            t.ViTConfig(**VISION), t.BertConfig(**TEXT), projection_dim=12
        )
    ),
}


def save_towers(kind: str, folder: Path) -> Path:
    import transformers

    random(lambda: TOWERS[kind](transformers)).save_pretrained(folder)
    processor("CLIPImageProcessor").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
