"""Sets drawn with replacement, as multiplicities: how often each set stands in the resampled data.

Every statistic is computed from multiplicities, so that two runs, or many metrics, can share the same draws and be
compared pair by pair. `Resamples` keeps them for several tests on the same sets; they cost more than a test does.
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

_BLOCK = 1 << 17
"""Entries counted at once: 1 MB, which the processor's cache holds. Half the time of counting a whole chunk."""


@dataclass(frozen=True, slots=True)
class Resamples:
    """Multiplicities that several tests on the same sets share; stands wherever a generator would draw them.

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

    def chunks(self, n_sets: int, draws: int) -> Iterator[Counts]:
        """The first `draws` draws; raises StatisticsError for other sets, or more draws, than it holds."""
        if n_sets != self.n_sets or not 0 < draws <= self.draws:
            raise StatisticsError(
                f"{draws} resamples of {n_sets} sets were asked of {self.draws} resamples of {self.n_sets} sets.",
                where="Resamples",
                remedy="share resamples among tests on the same sets, with no more draws than were made; "
                "else pass a generator",
            )
        step = max(1, CHUNK // n_sets)
        for start in range(0, draws, step):
            yield self._table[start : min(start + step, draws)].astype(np.int32)


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
    if isinstance(rng, Resamples):
        yield from rng.chunks(n_sets, draws)
        return
    step = max(1, CHUNK // n_sets)
    for start in range(0, draws, step):
        counts = np.empty((min(step, draws - start), n_sets), dtype=np.int32)
        for block in np.array_split(counts, -(-counts.size // max(_BLOCK, n_sets))):
            drawn = rng.integers(0, n_sets, size=block.shape)
            drawn += np.arange(len(block))[:, None] * n_sets
            block[:] = np.bincount(drawn.ravel(), minlength=block.size).reshape(block.shape)
        yield counts
