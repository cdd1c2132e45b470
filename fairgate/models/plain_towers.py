"""Two towers of any type that transformers opens, by its features of pictures and texts. For the isolated process."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    MAX_SIDE,
    Device,
    Encoder,
    TransformersFolder,
    class_of_task,
    encoder_of,
    load_parts,
    of_processor,
    on_device,
    scoring,
)

_PROMPTS = ("a photo of a person", "a", "two dogs that play in the snow near a red house", "an engineer")
_PICTURES = ((64, 64), (97, 61), (40, 120))  # height and width
_NEAR = {"fp32": 1e-4, "amp_bf16": 5e-2, "amp_fp16": 1e-2}
"""How far logits may be from the library's own, relative to the largest: the order of sums, and the roundings of half
precision in towers of some dozens of layers."""


def load(found: TransformersFolder, device: Device) -> Encoder:
    """The encoder. Raises ModelError for a model without features of pictures and texts, and for one whose own logits
    are not a scale times the cosine of its features, plus a bias."""
    model, processor, tokenizer = load_parts(class_of_task(found, "MODEL_MAPPING"), found, device)
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        raise _no_towers(found, f"{type(model).__name__} gives no features of pictures and of texts")
    takes = frozenset(inspect.signature(model.get_text_features).parameters)
    text_config = model.config.get_text_config()
    limits = [getattr(text_config, "max_position_embeddings", MAX_SIDE), tokenizer.model_max_length, MAX_SIDE]
    length = int(min(limits))

    def tokens(prompts: Sequence[str]) -> Mapping[str, Any]:
        cut = tokenizer(list(prompts), return_tensors="pt", padding="max_length", truncation=True, max_length=length)
        return {"ids": cut["input_ids"], **{name: cut[name] for name in takes & cut.keys() if name != "input_ids"}}

    def texts(given: Mapping[str, Any]) -> torch.Tensor:
        more = {name: given[name] for name in given if name != "ids"}
        return _features(model.get_text_features(input_ids=given["ids"], **more))

    def images(pixels: torch.Tensor) -> torch.Tensor:
        return _features(model.get_image_features(pixel_values=pixels))

    scale = None if hasattr(model, "logit_scale") else 1.0
    encoder = encoder_of(
        model,
        device,
        vocabulary=int(text_config.vocab_size),
        prepare=of_processor(processor),
        images=images,
        tokens=tokens,
        texts=texts,
        scale=scale,
    )
    with scoring(device):
        _require_own_logits(model, encoder, found, device)
    return encoder


def _features(output: Any) -> torch.Tensor:
    features: torch.Tensor = getattr(output, "pooler_output", output)
    return features


def _require_own_logits(model: Any, encoder: Encoder, found: TransformersFolder, device: Device) -> None:
    """Raises ModelError unless the library's forward pass gives the encoder's logits on some pictures and prompts."""
    from PIL import Image

    noise = np.random.default_rng(0)
    pictures = [
        encoder.prepare(Image.fromarray(noise.integers(0, 256, (*sides, 3), dtype=np.uint8))) for sides in _PICTURES
    ]
    tokens = {name: value.to(device.name) for name, value in encoder.tokens(_PROMPTS).items()}
    ids = tokens.pop("ids")
    outputs = model(input_ids=ids, pixel_values=on_device(pictures, device), **tokens)
    logits = getattr(outputs, "logits_per_image", None)
    if logits is None:
        raise _no_towers(found, f"{type(model).__name__} does not say how alike pictures and texts are")
    wanted = logits.float().cpu().numpy()
    here = [_unit(encoder.encode_images(pictures)), _unit(encoder.encode_tokens({"ids": ids, **tokens}))]
    ours = encoder.scale * (here[0] @ here[1].T) + encoder.bias
    near = wanted.shape == ours.shape and np.abs(ours - wanted).max() <= _NEAR[device.precision] * np.abs(wanted).max()
    if not near:
        raise _no_towers(found, "its own logits are not those of its features: a scale times their cosine, plus a bias")


def _unit(rows: Any) -> Any:
    wide = np.asarray(rows, dtype=np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def _no_towers(found: TransformersFolder, reason: str) -> ModelError:
    return ModelError(
        f"the {found.kind[:80]} cannot be judged as two towers: {reason}.",
        where=str(found.path),
        remedy="judge a table of its scores: scores:FILE?values=cosine",
    )
