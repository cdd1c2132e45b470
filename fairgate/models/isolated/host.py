"""What the isolated process runs: a model as its library opens it, and answers to the parent's questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image

from fairgate.models.checkpoints import Device, HashedFiles, TransformersFolder, require_device, scoring
from fairgate.models.classifiers.fixed_labels import Loaded
from fairgate.models.isolated.messages import Answers, Opened


def opened(kind: str, named: Any, device: Device, *more: Any) -> Opened:
    """What is opened of a folder, or of settings, on a device: facts, and answers. Pictures in questions are given as
    their levels."""
    require_device(device)
    facts, functions = _OPENED[kind](named, device, *more)
    # on a GPU what is told runs beside the rest, in another thread, and torch's settings are the whole process's
    beside = _TOLD if device.is_cuda else frozenset()
    alone = {name: scoring(device)(function) for name, function in functions.items() if name not in beside}
    return facts, {**functions, **alone}


def _of_pictures(found: TransformersFolder, device: Device, load: Callable[..., Loaded], *more: Any) -> Opened:
    model = load(found, device, *more)
    return {}, _about_pictures(model.prepare, model.outputs)


def _towers(found: TransformersFolder, device: Device, load: Callable[..., Any]) -> Opened:
    encoder = load(found, device)
    facts = {"scale": encoder.scale, "bias": encoder.bias, "vocabulary": encoder.vocabulary}
    return facts, {
        "tokens": encoder.tokens,
        "texts": lambda tokens: encoder.encode_tokens(_tensors(tokens)),
        **_about_pictures(encoder.prepare, encoder.encode_images),
    }


def _detector(found: TransformersFolder, device: Device) -> Opened:
    from fairgate.models.detection.engine import DetectorEngine

    engine = DetectorEngine(found, device)
    return {}, {"boxes": lambda levels, name: np.stack(engine.boxes(_pictures(levels), name))}


def _seeing(found: TransformersFolder, device: Device, asking: Any, seed: int) -> Opened:
    from fairgate.models.vlm.seeing import open_seeing

    model = open_seeing(found, asking, device, seed)

    kept = dict[int, Any]()

    def keep(number: int, levels: Any, message: str | None) -> None:
        kept[number] = lambda: model.inputs(Image.fromarray(levels), message)
        with suppress(Exception):  # of any type: raised again where the answer is waited for
            inputs(number)

    def inputs(number: int) -> Any:
        if callable(kept[number]):
            kept[number] = kept[number]()  # and the picture, which is often larger, is let go
        return kept[number]

    def of_kept(function: Callable[..., Any], numbers: Sequence[int], *given: Any) -> Any:
        for number in list(kept):  # what was asked about before; later ones may be asked about again, by halves
            if number < numbers[0]:
                del kept[number]
        return function([inputs(number) for number in numbers], *given)

    with scoring(device):
        facts = {"shares": model.shares, "unused": model.unused}
    return facts, {
        "tokens": model.tokens,
        "keep": keep,
        "likelihoods": partial(of_kept, model.log_likelihoods),
        "answers": partial(of_kept, model.answers),
    }


def _painter(settings: Mapping[str, Any], device: Device, files: HashedFiles) -> Opened:
    from fairgate.models.generation.plain_painting import PlainPainter

    return {}, {"paint": PlainPainter(settings, files, device).paint}


_TOLD = frozenset({"keep"})
"""Functions whose answers nobody waits for."""
_OPENED: Mapping[str, Callable[..., Opened]] = {
    "pictures": _of_pictures,
    "towers": _towers,
    "detector": _detector,
    "vlm": _seeing,
    "painter": _painter,
}


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
