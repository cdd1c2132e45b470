"""Detectors as transformers saves them: every layout, tiny, with seeded random weights, processor and tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CLASSES = {0: "N/A", 1: "person", 2: "car"}
_HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
_DETR = {
    **{"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16},
    **{"num_queries": 6, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, **_HEADS},
}
_SIZE = {"shortest_edge": 64, "longest_edge": 96}


def _resnet(stages: list[str]) -> Any:
    from transformers import ResNetConfig

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
    return ResNetConfig(layer_type="basic", out_features=stages, **sizes)


def detr(t: Any) -> tuple[Any, Any]:
    config = t.DetrConfig(backbone_config=_resnet(["stage4"]), id2label=CLASSES, **_DETR)
    return t.DetrForObjectDetection(config), t.DetrImageProcessor(size=_SIZE)


def conditional_detr(t: Any) -> tuple[Any, Any]:
    config = t.ConditionalDetrConfig(backbone_config=_resnet(["stage4"]), id2label=CLASSES, **_DETR)
    return t.ConditionalDetrForObjectDetection(config), t.ConditionalDetrImageProcessor(size=_SIZE)


def deformable_detr(t: Any) -> tuple[Any, Any]:
    stages = ["stage2", "stage3", "stage4"]
    config = t.DeformableDetrConfig(backbone_config=_resnet(stages), id2label=CLASSES, **_DETR)
    return t.DeformableDetrForObjectDetection(config), t.DeformableDetrImageProcessor(size=_SIZE)


def _rt_detr(t: Any, version: str) -> tuple[Any, Any]:
    stages = ["stage2", "stage3", "stage4"]
    backbone = t.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=stages
    )
    config = getattr(t, f"{version}Config")(
        backbone_config=backbone,
        id2label=CLASSES,
        encoder_in_channels=[8, 16, 16],
        encoder_hidden_dim=16,
        encoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_in_channels=[16, 16, 16],
        d_model=16,
        num_queries=6,
        decoder_layers=2,
        decoder_ffn_dim=16,
        decoder_attention_heads=2,
        num_denoising=0,
    )
    sides = {"height": 64, "width": 64}
    return getattr(t, f"{version}ForObjectDetection")(config), t.RTDetrImageProcessor(size=sides)


def rt_detr(t: Any) -> tuple[Any, Any]:
    return _rt_detr(t, "RTDetr")


def rt_detr_v2(t: Any) -> tuple[Any, Any]:
    return _rt_detr(t, "RTDetrV2")


def yolos(t: Any) -> tuple[Any, Any]:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = t.YolosConfig(image_size=[64, 64], patch_size=16, num_detection_tokens=6, id2label=CLASSES, **sizes)
    return t.YolosForObjectDetection(config), t.YolosImageProcessor(size=_SIZE)


def _owl(t: Any, version: str, words: Any) -> tuple[Any, Any]:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = getattr(t, f"{version}Config")(
        text_config={**sizes, "vocab_size": len(words), "max_position_embeddings": 16, "eos_token_id": 2},
        vision_config={**sizes, "image_size": 64, "patch_size": 16},
        projection_dim=16,
    )
    images = getattr(t, f"{version}ImageProcessor")(size={"height": 64, "width": 64})
    return getattr(t, f"{version}ForObjectDetection")(config), getattr(t, f"{version}Processor")(images, words)


def owlvit(t: Any) -> tuple[Any, Any]:
    from vlm_world import tokenizer

    return _owl(t, "OwlViT", tokenizer("</s>"))


def owlv2(t: Any) -> tuple[Any, Any]:
    from vlm_world import tokenizer

    return _owl(t, "Owlv2", tokenizer("</s>"))


_MADE = (detr, conditional_detr, deformable_detr, rt_detr, rt_detr_v2, yolos, owlvit, owlv2)
KINDS = {one.__name__: one for one in _MADE}


def save_detector(kind: str, folder: Path) -> Path:
    """A tiny model of a kind with seeded random weights, its processor and tokenizer."""
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with torch.random.fork_rng():
        torch.manual_seed(5)
        if kind.endswith("grounding-dino"):
            import sys

            sys.path.append(str(Path(__file__).parents[0] / "generation"))
            from perceiver_world import save_grounding_dino

            save_grounding_dino(folder, "MMGroundingDino" if kind.startswith("mm") else "GroundingDino")
            return folder
        model, processor = KINDS[kind](transformers)
        for name, weights in model.named_parameters():  # as they are drawn, all boxes are nearly one
            if weights.ndim == 2 and any(head in name for head in ("bbox", "box_head", "class", "label")):
                weights.data.normal_(std=1.5 * weights.shape[1] ** -0.5)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
