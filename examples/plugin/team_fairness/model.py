"""A model family: `brightness:FILE.json`, a toy that knows a picture's mean brightness and nothing else.

FILE.json gives every prompt a weight: `{"a photo of a doctor": 0.5, ...}`; other prompts weigh nothing.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import sha256_file
from fairgate.models import Capability, ImageSource, Request

CAN: frozenset[Capability] = frozenset({"log_probabilities"})


class Brightness:
    """How a checkpoint is found, hashed and opened."""

    scheme: ClassVar[str] = "brightness"
    forms: ClassVar[tuple[str, ...]] = ("brightness:FILE.json",)
    capabilities: ClassVar[frozenset[Capability]] = CAN

    def local_path(self, address: str) -> Path:
        """The file that an address names."""
        return Path(address)

    def open(self, request: Request) -> BrightnessModel:
        """Hash the file, then read it; images wait until a score is needed."""
        path = request.base / request.address
        if not path.is_file():
            raise ModelError("the file does not exist.", where=str(path), remedy="check the path in the URI")
        fingerprint = sha256_file(path)
        try:
            weights = {str(prompt): float(weight) for prompt, weight in json.loads(path.read_bytes()).items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise ModelError(
                f"the file holds no weights ({error}).", where=str(path), remedy='write {"PROMPT": NUMBER, ...}'
            ) from error
        return BrightnessModel(request.uri, fingerprint, weights, request.source)


@dataclass(frozen=True)
class BrightnessModel:
    """A model bound to the images of one source."""

    uri: str
    fingerprint: str
    weights: dict[str, float]
    source: ImageSource
    capabilities: ClassVar[frozenset[Capability]] = CAN
    precision: ClassVar[str] = "fp64"
    device: ClassVar[str] = "cpu"
    preparation: ClassVar[str] = "brightness/1"
    tokenizer: ClassVar[None] = None
    preprocessing: ClassVar[None] = None

    def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        """Log-softmax over the prompts: (images, prompts)."""
        logits = np.outer(self._brightness, [self.weights.get(prompt, 0.0) for prompt in prompts])
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    @cached_property
    def _brightness(self) -> NDArray[np.float64]:
        """(images,), from 0 (black) to 1."""
        found = np.empty(len(self.source))
        for rows, pictures in self.source.image_batches(64):
            for row, data in zip(rows, pictures, strict=True):
                found[row] = np.asarray(Image.open(io.BytesIO(data)).convert("L")).mean() / 255
        return found
