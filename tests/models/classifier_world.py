"""Image classifiers as transformers, timm and torchvision save them: tiny, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

LABELS = ["Chef", "line_cook", "doctor"]
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "image_size": 32,
    "patch_size": 16,
}
STAGES: dict[str, Any] = {"hidden_sizes": [8, 8], "depths": [1, 1]}
SWIN: dict[str, Any] = {
    "embed_dim": 8,
    "depths": [1, 1],
    "num_heads": [1, 1],
    "window_size": 4,
    "image_size": 32,
    "patch_size": 4,
}
NAFLEX = {name: value for name, value in SMALL.items() if name != "image_size"}

KINDS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "vit": ("ViTConfig", "ViTForImageClassification", "ViTImageProcessor", SMALL),
    "deit": ("DeiTConfig", "DeiTForImageClassification", "DeiTImageProcessor", SMALL),
    "convnext": (
        "ConvNextConfig",
        "ConvNextForImageClassification",
        "ConvNextImageProcessor",
        {**STAGES, "num_stages": 2},
    ),
    "convnextv2": (
        "ConvNextV2Config",
        "ConvNextV2ForImageClassification",
        "ConvNextImageProcessor",
        {**STAGES, "num_stages": 2},
    ),
    "dinov2": ("Dinov2Config", "Dinov2ForImageClassification", "BitImageProcessor", SMALL),
    "dinov2_with_registers": (
        "Dinov2WithRegistersConfig",
        "Dinov2WithRegistersForImageClassification",
        "BitImageProcessor",
        SMALL,
    ),
    "swin": ("SwinConfig", "SwinForImageClassification", "ViTImageProcessor", SWIN),
    "swinv2": ("Swinv2Config", "Swinv2ForImageClassification", "ViTImageProcessor", SWIN),
    "resnet": (
        "ResNetConfig",
        "ResNetForImageClassification",
        "ConvNextImageProcessor",
        {**STAGES, "embedding_size": 8, "layer_type": "basic"},
    ),
    "clip": ("CLIPConfig", "CLIPForImageClassification", "CLIPImageProcessor", {"vision_config": SMALL}),
    "siglip": ("SiglipConfig", "SiglipForImageClassification", "SiglipImageProcessor", {"vision_config": SMALL}),
    "siglip2": (
        "Siglip2Config",
        "Siglip2ForImageClassification",
        "Siglip2ImageProcessor",
        {"vision_config": {**NAFLEX, "num_patches": 16}},
    ),
}


def save_classifier(kind: str, folder: Path, labels: list[str] = LABELS, **more: Any) -> Path:
    """As `save_pretrained` writes model and image processor."""
    import transformers

    config_name, model_name, processor_name, settings = KINDS[kind]
    named = {"id2label": dict(enumerate(labels)), "label2id": {name: place for place, name in enumerate(labels)}}
    with torch.random.fork_rng():
        torch.manual_seed(4)
        config = getattr(transformers, config_name)(**settings, **named, **more)
        model = getattr(transformers, model_name)(config)
        for name, parameter in model.named_parameters():
            scales = name.endswith("weight") and parameter.ndim == 1
            torch.nn.init.normal_(parameter, mean=float(scales), std=0.2)
    model.save_pretrained(folder)
    processor(processor_name).save_pretrained(folder)
    return folder


def processor(name: str) -> Any:
    import transformers

    size = {"height": 32, "width": 32}
    options: dict[str, Any] = {"size": size}
    if name in ("BitImageProcessor", "CLIPImageProcessor"):
        options = {"size": {"shortest_edge": 32}, "crop_size": size}
    if name == "ConvNextImageProcessor":
        options = {"size": {"shortest_edge": 32}, "crop_pct": 1.0}
    if name == "DeiTImageProcessor":
        options = {"size": size, "crop_size": size}
    if name == "Siglip2ImageProcessor":
        options = {"patch_size": 16, "max_num_patches": 16}
    return getattr(transformers, name)(**options)


def save_timm(architecture: str, folder: Path, labels: list[str] = LABELS, **arguments: Any) -> Any:
    """As timm writes it for the hub; returns the model."""
    import timm
    from timm.models import save_for_hf

    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = timm.create_model(architecture, pretrained=False, num_classes=len(labels), **arguments).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
    save_for_hf(model, folder, model_config={"label_names": labels}, safe_serialization=True)
    return model
