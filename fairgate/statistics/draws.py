"""Sets drawn with replacement, as multiplicities: how often each set is in the resampled data.

Every statistic is computed from multiplicities, so that two runs, or many metrics, can share the same draws and be
compared pair by pair. `Resamples` holds them for several tests on the same sets; they cost more than a test does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import StatisticsError

FloatArray: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int32]

CHUNK = 4_000_000
"""Entries of one temporary array: 32 MB of float64."""

_BLOCK = 1 << 18
"""Entries counted and multiplied at once: 2 MB, which the processor's cache holds. Half the time of a whole chunk."""


@dataclass(frozen=True, slots=True)
class Resamples:
    """Multiplicities that several tests on the same sets share; takes the place of the generator that draws them.

    `Resamples(n_sets, draws, rng)` gives the same results as `rng` itself would, drawn once. One byte or two per set
    and draw: 48 MB for 4,000 draws of 6,000 sets. Two tests on the same resamples are no independent evidence; a
    correction over a family of them (Holm, Bonferroni) holds under any dependence.
    """

    n_sets: int
    draws: int
    rng: InitVar[np.random.Generator]
    _table: NDArray[np.uint16] | NDArray[np.uint8] = field(init=False, repr=False, compare=False)

    def __post_init__(self, rng: np.random.Generator) -> None:
        table = np.empty((max(self.draws, 0), max(self.n_sets, 0)), dtype=np.uint8 if self.n_sets < 256 else np.uint16)
        start = 0
        for chunk in set_count_chunks(self.n_sets, self.draws, rng):
            table[start : (start := start + len(chunk))] = chunk
        table.setflags(write=False)
        object.__setattr__(self, "_table", table)

    def rows(self, n_sets: int, draws: int) -> NDArray[np.uint16] | NDArray[np.uint8]:
        """The first draws (draws, n_sets); raises StatisticsError for other sets, or more draws, than it holds."""
        if n_sets != self.n_sets or not 0 < draws <= self.draws:
            raise StatisticsError(
                f"{draws} resamples of {n_sets} sets were asked of {self.draws} resamples of {self.n_sets} sets.",
                where="Resamples",
                remedy="share resamples among tests on the same sets, with no more draws than were made; "
                "else pass a generator",
            )
        return self._table[:draws]


Source: TypeAlias = np.random.Generator | Resamples
"""Where multiplicities come from: drawn now, or shared."""


def set_counts(n_sets: int, draws: int, rng: Source) -> Counts:
    """Multiplicities (draws, n_sets) of sets drawn with replacement, each row with sum n_sets."""
    return np.concatenate(list(set_count_chunks(n_sets, draws, rng)))


def set_count_chunks(n_sets: int, draws: int, rng: Source) -> Iterator[Counts]:
    """The rows of `set_counts`, the same for the same generator, in chunks that fit in memory."""
    if n_sets < 1 or draws < 1:
        raise StatisticsError(
            f"{draws} draws of {n_sets} sets were asked for.", where="set_counts", remedy="both must be at least 1"
        )
    for rows in spans(n_sets, draws, CHUNK):
        if isinstance(rng, Resamples):
            yield rng.rows(n_sets, draws)[rows].astype(np.int32)
            continue
        counts = np.empty((rows.stop - rows.start, n_sets), dtype=np.int32)
        for part in spans(n_sets, len(counts)):
            counts[part] = _counted(n_sets, part.stop - part.start, rng)
        yield counts


def weight_pieces(n_sets: int, draws: int, rng: Source) -> Iterator[FloatArray]:
    """The rows of `set_counts` as float64, in pieces whose product with a table the processor's cache holds."""
    for rows in spans(n_sets, draws):
        if isinstance(rng, Resamples):
            yield rng.rows(n_sets, draws)[rows].astype(np.float64)
        else:
            yield _counted(n_sets, rows.stop - rows.start, rng).astype(np.float64)


def _counted(n_sets: int, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    drawn = rng.integers(0, n_sets, size=(draws, n_sets))
    drawn += np.arange(draws)[:, None] * n_sets
    return np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)


def spans(n_sets: int, draws: int, entries: int = _BLOCK) -> Iterator[slice]:
    """Rows of so many entries at most, one at least."""
    step = max(1, entries // n_sets)
    return (slice(start, min(start + step, draws)) for start in range(0, draws, step))
