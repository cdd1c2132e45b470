"""What an adapter hands to the scorer: a hashed checkpoint, and how to load it as two towers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.checkpoints.device import Device
from fairgate.errors import FairgateError, ModelError
from fairgate.hashing import digest

Embeddings = NDArray[np.float32]


class Encoder(Protocol):
    """A loaded two-tower model: `scale` multiplies cosines into logits, `bias` is added (0 where there is none)."""

    scale: float
    bias: float

    @property
    def vocabulary(self) -> int:
        """Number of tokens that the text tower knows."""
        ...

    def prepare(self, image: Any) -> Any:
        """A Pillow RGB image as the tensor that the image tower takes. Called from several threads."""
        ...

    def encode_images(self, prepared: Sequence[Any]) -> Embeddings:
        """(images, dim) float32, of any length."""
        ...

    def tokens(self, prompts: Sequence[str]) -> Mapping[str, Any]:
        """What the text tower is given: `ids` (prompts, length), and a `mask` where it takes one."""
        ...

    def encode_tokens(self, tokens: Mapping[str, Any]) -> Embeddings:
        """(prompts, dim) float32, of any length."""
        ...


class Guarded:
    """An encoder whose failures name the model: its config may load and still make no picture or prompt computable."""

    def __init__(self, encoder: Encoder, where: str) -> None:
        self._encoder, self._where = encoder, where
        self.scale, self.bias = encoder.scale, encoder.bias

    def prepare(self, image: Any) -> Any:
        with naming(self._where, "prepare a picture"):
            return self._encoder.prepare(image)

    def encode_images(self, prepared: Sequence[Any]) -> Embeddings:
        with naming(self._where, "embed pictures"):
            return self._encoder.encode_images(prepared)

    @property
    def vocabulary(self) -> int:
        return self._encoder.vocabulary

    def tokens(self, prompts: Sequence[str]) -> Mapping[str, Any]:
        with naming(self._where, "read prompts"):
            return self._encoder.tokens(prompts)

    def encode_tokens(self, tokens: Mapping[str, Any]) -> Embeddings:
        with naming(self._where, "embed prompts"):
            return self._encoder.encode_tokens(tokens)


@contextmanager
def naming(where: str, what: str) -> Iterator[None]:
    """Turn what libraries raise inside into a ModelError: the model cannot `what`."""
    try:
        yield
    except (FairgateError, MemoryError):
        raise
    except Exception as error:  # of any type: Hugging Face's tokenizers raise Exception itself
        if type(error).__name__ == "OutOfMemoryError":  # torch's: a smaller batch may fit
            raise
        raise ModelError(
            f"the model cannot {what} ({type(error).__name__}: {error}).",
            where=where,
            remedy="check the checkpoint's configs and tokenizer; save them again with the model",
        ) from error


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model that is known by content and not loaded yet.

    `identity` is plain data: everything besides the fingerprint that embeddings depend on (adapter and its code
    version, library versions, preprocessing where the files do not fix it). `tokenizer` and `preprocessing` are the
    digests of how it reads texts and pictures (`fairgate.models.reading`).
    """

    fingerprint: str
    identity: Mapping[str, Any]
    load: Callable[[Device], Encoder]
    tokenizer: str | None = None
    preprocessing: str | None = None

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
