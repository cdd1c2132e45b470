"""Backbones as transformers saves them, tiny, with random weights, and linear heads on their features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from classifier_world import NAFLEX, SMALL, STAGES, processor
from safetensors.numpy import save_file

BACKBONES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "dinov2": ("Dinov2Config", "Dinov2Model", "BitImageProcessor", SMALL),
    "dinov2_with_registers": ("Dinov2WithRegistersConfig", "Dinov2WithRegistersModel", "BitImageProcessor", SMALL),
    "dinov3_vit": (
        "DINOv3ViTConfig",
        "DINOv3ViTModel",
        "DINOv3ViTImageProcessor",
        {**NAFLEX, "image_size": 32, "num_register_tokens": 2},
    ),
    "vit": ("ViTConfig", "ViTModel", "ViTImageProcessor", SMALL),
    "convnext": ("ConvNextConfig", "ConvNextModel", "ConvNextImageProcessor", {**STAGES, "num_stages": 2}),
}
LABELS = ["male", "female", "unclear"]


def save_backbone(kind: str, folder: Path, **other: Any) -> Any:
    import transformers

    config, model_name, processor_name, settings = BACKBONES[kind]
    with torch.random.fork_rng():
        torch.manual_seed(8)
        model = getattr(transformers, model_name)(getattr(transformers, config)(**{**settings, **other})).eval()
        for name, parameter in model.named_parameters():
            scales = name.endswith("weight") and parameter.ndim == 1
            torch.nn.init.normal_(parameter, mean=float(scales), std=0.2)
    model.save_pretrained(folder)
    processor(processor_name).save_pretrained(folder)
    return model


def linear(path: Path, width: int, prefix: str = "", labels: list[str] | None = LABELS, **said: str) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    held = {"weight": rng.normal(0, 1, (3, width)).astype(np.float32), "bias": rng.normal(0, 1, 3).astype(np.float32)}
    named = {} if labels is None else {"labels": json.dumps(labels)}
    save_file({f"{prefix}{name}": value for name, value in held.items()}, path, metadata={**named, **said})
    return held
