"""What the models that judge pictures share: loading, the device, counts of forward passes, checks of their outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from PIL.Image import Image

from fairgate.checkpoints import (
    LOCAL,
    Device,
    TransformersFolder,
    find_device,
    load_model,
    loading,
    naming,
    require_device,
    scoring,
)
from fairgate.errors import ModelError

MAX_PREPARED = 1 << 22
"""Pixels that a picture may have once it is prepared: attention needs memory by their square."""


class Perceiver:
    """A model on a device. It computes in float32 everywhere: published thresholds were set on such scores.

    `spent` counts forward passes, by the model's kind: an image counts once, or once per question.
    """

    def __init__(self, uri: str, fingerprint: str, device: Device) -> None:
        self.uri = uri
        self.fingerprint = fingerprint
        self.spent: Counter[str] = Counter()
        self._device = device

    @contextmanager
    def _running(self, what: str) -> Iterator[None]:
        """No gradients, deterministic kernels; what a library raises becomes a ModelError: the model cannot `what`."""
        with scoring(self._device), naming(self.uri, what):
            yield

    def _diverged(self) -> ModelError:
        return ModelError(
            "the model answered with NaN or infinity.",
            where=self.uri,
            remedy="check the checkpoint: did its training diverge?",
        )


class FolderPerceiver(Perceiver):
    """A model of transformers with its processor."""

    def __init__(self, uri: str, fingerprint: str, device: Device, model: Any, processor: Any) -> None:
        super().__init__(uri, fingerprint, device)
        self._model, self._processor = model.to(device.name), processor

    @classmethod
    def load(cls, uri: str, found: TransformersFolder, device: Device, model_class: Any, processor_class: Any) -> Self:
        """Load a folder's model and processor. Raises ModelError."""
        model = load_model(model_class, found)
        with loading(found) as folder:
            processor = processor_class.from_pretrained(folder, **LOCAL)
        found.files.require_unchanged()
        return cls(uri, found.fingerprint, device, model, processor)

    def _batches(
        self, images: Sequence[Image], tokens: dict[str, torch.Tensor]
    ) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
        """Inputs of the model for pictures of one size, each with each text, and the positions of these pictures.

        Raises ModelError where a folder's settings make a picture enormous.
        """
        prepared = []
        for image in images:
            prepared.append(self._processor.image_processor(images=image.convert("RGB"), return_tensors="pt"))
            require_modest(prepared[-1]["pixel_values"], self.uri)
        texts = tokens["input_ids"].shape[0]
        alike: dict[Any, list[int]] = {}  # pictures in one batch are not padded to each other's size
        for position, picture in enumerate(prepared):
            alike.setdefault(tuple(picture["pixel_values"].shape), []).append(position)
        for group in alike.values():
            inputs = {
                name: torch.cat([prepared[position][name] for position in group]).repeat_interleave(texts, dim=0)
                for name in ("pixel_values", "pixel_mask")
            }
            inputs |= {name: value.repeat(len(group), 1) for name, value in tokens.items()}
            yield group, {name: value.to(self._device.name) for name, value in inputs.items()}

    def _tokens(self, texts: list[str], limit: int, remedy: str) -> dict[str, torch.Tensor]:
        """Texts as tensors, padded to one length. Raises ModelError for one of more than `limit` tokens."""
        with self._running("read the text"):
            tokens = self._processor.tokenizer(texts, padding=True, return_tensors="pt")
        if tokens["input_ids"].shape[1] > limit:
            raise ModelError(
                f"a text is longer than the {limit} tokens that the model reads.",
                where=max(texts, key=len)[:200],
                remedy=remedy,
            )
        return dict(tokens)


def require_modest(pixels: Any, where: str) -> None:
    """Raises ModelError for a prepared picture, (..., height, width), of more than MAX_PREPARED pixels."""
    height, width = pixels.shape[-2:]
    if height * width > MAX_PREPARED:
        raise ModelError(
            f"the model's settings make a picture of {width:,} x {height:,} pixels.",
            where=where,
            remedy="check 'size' in its preprocessor_config.json: published models take about a megapixel",
        )


def device_of(name: str) -> Device:
    """A device by name ("auto", "cpu", "cuda:1"), in float32. Raises DeviceError where it is not there."""
    device = Device(find_device(name).name, "fp32")
    require_device(device)
    return device
