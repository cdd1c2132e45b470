"""What an adapter hands to the scorer: a hashed checkpoint, and how to load it as two towers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Protocol

from fairgate.errors import ModelError
from fairgate.hashing import digest
from fairgate.models.device import Device
from fairgate.models.protocols import Embeddings


class Encoder(Protocol):
    """A loaded two-tower model: `scale` multiplies cosines into logits, `bias` is added (0 where there is none)."""

    scale: float
    bias: float

    def prepare(self, image: Any) -> Any:
        """A Pillow RGB image as the tensor that the image tower takes. Called from several threads."""
        ...

    def encode_images(self, prepared: Sequence[Any]) -> Embeddings:
        """(images, dim) float32, of any length."""
        ...

    def encode_texts(self, prompts: Sequence[str]) -> Embeddings:
        """(prompts, dim) float32, of any length."""
        ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model that is known by content and not loaded yet.

    `identity` is plain data: everything besides the fingerprint that embeddings depend on (adapter and its code
    version, library versions, preprocessing where the files do not fix it).
    """

    fingerprint: str
    identity: Mapping[str, Any]
    load: Callable[[Device], Encoder]

    @property
    def preparation(self) -> str:
        """`open_clip/1`: which adapter prepares images and prompts, and in which version of its code."""
        return f"{self.identity['adapter']}/{self.identity['code']}"

    def key(self, device: Device, **more: str) -> str:
        """Digest that names embeddings of this model at a precision."""
        named = {"fingerprint": self.fingerprint, "identity": dict(self.identity), "precision": device.precision}
        return digest({**named, **more})


def versions(*packages: str) -> dict[str, str]:
    """Installed versions by distribution name, read without importing them."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError as error:
            raise ModelError(
                f"the package '{package}', which this model needs, is not installed.",
                remedy=f"install it: `pip install {package}`",
            ) from error
    return found
