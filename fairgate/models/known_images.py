"""Numbers of images by their content: of a release that shares images with another, only the others are computed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairgate.models.cache import EmbeddingCache
from fairgate.models.contract import Rows

Numbers = NDArray[np.float32]
_DIGEST = 32  # bytes of SHA-256


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the cache has a model's numbers of all images of a source: an array of an entry, named by content; and
    `alike`, the digest of what decides its numbers on whatever images."""

    entry: str
    array: str
    alike: str


class KnownImages:
    """What the cache has of one model's numbers, on images of any source, by the digests of their bytes."""

    def __init__(self, cache: EmbeddingCache, kept: Kept, images: int) -> None:
        self._cache, self._kept = cache, kept
        self._digests = np.zeros((images, _DIGEST), dtype=np.uint8)
        self._seen = np.zeros(images, dtype=np.bool_)
        self._others = [
            (_Sorted(entry.arrays["digests"]), entry.notes["numbers"])
            for entry in cache.below(f"contents/{kept.alike}")
            if "digests" in entry.arrays and entry.notes.get("numbers", kept.entry) != kept.entry
        ]
        self._read: dict[str, Numbers | None] = {}

    def of(self, rows: Rows, images: Sequence[bytes]) -> tuple[Rows, Numbers | None]:
        """The rows of those images whose numbers are known, and these numbers, (known, width); None if none is."""
        digests = np.frombuffer(b"".join(hashlib.sha256(image).digest() for image in images), dtype=np.uint8)
        self._digests[rows], self._seen[rows] = digests.reshape(-1, _DIGEST), True
        left, found = np.arange(len(rows)), []
        for contents, name in self._others:
            places, there = contents.find(self._digests[rows[left]])
            if len(places) and (numbers := self._numbers(name)) is not None:
                found.append((left[places], numbers[there]))
                left = np.delete(left, places)
        if not found:
            return rows[:0], None
        return rows[np.concatenate([places for places, _ in found])], np.concatenate([each for _, each in found])

    def keep(self) -> None:
        """Keep the digests of all images, if each was seen: an interrupted run need not have read every one again."""
        if self._seen.all():
            kept = self._kept
            self._cache.write(
                f"contents/{kept.alike}/{kept.entry.rpartition('/')[2]}",
                {"digests": self._digests},
                {"numbers": kept.entry},
            )

    def _numbers(self, name: str) -> Numbers | None:
        if name not in self._read:
            entry = self._cache.read(name)
            self._read[name] = None if entry is None else entry.arrays.get(self._kept.array)
        return self._read[name]


class _Sorted:
    """Digests, found by their first eight bytes."""

    def __init__(self, digests: NDArray[np.uint8]) -> None:
        starts = _starts(digests)
        self._order = np.argsort(starts, kind="stable")
        self._starts, self._digests = starts[self._order], digests

    def find(self, wanted: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Places in `wanted` of the digests that are here, and their rows here."""
        near = np.searchsorted(self._starts, _starts(wanted)).clip(max=len(self._starts) - 1)
        rows = self._order[near]
        equal = np.flatnonzero((self._digests[rows] == wanted).all(axis=1))
        return equal, rows[equal]


def _starts(digests: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(digests[:, :8]).view(np.uint64)[:, 0]
