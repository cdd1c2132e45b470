"""What the isolated process runs: a model as its library opens it, and answers to the parent's questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fairgate.models.checkpoints import Device, Encoder, HashedFiles, TransformersFolder, require_device, scoring
from fairgate.models.isolated.folder_data import files_of_data, folder_of_data
from fairgate.models.isolated.messages import receive, reply

Arrays = Mapping[str, NDArray[Any]]
Question = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A loaded model: `facts` about it, and what it answers."""

    facts: Mapping[str, Any]
    answer: Callable[[Question, Arrays], Mapping[str, Any]]


def _classifier(found: TransformersFolder, device: Device) -> OpenedModel:
    from fairgate.models.classifiers.transformers_classifier import load

    model = load(found, device)
    return OpenedModel({}, lambda question, arrays: _of_pictures(model.prepare, model.outputs, question, arrays))


def _towers(found: TransformersFolder, device: Device) -> OpenedModel:
    from fairgate.models.plain_towers import load

    encoder: Encoder = load(found, device)

    def answer(question: Question, arrays: Arrays) -> Mapping[str, Any]:
        if question["what"] == "tokens":
            return encoder.tokens(question["prompts"])
        if question["what"] == "texts":
            return {"outputs": encoder.encode_tokens({name: torch.from_numpy(ids) for name, ids in arrays.items()})}
        return _of_pictures(encoder.prepare, encoder.encode_images, question, arrays)

    return OpenedModel({"scale": encoder.scale, "bias": encoder.bias, "vocabulary": encoder.vocabulary}, answer)


def _detector(found: TransformersFolder, device: Device) -> OpenedModel:
    from fairgate.models.detection.engine import DetectorEngine

    engine = DetectorEngine(found, device)
    return OpenedModel(
        {}, lambda question, arrays: {"boxes": np.stack(engine.boxes(_pictures(arrays), question["name"]))}
    )


def _seeing(found: TransformersFolder, device: Device, prompt: str) -> OpenedModel:
    from fairgate.models.vlm.plain import PlainVisionLanguage

    model = PlainVisionLanguage(found, prompt, device)

    def answer(question: Question, arrays: Arrays) -> Mapping[str, Any]:
        pictures = _pictures(arrays)
        if question["what"] == "likelihoods":
            return {"likelihoods": model.log_likelihoods(pictures[0], question["labels"])}
        if question["what"] == "tokens":
            return {str(place): ids for place, ids in enumerate(model.tokens(question["labels"]))}
        texts = model.answers(list(zip(pictures, question["messages"], strict=True)), question["longest"])
        return {str(place): np.frombuffer(text.encode(), np.uint8) for place, text in enumerate(texts)}

    return OpenedModel({}, answer)


def _painter(settings: Mapping[str, Any], files: HashedFiles, device: Device) -> OpenedModel:
    from fairgate.models.generation.plain_painting import PlainPainter

    model = PlainPainter(settings, files, device)

    def answer(question: Question, _: Arrays) -> Mapping[str, Any]:
        made = model.paint(question["prompts"], question["seeds"], question["steps"], question["guidance"])
        return {str(place): picture for place, picture in enumerate(made)}

    return OpenedModel({}, answer)


_TASKS: Mapping[str, Callable[..., OpenedModel]] = {
    "classifier": _classifier,
    "hf": _towers,
    "detector": _detector,
    "vlm": _seeing,
}
"""By scheme."""


def _pictures(arrays: Arrays) -> list[Any]:
    return [Image.fromarray(levels) for levels in arrays.values()]


def _of_pictures(
    prepare: Callable[[Any], Any], outputs: Callable[[Sequence[Any]], Any], question: Question, arrays: Arrays
) -> Mapping[str, Any]:
    """Pictures to what the model takes, that to its outputs, or both. Of what is prepared, the arrays of one picture
    are called `PLACE/NAME`, or `PLACE/` for a picture that is one array."""
    if question["what"] == "prepared":
        prepared = [_joined(arrays, place) for place in range(question["count"])]
    else:
        prepared = [prepare(picture) for picture in _pictures(arrays)]
    if question["what"] != "prepare":
        return {"outputs": outputs(prepared)}
    return {
        f"{place}/{name}": array
        for place, one in enumerate(prepared)
        for name, array in (one if isinstance(one, Mapping) else {"": one}).items()
    }


def _joined(arrays: Arrays, place: int) -> Any:
    start = f"{place}/"
    own = {name.removeprefix(start): torch.from_numpy(a) for name, a in arrays.items() if name.startswith(start)}
    return own.get("", own)


def serve(task: Mapping[str, Any], missing: Sequence[str], questions: BinaryIO, answers: BinaryIO) -> None:
    """Open what `task` describes, say so and what the machine could not take away, and answer until nobody asks."""
    device = Device(**task["device"])
    model: OpenedModel | None = None

    def opened() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        nonlocal model
        require_device(device)
        if task["scheme"] == "diffusion":
            model = _painter(task["settings"], files_of_data(task["files"]), device)
        else:
            model = _TASKS[task["scheme"]](folder_of_data(task["folder"]), device, **task["options"])
        return {**model.facts, "missing": list(missing)}, {}

    reply(answers, opened, "the model cannot be loaded")
    while model is not None:
        try:
            question, arrays = receive(questions)
        except EOFError:
            return
        reply(answers, lambda q=question, a=arrays: _scored(model, device, q, a), "the model cannot answer")  # type: ignore[misc]


def _scored(
    model: OpenedModel, device: Device, question: Question, arrays: Arrays
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    with scoring(device):
        return {}, model.answer(question, arrays)
