"""What the models that judge pictures share: loading, the device, counts of forward passes, checks of their outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from PIL.Image import Image

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    LOCAL,
    Device,
    TransformersFolder,
    find_device,
    find_folder,
    load_model,
    loading,
    model_folder,
    naming,
    require_device,
    scoring,
)

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

    kinds: ClassVar[Mapping[str, tuple[str, str]]]
    """model_type of config.json -> names of the model's class and of its processor's."""
    use: ClassVar[str]
    """What is done with such models, for messages: "detect with"."""
    reads_text: ClassVar[bool] = True

    def __init__(self, uri: str, fingerprint: str, device: Device, model: Any, processor: Any) -> None:
        super().__init__(uri, fingerprint, device)
        self._model, self._processor = model.to(device.name), processor

    @classmethod
    def open(cls, uri: str, address: str, *, device: str, base: Path) -> Self:
        """Load a model from a folder or the hub's cache. Raises ModelError or DeviceError."""
        import transformers

        where, folder = device_of(device), model_folder(address, base)
        found = find_folder(folder, tuple(cls.kinds), use=cls.use, tokenizer=cls.reads_text, pickled=True)
        model_class, processor_class = (getattr(transformers, name, None) for name in cls.kinds[found.kind])
        if model_class is None or processor_class is None:
            raise ModelError(
                f"the installed transformers ({transformers.__version__}) does not know a {found.kind}.",
                where=str(found.path),
                remedy="install a newer one: `pip install 'transformers>=4.56'`",
            )
        cls.require_usable(found)
        model = load_model(model_class, found)
        with loading(found) as path:
            processor = processor_class.from_pretrained(path, **LOCAL)
        found.files.require_unchanged()
        return cls(uri, found.fingerprint, where, model, processor)

    @classmethod
    def require_usable(cls, found: TransformersFolder) -> None:
        """Raises ModelError for a folder that is not to be loaded, by its config."""

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
