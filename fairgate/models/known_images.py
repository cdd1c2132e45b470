"""Numbers and texts of images that another source has too: from the cache, by the images' bytes. No torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairgate.data import TextRows
from fairgate.ground.hashing import digest
from fairgate.models.cache import EmbeddingCache
from fairgate.models.contract import Request, Rows

_DIGEST = 32  # bytes of SHA-256
Numbers = NDArray[np.float32]


class KnownImages:
    """What the cache has of one model's numbers, on images of any source, by the digests of their bytes.

    Those of all images of this source will be in an `entry`, named by content; `alike` is the digest of what decides
    them on whatever images, and `read` gives those of another entry, (images, width); texts are an array of objects. An
    image is only the same with the same `context`, a text by row: its set, or the question about it.
    """

    def __init__(
        self,
        request: Request,
        entry: str,
        alike: str,
        read: str | Callable[[str], Numbers | None],
        *,
        context: Sequence[str] | TextRows | None = None,
    ) -> None:
        assert request.cache
        self._cache, self._entry, self._alike = request.cache, entry, alike
        self._reader = partial(self._array, read) if isinstance(read, str) else read
        self._context = context
        self._digests = np.zeros((len(request.source), _DIGEST), dtype=np.uint8)
        self._seen, self._known = np.zeros(len(request.source), dtype=np.bool_), 0
        self._others = list[tuple[NDArray[np.bytes_], NDArray[np.intp], str]]()
        for other in self._cache.below(f"contents/{alike}"):
            if "digests" in other.arrays and other.notes.get("numbers", entry) != entry:
                digests = _texts(other.arrays["digests"])
                self._others.append((digests, np.argsort(digests, kind="stable"), other.notes["numbers"]))
        self._read: dict[str, Numbers | None] = {}

    @property
    def any(self) -> bool:
        """Whether another source has numbers of the model."""
        return bool(self._others)

    def of(self, rows: Rows, images: Sequence[bytes]) -> tuple[Rows, Numbers | None]:
        """The rows of those images whose numbers are known, and these numbers, (known, width); None if none is."""
        each = [hashlib.sha256(image).digest() for image in images]
        if self._context is not None:
            texts = (str(self._context[row]).encode() for row in rows)
            each = [hashlib.sha256(image + text).digest() for image, text in zip(each, texts, strict=True)]
        digests = np.frombuffer(b"".join(each), dtype=np.uint8)
        self._digests[rows], self._seen[rows] = digests.reshape(-1, _DIGEST), True
        left, found = np.arange(len(rows)), []
        for contents, order, name in self._others:
            wanted = _texts(self._digests[rows[left]])
            there = order[np.searchsorted(contents, wanted, sorter=order).clip(max=len(order) - 1)]
            places = np.flatnonzero(contents[there] == wanted)
            numbers = self._numbers(name) if len(places) else None
            if numbers is not None and there[places].max() < len(numbers):  # an entry can have been written anew
                found.append((left[places], numbers[there[places]]))
                left = np.delete(left, places)
        if not found:
            return rows[:0], None
        self._known += len(rows) - len(left)
        return rows[np.concatenate([places for places, _ in found])], np.concatenate([each for _, each in found])

    def keep(self) -> None:
        """Keep the digests of all images, if each was seen: an interrupted run need not have read every one again. Not
        if all were known before."""
        if self._seen.all() and self._known < len(self._seen):
            name = f"contents/{self._alike}/{digest(self._entry)}"
            self._cache.write(name, {"digests": self._digests}, {"numbers": self._entry})

    def _numbers(self, name: str) -> Numbers | None:
        if name not in self._read:
            self._read[name] = self._reader(name)
        return self._read[name]

    def _array(self, array: str, name: str) -> Numbers | None:
        entry = self._cache.read(name)
        return None if entry is None else entry.arrays.get(array)


def _texts(digests: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Digests (images, bytes) as they are sorted and compared."""
    return digests.view(f"S{_DIGEST}")[:, 0]


def numbers_in_pieces(cache: EmbeddingCache, name: str) -> Numbers | None:
    """The numbers of all images of a source, from the pieces below a name; None where some are missing."""
    pieces = [entry for entry in cache.below(name) if "rows" in entry.notes and "embeddings" in entry.arrays]
    rows = np.array([int(row) for entry in pieces for row in entry.notes["rows"].split()], dtype=np.int64)
    found, first = np.unique(rows, return_index=True)
    if not len(found) or len(found) <= found[-1]:
        return None
    return np.asarray(np.concatenate([entry.arrays["embeddings"] for entry in pieces])[first])
