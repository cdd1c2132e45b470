"""Image classifiers of every type that transformers has, tiny: the hub's published models of each, and its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

LABELS = ["chef", "doctor", "nurse"]
SIDE = 32
_VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
_VIT |= {"image_size": SIDE, "patch_size": 8}
_TOWER = {**_VIT, "projection_dim": 16}
_STAGES = {"depths": (1, 1, 1, 1), "hidden_sizes": (8, 16, 24, 32)}
_HEADS = {**_STAGES, "num_attention_heads": (1, 2, 2, 4)}
_SWIN = {"embed_dim": 8, "depths": (1, 1), "num_heads": (1, 2), "window_size": 4, "image_size": SIDE, "patch_size": 4}

SIZES: Mapping[str, Mapping[str, Any]] = {
    "beit": _VIT,
    "bit": {"embedding_size": 8, "hidden_sizes": (8, 16), "depths": (1, 1), "num_groups": 2},
    "clip": {"vision_config": _TOWER},
    "convnext": {**_STAGES, "image_size": SIDE},
    "convnextv2": {**_STAGES, "image_size": SIDE},
    "cvt": {"embed_dim": (8, 16, 24), "num_heads": (1, 2, 3), "depth": (1, 2, 3)},
    "data2vec-vision": {**_VIT, "out_indices": (1,)},
    "deit": _VIT,
    "dinov2": _VIT,
    "dinov2_with_registers": _VIT,
    "donut-swin": _SWIN,
    "efficientnet": {
        **{"image_size": SIDE, "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280},
        **{"in_channels": (32, 8), "out_channels": (8, 16), "kernel_sizes": (3, 3), "strides": (1, 2)},
        **{"num_block_repeats": (1, 1), "expand_ratios": (1, 2), "num_hidden_layers": 2},
    },
    "focalnet": {
        **{"embed_dim": 8, "depths": (1, 1), "hidden_sizes": (8, 16), "focal_levels": (1, 1), "image_size": SIDE},
        "focal_windows": (3, 3),
    },
    "hgnet_v2": {
        **{"embedding_size": 8, "depths": (1, 1), "hidden_sizes": (8, 16), "stem_channels": (3, 8, 8)},
        **{"stage_in_channels": (8, 8), "stage_mid_channels": (4, 4), "stage_out_channels": (8, 16)},
        **{"stage_num_blocks": (1, 1), "stage_downsample": (False, True), "stage_downsample_strides": (2, 2)},
        **{"stage_light_block": (False, True), "stage_kernel_size": (3, 5), "stage_numb_of_layers": (2, 2)},
    },
    "hiera": {
        **{"embed_dim": 8, "image_size": (64, 64), "depths": (1, 1, 1), "num_heads": (1, 2, 4), "num_query_pool": 2},
        "masked_unit_attention": (True, True, False),
    },
    "ijepa": _VIT,
    "imagegpt": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": SIDE * SIDE},
    "levit": {
        **{"image_size": SIDE, "hidden_sizes": (16, 24, 32), "num_attention_heads": (1, 2, 2), "depths": (1, 1, 1)},
        "key_dim": (8, 8, 8),
    },
    "metaclip_2": {"vision_config": _TOWER},
    "mobilenet_v1": {"depth_multiplier": 0.25, "image_size": SIDE},
    "mobilenet_v2": {"depth_multiplier": 0.25, "image_size": SIDE},
    "mobilevit": {"hidden_sizes": (16, 24, 32), "neck_hidden_sizes": (8, 8, 8, 16, 16, 16, 32), "image_size": 64},
    "mobilevitv2": {"width_multiplier": 0.25, "base_attn_unit_dims": (32, 32, 32), "image_size": 64},
    "perceiver": {
        **{"num_latents": 4, "d_latents": 16, "num_self_attends_per_block": 1, "num_self_attention_heads": 2},
        **{"num_cross_attention_heads": 1, "image_size": 224},
    },
    "poolformer": {"depths": (1, 1, 1, 1), "hidden_sizes": (8, 16, 24, 32)},
    "pp_lcnet": {
        "block_configs": [[[3, 16, 16, 1, False]], *([[3, 16, 16, 2, True]] for _ in range(4))],
        "class_expand": 32,
    },
    "pvt": {**_HEADS, "num_labels": 3, "image_size": SIDE, "mlp_ratios": (2, 2, 2, 2)},
    "pvt_v2": {**_HEADS, "image_size": (SIDE, SIDE), "mlp_ratios": (2, 2, 2, 2)},
    "regnet": {"embedding_size": 8, "hidden_sizes": (8, 16), "depths": (1, 1), "groups_width": 4},
    "resnet": {"embedding_size": 8, "hidden_sizes": (8, 16), "depths": (1, 1)},
    "segformer": {**_HEADS, "mlp_ratios": (2, 2, 2, 2), "decoder_hidden_size": 16},
    "siglip": {"vision_config": _VIT},
    "siglip2": {"vision_config": {**_VIT, "patch_size": 16, "num_patches": 16}},
    "swiftformer": {"depths": (1, 1, 1, 1), "embed_dims": (8, 16, 24, 32), "image_size": SIDE},
    "swin": _SWIN,
    "swinv2": _SWIN,
    "textnet": {
        **{"stem_out_channels": 8, "image_size": (64, 64), "hidden_sizes": (8, 8, 16), "depths": (1, 1)},
        **{"conv_layer_kernel_sizes": [[[3, 3]], [[1, 3]]], "conv_layer_strides": [[2], [2]]},
    },
    "vit": _VIT,
    "vit_msn": _VIT,
}


def fill(model: Any, gain: float = 1.0) -> None:
    """Random numbers by which each part of a network changes its outputs: a head that begins with zeros, or norms that
    change nothing, would hide that something before them is lost."""
    import torch

    for name, weight in [*model.named_parameters(), *model.named_buffers()]:
        if not weight.is_floating_point():
            continue
        if weight.dim() > 1:
            spread = gain * (2 * weight.shape[0] / weight.numel()) ** 0.5
            weight.data.copy_(torch.randn(weight.shape) * spread)
        else:
            weight.data.add_(0.1 * (torch.rand(weight.shape) if "var" in name else torch.randn(weight.shape)))


GAINS: Mapping[str, float] = {
    **{
        "efficientnet": 12.0,
        "levit": 0.7,
        "mobilenet_v1": 12.0,
        "mobilevit": 10.0,
        "mobilevitv2": 12.0,
        "swiftformer": 0.5,
    }
}
"""Of the weights, where others leave an output that all pictures share, or none."""
_SHORTEST_EDGE = (
    "bit",
    "convnext",
    "convnextv2",
    "cvt",
    "regnet",
    "resnet",
    "textnet",
    "levit",
    "poolformer",
    "pvt_v2",
)


def save(kind: str, folder: Path) -> None:
    """A model with small random weights, and its image processor, as their libraries save them."""
    import torch
    import transformers as t
    from transformers.models.auto import image_processing_auto, modeling_auto

    sizes = dict(SIZES[kind])
    names = modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES[kind]
    labels = {"id2label": dict(enumerate(LABELS)), "label2id": {label: place for place, label in enumerate(LABELS)}}
    config = t.CONFIG_MAPPING[kind](**sizes, **labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = getattr(t, names if isinstance(names, str) else names[0])(config).eval()
        fill(model, GAINS.get(kind, 1.0))
    model.save_pretrained(folder)
    given = image_processing_auto.IMAGE_PROCESSOR_MAPPING_NAMES.get(kind) or {"torchvision": "ViTImageProcessor"}
    side = sizes.get("image_size", SIDE)
    height, width = side if isinstance(side, tuple) else (side, side)
    make = getattr(t, given.get("torchvision") or given["pil"])
    square = {"height": height, "width": width}
    options: dict[str, Any] = {"size": square, "crop_size": square}
    if kind in _SHORTEST_EDGE:
        options = {"size": {"shortest_edge": height}, "crop_size": square}
    if kind == "imagegpt":
        options["clusters"] = [[place % 8 / 4 - 1, place // 8 % 8 / 4 - 1, place // 64 / 4 - 1] for place in range(512)]
    make(**options).save_pretrained(folder)
