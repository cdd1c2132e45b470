"""What the gate asks of a dataset's images, and what a model gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairgate.models.cache import EmbeddingCache

Floats = NDArray[np.float64]
Embeddings = NDArray[np.float32]
Rows = NDArray[np.int64]
Progress = Callable[[int, int], None]


class ImageIndex(Protocol):
    """Names of the images, one entry a row: string arrays of shape (images,)."""

    @property
    def set_id(self) -> NDArray[Any]: ...
    @property
    def member(self) -> NDArray[Any]: ...
    @property
    def path(self) -> NDArray[Any]: ...


class ImageSource(Protocol):
    """Images in a fixed order. A released dataset is one; so is anything a test makes up."""

    @property
    def fingerprint(self) -> str:
        """Digest of the content: equal fingerprints mean equal images in equal order."""
        ...

    @property
    def folder(self) -> Path: ...

    @property
    def index(self) -> ImageIndex: ...

    def __len__(self) -> int: ...

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """Row numbers and encoded image bytes (JPEG, PNG, ...), each row once."""
        ...


class Scorer(Protocol):
    """A model's opinion on every image of one source.

    `fingerprint` is a digest over the checkpoint's files, taken before they are loaded. `precision` says how numbers
    were computed ("fp32", "amp_bf16", "precomputed"), `device` where, `preparation` which code prepared images and
    prompts ("open_clip/1"): other numbers of the same files are not compared where it changed. `tokenizer` and
    `preprocessing` are digests of how texts and pictures are read, None where nothing is.
    """

    @property
    def uri(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def preparation(self) -> str: ...
    @property
    def tokenizer(self) -> str | None: ...
    @property
    def preprocessing(self) -> str | None: ...

    def logits(self, prompts: Sequence[str]) -> Floats:
        """Scale times cosine, plus the bias where the model has one: (images, prompts) float64."""
        ...

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        """Cosine of each image to the re-normalised average of each ensemble's unit text embeddings.

        Shape (images, ensembles), float64.
        """
        ...

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax of the logits over exactly these prompts: (images, prompts) float64."""
        ...

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """Places of ensembles with different prompts that are one and the same to the model; the first of each pair is
        the earlier one."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """One call of `open_scorer`, as model families receive it. `address` is the URI without its scheme."""

    uri: str
    address: str
    source: ImageSource
    device: str = "auto"
    cache: EmbeddingCache | None = None
    allow_pickle: bool = False
    base: Path = Path()
    progress: Progress | None = None
    batch_size: int | None = None


def equal_columns(columns: Floats, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Places of columns (images, ensembles) that are equal for every image, where their prompts are not."""
    first: dict[bytes, int] = {}
    pairs = []
    for place, column in enumerate(np.ascontiguousarray(columns.T) + 0.0):  # + 0.0: a zero has no sign
        before = first.setdefault(column.tobytes(), place)
        if list(ensembles[before]) != list(ensembles[place]):
            pairs.append((before, place))
    return pairs


def log_softmax(logits: Floats) -> Floats:
    """Log-softmax over the last axis, shifted by the maximum so that no exponential overflows."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))
