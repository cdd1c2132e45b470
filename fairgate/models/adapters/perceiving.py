"""What the models that judge pictures have in common: how they are named, where they run, what they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fairgate.models.device import Device, find_device
from fairgate.models.encoder import naming
from fairgate.models.torch_runtime import require_device, scoring


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


def device_of(asked: str) -> Device:
    """A device by name ("auto", "cpu", "cuda:1"), in float32. Raises DeviceError where it is not there."""
    device = Device(find_device(asked).name, "fp32")
    require_device(device)
    return device


def alike(shapes: Sequence[Any]) -> list[list[int]]:
    """Positions of equal shapes together: pictures in one batch are not padded to each other's size.

    >>> alike([(3, 8), (3, 4), (3, 8)])
    [[0, 2], [1]]
    """
    groups: dict[Any, list[int]] = {}
    for position, shape in enumerate(shapes):
        groups.setdefault(tuple(shape), []).append(position)
    return list(groups.values())
