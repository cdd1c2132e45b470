"""Models in an isolated process, called as loaded ones are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError, clean
from fairgate.models.checkpoints import Device, Embeddings, Encoder, HashedFiles, TransformersFolder
from fairgate.models.classifiers.fixed_labels import Loaded
from fairgate.models.contract import MOST_BOXES, Generating
from fairgate.models.isolated.child import IsolatedModel
from fairgate.models.isolated.folder_data import files_as_data, folder_as_data

if TYPE_CHECKING:
    from PIL.Image import Image

Prepared = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class UnpreparedPicture:
    """A picture that a process will prepare: its levels, (height, width, 3) uint8, and whose it is."""

    levels: Any
    by: IsolatedModel

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what the process makes of it, if that is one array."""
        made = prepared([self])
        return tuple(made["0/"].shape) if "0/" in made else ()


def _of(
    model: IsolatedModel,
) -> tuple[Callable[[Any], UnpreparedPicture], Callable[[Sequence[UnpreparedPicture]], Embeddings]]:
    """What prepares a picture, and what makes outputs of pictures that this or another process prepares."""

    def outputs(pictures: Sequence[UnpreparedPicture]) -> Embeddings:
        if all(picture.by is model for picture in pictures):
            _, arrays = model.ask("pictures", _numbered(picture.levels for picture in pictures))
        else:
            _, arrays = model.ask("prepared", prepared(pictures), count=len(pictures))
        return _rows(arrays, len(pictures))

    return lambda image: UnpreparedPicture(np.asarray(image, dtype=np.uint8), model), outputs


def prepared(pictures: Sequence[UnpreparedPicture]) -> dict[str, Any]:
    """Arrays of pictures as their own process prepares them, by `PLACE/NAME`."""
    _, arrays = pictures[0].by.ask("prepare", _numbered(picture.levels for picture in pictures))
    return arrays


def _rows(arrays: Mapping[str, Any], count: int) -> Embeddings:
    """Outputs of so many pictures or texts, (count, width) float32. Raises ModelError for other ones."""
    outputs = np.asarray(arrays["outputs"], dtype=np.float32)
    if outputs.ndim != 2 or len(outputs) != count:  # a single row would be taken for every picture's
        raise ModelError(f"the model answered {count:,} questions with numbers of shape {outputs.shape}.")
    return outputs


def _numbered(levels: Any) -> dict[str, Any]:
    return {f"{place:06d}": each for place, each in enumerate(levels)}


def _opened(found: TransformersFolder, scheme: str, device: Device, **options: Any) -> IsolatedModel:
    """A process in which the folder's model is loaded. Raises ModelError or DeviceError."""
    found.files.require_unchanged()
    named = {"name": device.name, "precision": device.precision}
    task = {"scheme": scheme, "device": named, "folder": folder_as_data(found), "options": options}
    return IsolatedModel(str(found.path), task, found.files.paths.values())


def isolated_classifier(found: TransformersFolder, device: Device) -> Loaded:
    """A plain folder's classifier."""
    return Loaded(*_of(_opened(found, "classifier", device)))


def isolated_towers(found: TransformersFolder, device: Device) -> Encoder:
    """A plain folder's two towers."""
    model = _opened(found, "hf", device)
    prepare, outputs = _of(model)

    def encode_tokens(tokens: Mapping[str, Any]) -> Embeddings:
        _, arrays = model.ask("texts", {name: np.asarray(ids) for name, ids in tokens.items()})
        return _rows(arrays, len(tokens["ids"]))

    def tokens(prompts: Sequence[str]) -> Mapping[str, Any]:
        return model.ask("tokens", {}, prompts=list(prompts))[1]

    facts = model.facts
    return Encoder(
        float(facts["scale"]), float(facts["bias"]), int(facts["vocabulary"]), prepare, outputs, tokens, encode_tokens
    )


class IsolatedDetector:
    """A plain folder's detector."""

    def __init__(self, found: TransformersFolder, device: Device) -> None:
        self._model = _opened(found, "detector", device)

    def boxes(self, pictures: Sequence[Any], what: str) -> list[NDArray[np.float32]]:
        """As of the detectors that fairgate runs itself: (MOST_BOXES, 5) of each picture."""
        _, arrays = self._model.ask("boxes", _numbered(np.asarray(picture) for picture in pictures), name=what)
        boxes = np.asarray(arrays["boxes"], dtype=np.float32)
        if boxes.shape != (len(pictures), MOST_BOXES, 5) or not np.isfinite(boxes).all():
            raise ModelError(f"the model answered with numbers of shape {boxes.shape}, or NaN: no boxes.")
        return list(boxes)


class IsolatedSeeing:
    """A plain folder's model of pictures and text."""

    def __init__(self, found: TransformersFolder, prompt: str, device: Device) -> None:
        self._model = _opened(found, "vlm", device, prompt=prompt)

    def tokens(self, labels: Sequence[str]) -> list[list[int]]:
        """The tokens of each label."""
        _, arrays = self._model.ask("tokens", {}, labels=list(labels))
        return [arrays[str(place)].astype(np.int64).tolist() for place in range(len(labels))]

    def inputs(self, shown: Any, message: str = "") -> tuple[Any, str]:
        """A picture's levels, and a message."""
        return np.asarray(shown), message

    def log_likelihoods(self, shown: Sequence[tuple[Any, str]], labels: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Summed log-probabilities of labels, given by their tokens, on pictures, given as `inputs`: (pictures,
        labels)."""
        texts, sums = [list(ids) for ids in labels], []
        for levels, _ in shown:
            _, arrays = self._model.ask("likelihoods", _numbered([levels]), labels=texts)
            sums.append(np.asarray(arrays["likelihoods"], dtype=np.float64).reshape(len(labels)))
        return np.stack(sums)

    def answers(self, shown: Sequence[tuple[Any, str]], longest: int) -> list[str]:
        """What is answered to each picture and message, given as `inputs`."""
        pictures = _numbered(levels for levels, _ in shown)
        _, arrays = self._model.ask("answers", pictures, messages=[message for _, message in shown], longest=longest)
        return [clean(arrays[str(place)].tobytes().decode(errors="replace")) for place in range(len(shown))]


class IsolatedPainter:
    """A plain pipeline, which paints. `settings` are those of `PlainPainter`."""

    def __init__(self, settings: Mapping[str, Any], files: HashedFiles, device: Device) -> None:
        files.require_unchanged()
        named = {"name": device.name, "precision": device.precision}
        task = {"scheme": "diffusion", "device": named, "settings": dict(settings), "files": files_as_data(files)}
        self._model = IsolatedModel(str(settings["path"]), task, files.paths.values())
        self.rows = 4 if device.is_cuda else 1

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], how: Generating) -> list[Image]:
        """A picture of each prompt and seed. Raises as the process does."""
        from PIL import Image

        options = {"steps": how.steps, "guidance": how.guidance}
        _, arrays = self._model.ask("paint", {}, prompts=list(prompts), seeds=list(seeds), **options)
        return [Image.fromarray(arrays[str(place)]) for place in range(len(prompts))]
