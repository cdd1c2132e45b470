"""Models in the isolated process, called as loaded ones are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError, clean
from fairgate.models.checkpoints import Device, Embeddings, Encoder, HashedFiles, TransformersFolder
from fairgate.models.classifiers.fixed_labels import Loaded
from fairgate.models.contract import MOST_BOXES, Generating
from fairgate.models.isolated.child import IsolatedModel

if TYPE_CHECKING:
    from PIL.Image import Image

    from fairgate.models.vlm.asking import Asking

_MOST_SETTINGS = 40  # of a folder, in a note


@dataclass(frozen=True, slots=True, eq=False)
class UnpreparedPicture:
    """A picture that a process will prepare: its levels, (height, width, 3) uint8, and whose it is."""

    levels: Any
    by: IsolatedModel

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what the process makes of it, if that is one array."""
        (made,) = prepared([self])
        return () if isinstance(made, Mapping) else tuple(made.shape)


def _of(
    model: IsolatedModel,
) -> tuple[Callable[[Any], UnpreparedPicture], Callable[[Sequence[UnpreparedPicture]], Embeddings]]:
    """What prepares a picture, and what makes outputs of pictures that this or another process prepares."""

    def outputs(pictures: Sequence[UnpreparedPicture]) -> Embeddings:
        if all(picture.by is model for picture in pictures):
            return _rows(model.ask("pictures", [picture.levels for picture in pictures]), len(pictures))
        return _rows(model.ask("prepared", prepared(pictures)), len(pictures))

    return lambda image: UnpreparedPicture(np.asarray(image, dtype=np.uint8), model), outputs


def prepared(pictures: Sequence[UnpreparedPicture]) -> list[Any]:
    """What their own process makes of pictures: an array of each, or arrays by name."""
    return list(pictures[0].by.ask("prepare", [picture.levels for picture in pictures]))


def _rows(answer: Any, count: int) -> Embeddings:
    """Outputs of so many pictures or texts, (count, width) float32. Raises ModelError for other ones."""
    outputs = np.asarray(answer, dtype=np.float32)
    if outputs.ndim != 2 or len(outputs) != count:  # a single row would be taken for every picture's
        raise ModelError(f"the model answered {count:,} questions with numbers of shape {outputs.shape}.")
    return outputs


def _opened(kind: str, found: TransformersFolder, device: Device, *more: Any) -> IsolatedModel:
    """A process in which the folder's model is loaded. Raises ModelError or DeviceError."""
    from fairgate.models.isolated.host import opened

    found.files.require_unchanged()
    added = found.adapter.files.paths.values() if found.adapter else ()
    task = partial(opened, kind, found, device, *more)
    return IsolatedModel(str(found.path), task, [*found.files.paths.values(), *added])


def isolated(load: Callable[..., Loaded], found: TransformersFolder, device: Device, *more: Any) -> Loaded:
    """A plain folder's model of pictures, as `load` returns it when it is called with what follows."""
    return Loaded(*_of(_opened("pictures", found, device, load, *more)))


def isolated_towers(load: Callable[..., Encoder], found: TransformersFolder, device: Device) -> Encoder:
    """A plain folder's two towers, as `load` returns them."""
    model = _opened("towers", found, device, load)
    prepare, outputs = _of(model)

    def encode_tokens(tokens: Mapping[str, Any]) -> Embeddings:
        return _rows(model.ask("texts", {name: np.asarray(part) for name, part in tokens.items()}), len(tokens["ids"]))

    def tokens(prompts: Sequence[str]) -> Mapping[str, Any]:
        return {name: np.asarray(ids) for name, ids in model.ask("tokens", list(prompts)).items()}

    facts = model.facts
    return Encoder(
        float(facts["scale"]), float(facts["bias"]), int(facts["vocabulary"]), prepare, outputs, tokens, encode_tokens
    )


class IsolatedDetector:
    """A plain folder's detector."""

    def __init__(self, found: TransformersFolder, device: Device) -> None:
        self._model = _opened("detector", found, device)

    def boxes(self, pictures: Sequence[Any], what: str) -> list[NDArray[np.float32]]:
        """As of the detectors that fairgate runs itself: (MOST_BOXES, 5) of each picture."""
        answer = self._model.ask("boxes", [np.asarray(picture) for picture in pictures], what)
        boxes = np.asarray(answer, dtype=np.float32)
        if boxes.shape != (len(pictures), MOST_BOXES, 5) or not np.isfinite(boxes).all():
            raise ModelError(f"the model answered with numbers of shape {boxes.shape}, or NaN: no boxes.")
        return list(boxes)


class IsolatedSeeing:
    """A folder's model of pictures and text. `shares`: labels continue one pass over their prompt, which was tried on
    what the `seed` draws, or is known. `unused` are the settings of decoding that the folder has."""

    def __init__(self, found: TransformersFolder, asking: Asking, device: Device, seed: int) -> None:
        self._model = _opened("vlm", found, device, asking, seed)
        self._beside = device.is_cuda  # on a CPU, torch's threads for a second thread would slow the model's
        self._numbers = itertools.count()
        self.shares = bool(self._model.facts.get("shares"))
        self.unused = [clean(str(name), 80) for name in list(self._model.facts.get("unused", ()))[:_MOST_SETTINGS]]

    def tokens(self, labels: Sequence[str]) -> list[list[int]]:
        """The tokens of each label."""
        found = self._model.ask("tokens", list(labels))
        return [[int(token) for token in found[place]] for place in range(len(labels))]

    def inputs(self, shown: Any, message: str | None = None) -> int:
        """The number under which the process keeps what it makes of a picture and a message (None: the prompt)."""
        number = next(self._numbers)
        self._model.tell("keep", number, np.asarray(shown), message, beside=self._beside)
        return number

    def log_likelihoods(self, shown: Sequence[int], labels: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Summed log-probabilities of labels, given by their tokens, on pictures: (pictures, labels)."""
        sums = self._model.ask("likelihoods", list(shown), [list(ids) for ids in labels])
        return np.asarray(sums, dtype=np.float64).reshape(len(shown), len(labels))

    def answers(self, shown: Sequence[int], longest: int) -> list[str]:
        """What is answered to each picture and message."""
        found = self._model.ask("answers", list(shown), longest)
        return [str(found[place]) for place in range(len(shown))]


class IsolatedPainter:
    """A plain pipeline, which paints. `settings` are those of `PlainPainter`."""

    def __init__(self, settings: Mapping[str, Any], files: HashedFiles, device: Device) -> None:
        from fairgate.models.isolated.host import opened

        files.require_unchanged()
        task = partial(opened, "painter", dict(settings), device, files)
        self._model = IsolatedModel(str(settings["path"]), task, files.paths.values())
        self.rows = 4 if device.is_cuda else 1

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], how: Generating) -> list[Image]:
        """A picture of each prompt and seed. Raises as the process does."""
        from PIL import Image

        found = self._model.ask("paint", list(prompts), list(seeds), how.steps, how.guidance)
        return [Image.fromarray(found[place]) for place in range(len(prompts))]
