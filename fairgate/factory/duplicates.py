"""Pictures that a dataset holds twice: exactly, by their pixels, or nearly, by an embedding where the rows have one."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEAR = 0.99
"""Cosine from which two pictures of one subject and member, out of different sets, count as nearly the same."""
_BLOCK = 2048


class Duplicates:
    """Takes rows one by one; holds eight bytes per image, and the embeddings of one subject."""

    def __init__(self) -> None:
        self._pixels = array("Q")
        self._embeddings: dict[str, list[NDArray[np.float32]]] = defaultdict(list)
        self._near: dict[str, int] = {}
        self._subject: str | None = None
        self._first: dict[str, int] = {}

    def subject(self, subject: str) -> None:
        """Rows of this subject follow."""
        self._close()
        self._subject = subject
        self._first[subject] = len(self._pixels)

    def add(self, row: Mapping[str, Any], pixels: str | None) -> None:
        """One row of the dataset, as it is stored."""
        if pixels is not None:
            self._pixels.append(int(pixels[:16], 16))
        if isinstance(embedding := row.get("embedding"), np.ndarray):
            self._embeddings[str(row.get("member"))].append(embedding.astype(np.float32))

    def exact(self) -> int:
        """Images whose pixels another image before them has."""
        return len(self._pixels) - len(np.unique(np.frombuffer(self._pixels, dtype=np.uint64)))

    def exact_of(self, subject: str) -> int:
        """The same, within one subject."""
        own = np.frombuffer(self._pixels, dtype=np.uint64)[slice(*self._span(subject))]
        return len(own) - len(np.unique(own))

    def images_of(self, subject: str) -> int:
        """Images of one subject of the build, which the dataset's own subjects may put together."""
        first, stop = self._span(subject)
        return stop - first

    def _span(self, subject: str) -> tuple[int, int]:
        subjects = list(self._first)
        place = subjects.index(subject)
        stop = self._first[subjects[place + 1]] if place + 1 < len(subjects) else len(self._pixels)
        return self._first[subject], stop

    def near(self) -> dict[str, int] | None:
        """Images of each subject that have a near twin before them, or None where no row has an embedding."""
        self._close()
        return dict(self._near) or None

    def _close(self) -> None:
        if self._subject is not None and self._embeddings:
            self._near[self._subject] = sum(_twins(np.stack(each)) for each in self._embeddings.values())
        self._embeddings.clear()


def _twins(vectors: NDArray[np.float32]) -> int:
    """How many vectors (images, dim) have a cosine of `NEAR` or more with an earlier one."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    found = 0
    for start in range(0, len(unit), _BLOCK):
        block = unit[start : start + _BLOCK]
        earlier = block @ unit[: start + len(block)].T >= NEAR
        rows = np.arange(start, start + len(block))
        found += int((earlier & (np.arange(earlier.shape[1]) < rows[:, None])).any(axis=1).sum())
    return found
