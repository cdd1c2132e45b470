"""Numbers of a source's images, by row, saved in pieces so that an interrupted run goes on. No torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import DatasetError
from fairgate.models.cache import EmbeddingCache
from fairgate.models.contract import ImageSource, Rows
from fairgate.models.decoding import name_of

PART = 1024  # images between two checkpoints of the work


class RowParts:
    """Numbers (images, width) by row, and the rows not yet written to the cache."""

    def __init__(self, cache: EmbeddingCache | None, prefix: str, total: int) -> None:
        self._cache, self._prefix = cache, prefix
        self._fresh: list[tuple[Rows, NDArray[np.float32]]] = []
        self._embeddings: NDArray[np.float32] | None = None
        self.has = np.zeros(total, dtype=np.bool_)
        for entry in cache.below(prefix) if cache else []:
            self._place(np.asarray([int(row) for row in entry.notes["rows"].split()]), entry.arrays["embeddings"])

    @property
    def done(self) -> int:
        return int(self.has.sum())

    def add(self, rows: Rows, embeddings: NDArray[np.float32]) -> None:
        self._place(rows, embeddings)
        self._fresh.append((rows, embeddings))
        if sum(len(piece) for piece, _ in self._fresh) >= PART:
            self.flush()

    def flush(self) -> None:
        if self._cache and self._fresh:
            rows = np.concatenate([piece for piece, _ in self._fresh])
            embeddings = np.concatenate([piece for _, piece in self._fresh])
            name = f"{self._prefix}/{int(rows[0]):012d}-{len(rows)}"
            self._cache.write(name, {"embeddings": embeddings}, {"rows": " ".join(map(str, rows.tolist()))})
        self._fresh = []

    def merged(self, source: ImageSource) -> NDArray[np.float32]:
        if self._embeddings is None or not self.has.all():
            missing = np.flatnonzero(~self.has)
            raise DatasetError(
                f"the dataset yielded {self.done} of its {len(self.has)} images.",
                where=f"{source.folder}" + (f": {name_of(source, int(missing[0]))}" if missing.size else ""),
                remedy="run `fairgate dataset verify`",
            )
        return self._embeddings

    def _place(self, rows: Rows, embeddings: NDArray[np.float32]) -> None:
        if self._embeddings is None:
            self._embeddings = np.zeros((len(self.has), embeddings.shape[1]), dtype=np.float32)
        self._embeddings[rows] = embeddings
        self.has[rows] = True
