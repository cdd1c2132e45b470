"""What the isolated process runs: a model as its library opens it, and answers to the parent's questions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import torch
from PIL import Image

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
    require_device,
    scoring,
)
from fairgate.models.isolated.messages import answer_questions, files_of_data, folder_of_data
from fairgate.models.two_towers import unit

Answers = Mapping[str, Callable[..., Any]]
"""By the name of a question, the function that answers it. Pictures are given as their levels."""
_TRIED_PROMPTS = ("a photo of a person", "a", "two dogs that play in the snow near a red house", "an engineer")
_TRIED_SIDES = ((64, 64), (97, 61), (40, 120))  # height and width
_NEAR = {"fp32": 1e-4, "amp_bf16": 5e-2, "amp_fp16": 1e-2}
"""How far logits may be from the library's own, relative to the largest: the order of sums, and the roundings of half
precision in towers of some dozens of layers."""


def serve(task: Mapping[str, Any], missing: Sequence[str], questions: BinaryIO, answers: BinaryIO) -> None:
    """Open what `task` describes, and answer until nobody asks."""
    device = Device(**task["device"])

    def opened() -> tuple[Mapping[str, Any], Answers]:
        require_device(device)
        if task["scheme"] == "diffusion":
            from fairgate.models.generation.plain_painting import PlainPainter

            painter = PlainPainter(task["settings"], files_of_data(task["files"]), device)
            return {}, {"paint": scoring(device)(painter.paint)}
        facts, functions = _OPENED[task["scheme"]](folder_of_data(task["folder"]), device, **task["options"])
        return facts, {name: scoring(device)(function) for name, function in functions.items()}

    answer_questions(opened, missing, questions, answers)


def _classifier(found: TransformersFolder, device: Device) -> tuple[Mapping[str, Any], Answers]:
    from fairgate.models.classifiers.transformers_classifier import load

    model = load(found, device)
    return {}, _about_pictures(model.prepare, model.outputs)


def load_encoder(found: TransformersFolder, device: Device, pool: str) -> tuple[Mapping[str, Any], Answers]:
    """The library's own features of pictures (`get_image_features`, or what its model pools), or all tokens' mean."""
    model, processor, _ = load_parts(class_of_task(found, "MODEL_MAPPING"), found, device, texts=False)

    def outputs(prepared: Sequence[Any]) -> Any:
        pixels = on_device(prepared, device)
        features: torch.Tensor | None
        if pool == "pooled" and hasattr(model, "get_image_features"):
            features = _features(model.get_image_features(pixel_values=pixels))
        elif pool == "pooled":
            features = getattr(model(pixel_values=pixels), "pooler_output", None)
        else:
            tokens = model(pixel_values=pixels).last_hidden_state
            features = tokens.mean(dim=1) if tokens.ndim == 3 else None
        if features is None:
            raise ModelError(
                f"{type(model).__name__} gives no features that are {pool}.",
                where=str(found.path),
                remedy="write ?pool=mean or pooled, or judge a table of the head's answers: labels: or scores:FILE",
            )
        return features.flatten(1).float().cpu().numpy()

    prepare = of_processor(processor)
    with scoring(device):
        _require_repeatable(prepare, outputs, found, device)
    return {}, _about_pictures(prepare, outputs)


def _require_repeatable(prepare: Any, outputs: Any, found: TransformersFolder, device: Device) -> None:
    """Raises ModelError for a model that draws at random, as one that hides parts of every picture (ViTMAE)."""
    shown = [prepare(_noise()[0])] * 8  # of few patches the same ones may be hidden twice
    rows = np.concatenate([outputs(shown), outputs(shown)])
    if np.abs(rows - rows[0]).max() > _NEAR[device.precision] * np.abs(rows[0]).max():
        raise ModelError(
            f"a {found.kind[:80]} gives other features of the same picture each time.",
            where=str(found.path),
            remedy="turn off what it draws at random: of a vit_mae, write `mask_ratio` 0 into config.json",
        )


def _towers(found: TransformersFolder, device: Device) -> tuple[Mapping[str, Any], Answers]:
    encoder = load_towers(found, device)
    facts = {"scale": encoder.scale, "bias": encoder.bias, "vocabulary": encoder.vocabulary}
    return facts, {
        "tokens": encoder.tokens,
        "texts": lambda tokens: encoder.encode_tokens(_tensors(tokens)),
        **_about_pictures(encoder.prepare, encoder.encode_images),
    }


def _detector(found: TransformersFolder, device: Device) -> tuple[Mapping[str, Any], Answers]:
    from fairgate.models.detection.engine import DetectorEngine

    engine = DetectorEngine(found, device)
    return {}, {"boxes": lambda levels, name: np.stack(engine.boxes(_pictures(levels), name))}


def _seeing(found: TransformersFolder, device: Device, prompt: str) -> tuple[Mapping[str, Any], Answers]:
    from fairgate.models.vlm.plain import PlainVisionLanguage

    model = PlainVisionLanguage(found, prompt, device)

    def inputs(levels: Sequence[Any], messages: Sequence[str | None]) -> list[Any]:
        return [model.inputs(*each) for each in zip(_pictures(levels), messages, strict=True)]

    with scoring(device):
        facts = {"shares": model.shares}
    return facts, {
        "tokens": model.tokens,
        "likelihoods": lambda levels, messages, labels: model.log_likelihoods(inputs(levels, messages), labels),
        "answers": lambda levels, messages, longest: model.answers(inputs(levels, messages), longest),
    }


_OPENED: Mapping[str, Callable[..., tuple[Mapping[str, Any], Answers]]] = {
    "classifier": _classifier,
    "features": load_encoder,
    "hf": _towers,
    "detector": _detector,
    "vlm": _seeing,
}
"""By scheme: facts about a model, and its answers."""


def _about_pictures(prepare: Callable[[Any], Any], outputs: Callable[[Sequence[Any]], Any]) -> Answers:
    """Pictures to what the model takes, that to its outputs, or both."""

    def prepared(levels: Sequence[Any]) -> list[Any]:
        return [prepare(picture) for picture in _pictures(levels)]

    return {
        "prepare": prepared,
        "pictures": lambda levels: outputs(prepared(levels)),
        "prepared": lambda given: outputs([_tensors(each) for each in given]),
    }


def _pictures(levels: Sequence[Any]) -> list[Image.Image]:
    return [Image.fromarray(each) for each in levels]


def _tensors(arrays: Any) -> Any:
    """An array as a tensor, or arrays by name."""
    if isinstance(arrays, Mapping):
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
    return torch.from_numpy(arrays)


def load_towers(found: TransformersFolder, device: Device) -> Encoder:
    """Two towers of any type, by the library's features of pictures and texts. Raises ModelError for a model without
    them, and for one whose own logits are not a scale times the cosine of its features, plus a bias."""
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
    pictures = [encoder.prepare(picture) for picture in _noise()]
    tokens = {name: value.to(device.name) for name, value in encoder.tokens(_TRIED_PROMPTS).items()}
    ids = tokens.pop("ids")
    outputs = model(input_ids=ids, pixel_values=on_device(pictures, device), **tokens)
    logits = getattr(outputs, "logits_per_image", None)
    if logits is None:
        raise _no_towers(found, f"{type(model).__name__} does not say how alike pictures and texts are")
    wanted = logits.float().cpu().numpy()
    shown, said = encoder.encode_images(pictures), encoder.encode_tokens({"ids": ids, **tokens})
    cosines = unit(shown.astype(np.float64)) @ unit(said.astype(np.float64)).T
    ours = encoder.scale * cosines + encoder.bias
    near = wanted.shape == ours.shape and np.abs(ours - wanted).max() <= _NEAR[device.precision] * np.abs(wanted).max()
    if not near:
        raise _no_towers(found, "its own logits are not those of its features: a scale times their cosine, plus a bias")


def _noise() -> list[Image.Image]:
    draw = np.random.default_rng(0)
    return [Image.fromarray(draw.integers(0, 256, (*sides, 3), dtype=np.uint8)) for sides in _TRIED_SIDES]


def _no_towers(found: TransformersFolder, reason: str) -> ModelError:
    return ModelError(
        f"the {found.kind[:80]} cannot be judged as two towers: {reason}.",
        where=str(found.path),
        remedy="judge a table of its scores: scores:FILE?values=cosine",
    )
