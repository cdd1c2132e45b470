"""Tiny models that judge pictures, with random weights, saved as the published ones are; photographs to try them on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

REAL = Path(__file__).parents[3] / "../shared/real"
PHOTOS = REAL / "fairface_photos"
ANSWERS = ["yes", "no", "real", "fake", "3"]
QUESTIONS = ["Is there a doctor in this image?", "Are this person's limbs distorted?", "Is this image real or fake?"]
_WORDS = [
    *("is", "there", "a", "doctor", "in", "this", "image", "are", "person", "'", "s", "limbs", "distorted"),
    *("real", "or", "fake", "chef", "photo", "of", "?", ".", ","),
]
_TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
_MASKS = {"hidden_size": 16, "mlp_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "iou_head_hidden_dim": 16}
_HIERA = {
    **{"hidden_size": 16, "num_attention_heads": 1, "image_size": [64, 64], "blocks_per_stage": [1, 1, 2, 1]},
    **{"embed_dim_per_stage": [16, 32, 64, 128], "num_attention_heads_per_stage": [1, 2, 2, 4]},
    **{"window_size_per_stage": [4, 4, 4, 4], "global_attention_blocks": [3]},
    "window_positional_embedding_background_size": [2, 2],
}
_IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def portrait(seed: int, size: tuple[int, int] = (96, 80)) -> Image.Image:
    """A smooth picture: a bright disc on a gradient, unlike any other seed's."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : size[1], 0 : size[0]]
    ground = 60 + 80 * x[..., None] / size[0] * rng.random(3) + 60 * y[..., None] / size[1] * rng.random(3)
    centre, radius = rng.uniform(0.3, 0.7, 2) * size, 0.25 * min(size)
    disc = (x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2
    ground[disc] = 120 + 120 * rng.random(3)
    return Image.fromarray(ground.astype(np.uint8))


def bert_tokenizer(folder: Path) -> Any:
    """A BertTokenizer with a vocabulary of a few words, through the vocab.txt that published models have."""
    from transformers import BertTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS]) + "\n", encoding="utf-8"
    )
    return BertTokenizer.from_pretrained(folder, do_lower_case=True)


def save_vilt(folder: Path) -> None:
    from transformers import ViltConfig, ViltForQuestionAnswering, ViltImageProcessor, ViltProcessor

    labels = dict(enumerate(ANSWERS))
    config = ViltConfig(
        **_TEXT,
        vocab_size=40,
        image_size=64,
        patch_size=16,
        max_position_embeddings=24,
        id2label=labels,
        label2id={label: number for number, label in labels.items()},
        initializer_range=0.2,
    )
    ViltForQuestionAnswering(config).save_pretrained(folder)
    processor = ViltImageProcessor(size={"shortest_edge": 64}, size_divisor=16)
    ViltProcessor(processor, bert_tokenizer(folder)).save_pretrained(folder)


def save_grounding_dino(folder: Path, version: str = "GroundingDino") -> None:
    import transformers
    from transformers import GroundingDinoImageProcessor, GroundingDinoProcessor, SwinConfig

    stages = ["stage2", "stage3", "stage4"]
    swin = SwinConfig(
        image_size=64, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 2], window_size=4, out_features=stages
    )
    heads = {f"{half}_attention_heads": 2 for half in ("encoder", "decoder")}
    points = {f"{half}_n_points": 2 for half in ("encoder", "decoder")}
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    config = getattr(transformers, f"{version}Config")(
        backbone_config=swin,
        text_config={**_TEXT, "model_type": "bert", "vocab_size": 40, "max_position_embeddings": 64},
        num_queries=9,
        max_text_len=64,
        **sizes,
        **heads,
        **points,
    )
    getattr(transformers, f"{version}ForObjectDetection")(config).save_pretrained(folder)
    processor = GroundingDinoImageProcessor(size={"shortest_edge": 80, "longest_edge": 128})
    GroundingDinoProcessor(processor, bert_tokenizer(folder)).save_pretrained(folder)


def save_sam(folder: Path) -> None:
    from transformers import SamConfig, SamImageProcessor, SamModel, SamProcessor

    seen = {**_TEXT, "output_channels": 16, "image_size": 64, "patch_size": 8, "window_size": 4}
    config = SamConfig(
        vision_config={**seen, "global_attn_indexes": [1], "num_pos_feats": 8, "mlp_dim": 48, "initializer_range": 0.2},
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 8},
        mask_decoder_config=_MASKS,
    )
    SamModel(config).save_pretrained(folder)
    sides = {"height": 64, "width": 64}
    SamProcessor(SamImageProcessor(size={"longest_edge": 64}, pad_size=sides)).save_pretrained(folder)


def save_sam2(folder: Path) -> None:
    from transformers import Sam2Config, Sam2HieraDetConfig, Sam2ImageProcessor, Sam2Model, Sam2Processor

    features = {"backbone_channel_list": [128, 64, 32, 16], "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]}
    config = Sam2Config(
        vision_config={"backbone_config": Sam2HieraDetConfig(**_HIERA), **features, "fpn_hidden_size": 16},
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 8},
        mask_decoder_config=_MASKS,
    )
    Sam2Model(config).save_pretrained(folder)
    sides = {"height": 64, "width": 64}
    Sam2Processor(Sam2ImageProcessor(size=sides, mask_size={"height": 16, "width": 16})).save_pretrained(folder)


def save_dinov2(folder: Path) -> None:
    from transformers import BitImageProcessor, Dinov2Config, Dinov2Model

    Dinov2Model(Dinov2Config(**_TEXT, image_size=32, patch_size=8, mlp_ratio=2)).save_pretrained(folder)
    crop = {"height": 32, "width": 32}
    BitImageProcessor(size={"shortest_edge": 36}, crop_size=crop, **_IMAGENET).save_pretrained(folder)


def save_dino(folder: Path) -> None:
    """DINO's ViT as it was published: without the pooling layer."""
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    ViTModel(ViTConfig(**_TEXT, image_size=32, patch_size=8), add_pooling_layer=False).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}, **_IMAGENET).save_pretrained(folder)


KINDS: dict[str, Callable[[Path], None]] = {
    "vilt": save_vilt,
    "grounding_dino": save_grounding_dino,
    "sam": save_sam,
    "sam2": save_sam2,
    "dinov2": save_dinov2,
    "dino": save_dino,
}


def save_perceiver(kind: str, folder: Path) -> Path:
    """A tiny model of a kind with seeded random weights, its processor and tokenizer."""
    import torch
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with torch.random.fork_rng():
        torch.manual_seed(5)
        KINDS[kind](folder)
    return folder


def edit(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file; None takes one out."""
    held = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in held.items() if value is not None}))
