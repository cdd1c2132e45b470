"""Detectors of types that detector_world does not have, tiny."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detector_world import _DETR, _SIZE, CLASSES, _resnet, _rt_detr

_VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 16}


def dab_detr(t: Any) -> tuple[Any, Any]:
    sizes = {name: value for name, value in _DETR.items() if name not in ("d_model", "use_timm_backbone")}
    config = t.DabDetrConfig(backbone_config=_resnet(["stage4"]), id2label=CLASSES, hidden_size=32, **sizes)
    return t.DabDetrForObjectDetection(config), t.ConditionalDetrImageProcessor(size=_SIZE)


def table_transformer(t: Any) -> tuple[Any, Any]:
    config = t.TableTransformerConfig(backbone_config=_resnet(["stage4"]), id2label=CLASSES, **_DETR)
    return t.TableTransformerForObjectDetection(config), t.DetrImageProcessor(size=_SIZE)


def d_fine(t: Any) -> tuple[Any, Any]:
    model, images = _rt_detr(t, "DFine")
    stages = {
        **{"embedding_size": 8, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16], "stem_channels": [3, 8, 8]},
        **{"stage_in_channels": [8, 8, 8, 16], "stage_mid_channels": [4] * 4, "stage_out_channels": [8, 8, 16, 16]},
        **{
            "stage_num_blocks": [1] * 4,
            "stage_downsample": [False, True, True, True],
            "stage_light_block": [False] * 4,
        },
        **{"stage_kernel_size": [3] * 4, "stage_numb_of_layers": [2] * 4, "stage_downsample_strides": [2] * 4},
    }
    backbone = t.HGNetV2Config(out_features=["stage2", "stage3", "stage4"], **stages)
    config = t.DFineConfig(**{**model.config.to_dict(), "backbone_config": backbone})
    return t.DFineForObjectDetection(config), images


def deimv2(t: Any) -> tuple[Any, Any]:
    return _rt_detr(t, "Deimv2")


def _lw(t: Any, version: str, backbone: Any, **more: Any) -> tuple[Any, Any]:
    config = getattr(t, f"{version}Config")(
        backbone_config=backbone,
        id2label=CLASSES,
        d_model=32,
        decoder_layers=2,
        decoder_ffn_dim=16,
        decoder_self_attention_heads=2,
        decoder_cross_attention_heads=2,
        num_queries=6,
        group_detr=2,
        **more,
    )
    sides = {"height": 64, "width": 64}
    return getattr(t, f"{version}ForObjectDetection")(config), t.DeformableDetrImageProcessor(size=sides)


def lw_detr(t: Any) -> tuple[Any, Any]:
    return _lw(
        t,
        "LwDetr",
        t.LwDetrViTConfig(**_VIT, num_windows=4, out_indices=[1, 2], window_block_indices=[0]),
        projector_scale_factors=[1.0],
    )


def rf_detr(t: Any) -> tuple[Any, Any]:
    return _lw(t, "RfDetr", t.RfDetrDinov2Config(**_VIT, num_windows=2, out_indices=[1, 2]))


KINDS = {
    one.__name__.replace("_", "-") if one.__name__ in ("dab_detr", "table_transformer") else one.__name__: one
    for one in (dab_detr, table_transformer, d_fine, deimv2, lw_detr, rf_detr)
}


def save(kind: str, folder: Path) -> None:
    import torch
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model, processor = KINDS[kind](transformers)
        for name, weights in model.named_parameters():  # as they are drawn, all boxes are nearly one
            if weights.ndim == 2 and any(head in name for head in ("bbox", "class", "label")):
                weights.data.normal_(std=1.5 * weights.shape[1] ** -0.5)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
