"""Counterfactual sets drawn with replacement, and intervals of means. The images of a set are not independent: sets are
drawn, as multiplicities, how often each set is in the resampled data.

Every statistic is computed from multiplicities, so that two runs, or many metrics, can share the same draws and be
compared pair by pair. `Resamples` holds them for several tests on the same sets; they cost more than a test does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.formulas.statistics.entries import Entries
from fairgate.ground.errors import StatisticsError

FloatArray: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int32]

CHUNK = 4_000_000
"""Entries of one temporary array: 32 MB of float64."""

_SPARSE = 20
"""Columns are sparse if at most one in so many entries is not 0: from there on, their product takes less time."""

MOST = 8192
"""Sets that are drawn themselves; of more, blocks."""

BLOCKS = 2048
"""Blocks at most. Their sums estimate a variance to 1 / sqrt(1024) = 3%, which `Resamples.spread` takes off."""

_LEAST = 256
"""Blocks of every group, or all its rows, however many groups are drawn apart."""

_FEW = 8
"""Rows per pattern from which on patterns are drawn instead of rows, if they are no more than blocks would be."""

_KEPT = 16
"""Tallies that are remembered: a few MB each."""

_BLOCK = 1 << 18
"""Entries counted and multiplied at once: 2 MB, which the processor's cache holds. Half the time of a whole chunk."""


@dataclass(frozen=True, slots=True)
class _Tally:
    """What was counted of some sets and groups, which are told by their arrays."""

    shape: tuple[int, int]
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    weight: FloatArray | None
    draws: int
    counts: FloatArray


@dataclass(frozen=True, slots=True)
class Resamples:
    """Multiplicities that several tests on the same sets share; takes the place of the generator that draws them.

    `Resamples(n_sets, draws, rng)` gives the same results as `rng` itself would, drawn once. Two bytes per set and
    draw. Two tests on the same resamples are no independent evidence; a correction over a family of them (Holm,
    Bonferroni) holds under any dependence.

    Of more sets than `MOST`, blocks are drawn: the sets are dealt at random into at most `BLOCKS` blocks of one size,
    independent and alike as the sets are, so that time and memory do not grow with the sets. What blocks vary more, or
    less, than their sets is taken off the sums of centred values (`spread`).
    """

    n_sets: int
    draws: int
    rng: InitVar[np.random.Generator]
    unit: NDArray[np.int64] | None = field(init=False, repr=False, compare=False)
    """(sets,), the block of every set; None if sets are drawn"""
    _table: NDArray[np.float32] | NDArray[np.uint16] = field(init=False, repr=False, compare=False)
    _tallies: list[_Tally] = field(default_factory=list, init=False, repr=False, compare=False)
    _places: list[tuple[NDArray[np.int64], NDArray[np.int64], int, NDArray[np.int64]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """Rows, columns and groups of the latest entries, and the place of each in a table by what is drawn and group"""

    def __post_init__(self, rng: np.random.Generator) -> None:
        unit = blocks_of(self.n_sets, rng, BLOCKS) if self.n_sets > MOST else None
        units = self.n_sets if unit is None else int(unit.max()) + 1
        table = np.empty((max(self.draws, 0), max(units, 0)), dtype=np.uint16 if unit is None else np.float32)
        start = 0
        for chunk in set_count_chunks(units, self.draws, rng):
            table[start : (start := start + len(chunk))] = chunk
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "_table", table)

    def rows(self, n_sets: int, draws: int, rows: slice = slice(None)) -> Counts:
        """Of the first draws some rows, (rows, n_sets); raises StatisticsError for other sets, or more draws, than it
        holds."""
        table = self._units(n_sets, draws)[rows].astype(np.int32)
        return table if self.unit is None else table[:, self.unit]

    def _units(self, n_sets: int, draws: int) -> NDArray[np.float32] | NDArray[np.uint16]:
        if n_sets != self.n_sets or not 0 < draws <= self.draws:
            raise StatisticsError(
                f"{draws} resamples of {n_sets} sets were asked of {self.draws} resamples of {self.n_sets} sets.",
                where="Resamples",
                remedy="share resamples among tests on the same sets, with no more draws than were made; "
                "else pass a generator",
            )
        return self._table[:draws]

    def of_blocks(self, draws: int) -> Iterator[Counts]:
        """Multiplicities of the blocks, (draws, blocks) in chunks; of the sets, if they are drawn themselves."""
        table = self._units(self.n_sets, draws)
        return (table[rows].astype(np.int32) for rows in spans(table.shape[1], draws, 4 * _BLOCK))

    def sums(self, entries: Entries, numbers: Sequence[FloatArray], draws: int) -> list[FloatArray]:
        """Resampled sums by group, (draws, groups) each, of several numbers (entries,) of the same sets and groups."""
        return self.drawn([self.by_unit(entries, each) for each in numbers], draws)

    def drawn(self, tables: Sequence[FloatArray], draws: int) -> list[FloatArray]:
        """Resampled sums, (draws, groups) each, of tables by what is drawn and group, as `by_unit` makes them."""
        table, columns = self._units(self.n_sets, draws), np.concatenate(tables, axis=1)
        if self.unit is not None:  # no sums tie that single precision would part
            drawn = (table @ columns.astype(np.float32)).astype(np.float64)
        else:
            thin = without_zeros(columns)
            drawn = np.concatenate([table[rows].astype(np.float64) @ thin for rows in spans(table.shape[1], draws)])
        return np.split(drawn, len(tables), axis=1)

    def tally(self, entries: Entries, draws: int, *, images: bool = False) -> FloatArray:
        """Resampled sets of every group, or their images (the weights), (draws, groups); the latest are remembered."""
        weight = entries.weight if images else None
        for known in self._tallies:
            same = known.draws == draws and known.shape == entries.shape and (known.weight is None) == (weight is None)
            pairs: list[Any] = [(known.row, entries.row), (known.column, entries.column), (known.weight, weight)]
            if same and all(own is theirs or np.array_equal(own, theirs) for own, theirs in pairs):
                return known.counts
        numbers = np.ones(len(entries.row)) if weight is None else weight
        (counts,) = self.sums(entries, [numbers], draws)
        tally = _Tally(entries.shape, entries.row, entries.column, weight, draws, counts)
        self._tallies[:] = [tally, *self._tallies[: _KEPT - 1]]
        return counts

    def spread(self, table: FloatArray, squares: FloatArray) -> FloatArray | float:
        """What resampled sums by group are multiplied by, (groups,), to vary as those of resampled sets would: sums of
        centred numbers by what is drawn and group, `table`, of which the sets' `squares` have such sums (groups,)."""
        if self.unit is None:
            return 1.0
        of_blocks = (table**2).sum(axis=0)
        return np.asarray(np.sqrt(np.divide(squares, of_blocks, out=np.ones(len(of_blocks)), where=of_blocks > 0)))

    def by_unit(self, entries: Entries, numbers: FloatArray) -> FloatArray:
        """Sums of numbers (entries,) by what is drawn and group, (sets or blocks, groups)."""
        groups, units = entries.shape[1], self._table.shape[1]
        if entries.shape[0] != self.n_sets:
            self._units(entries.shape[0], 1)  # raises
        known = self._places[0] if self._places else None
        if known is None or known[0] is not entries.row or known[1] is not entries.column or known[2] != groups:
            row = entries.row if self.unit is None else self.unit[entries.row]
            known = entries.row, entries.column, groups, row * groups + entries.column
            self._places[:] = [known]
        table = np.bincount(known[3], numbers, minlength=units * groups)
        return table.astype(np.float64, copy=False).reshape(units, groups)


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
            yield rng.rows(n_sets, draws, rows)
            continue
        counts = np.empty((rows.stop - rows.start, n_sets), dtype=np.int32)
        for part in spans(n_sets, len(counts)):
            counts[part] = _counted(n_sets, part.stop - part.start, rng)
        yield counts


def blocks_of(n_sets: int, rng: np.random.Generator, blocks: int) -> NDArray[np.int64]:
    """The block of every set, (sets,): dealt at random into so many at most, all of one size but the last."""
    unit = np.empty(n_sets, dtype=np.int64)
    unit[rng.permutation(n_sets)] = np.arange(n_sets) // -(-n_sets // blocks)
    return unit


def most_drawn(rows: int, groups: int) -> int:
    """Of so many rows in groups that are drawn apart, how many rows of a group are drawn themselves: all if they are
    `MOST` in all. Else the groups share `MOST` blocks, of which none has more than `BLOCKS` or less than `_LEAST`."""
    return MOST if rows <= MOST else max(_LEAST, min(BLOCKS, MOST // groups))


def resampled_sums(table: FloatArray, draws: int, rng: np.random.Generator, *, most: int) -> FloatArray:
    """Sums of a table (rows, columns) over rows drawn with replacement, as many as there are, (draws, columns).

    If few rows differ, as of right-or-wrong answers, how often each pattern is drawn is drawn at once: the distribution
    is the same, and the time does not grow with the rows. Of more than `most` other rows, so many blocks are drawn, as
    `Resamples` does.
    """
    rows = len(table)
    if (patterns := _patterns(table)) is not None:
        first, counts = patterns
        return np.asarray(rng.multinomial(rows, counts / rows, size=draws) @ table[first])
    if rows <= most:
        return _products(table, draws, rng)
    unit = blocks_of(rows, rng, most)
    mean = table.mean(axis=0)
    centred = table - mean
    blocks = np.stack([np.bincount(unit, column).astype(np.float64) for column in centred.T], axis=1)
    wanted, have = (centred**2).sum(axis=0), (blocks**2).sum(axis=0)
    blocks *= np.sqrt(np.divide(wanted, have, out=np.ones_like(have), where=have > 0))
    return np.asarray(rows * mean + _products(blocks, draws, rng))


def _patterns(table: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """A row of every pattern, in the order of their numbers, and how many rows have it; None if many differ. Of five
    columns at most: the code of a pattern is one integer."""
    most = min(len(table) / _FEW, BLOCKS)
    code = np.zeros(len(table), dtype=np.int64)
    for column in table.T:
        values = np.unique(column)
        if values.size > most:
            return None
        code = code * values.size + np.searchsorted(values, column)
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    return (first, counts) if first.size <= most else None


def _products(table: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
    pieces = spans(len(table), draws)
    return np.concatenate(
        [_counted(len(table), rows.stop - rows.start, rng).astype(np.float64) @ table for rows in pieces]
    )


def without_zeros(columns: FloatArray) -> Any:
    """Columns (sets, k) for products `weights @ columns`, as a sparse matrix if most entries are 0: of single images,
    each is in one group of many, and the product then costs the images alone."""
    if np.count_nonzero(columns) * _SPARSE > columns.size:
        return columns
    from scipy.sparse import csr_array  # is not needed by most suites

    return csr_array(columns)


def _counted(n_sets: int, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    drawn = rng.integers(0, n_sets, size=(draws, n_sets))
    drawn += np.arange(draws)[:, None] * n_sets
    return np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)


def spans(n_sets: int, draws: int, entries: int = _BLOCK) -> Iterator[slice]:
    """Rows of so many entries at most, one at least."""
    step = max(1, entries // n_sets)
    return (slice(start, min(start + step, draws)) for start in range(0, draws, step))


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate between its limits at confidence 1 - alpha, and how they were found."""

    estimate: float
    lo: float
    hi: float
    method: Literal["percentile", "extreme", "reflected", "order statistics"]
    draws: int


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No interval, because none that could be given would cover. Reports print the reason."""

    reason: str


def bootstrap(
    values: ArrayLike, sets: int | ArrayLike, rng: Source, n: int = 10_000, *, alpha: float = 0.05
) -> Interval:
    """Percentile interval of the mean of values (rows,) by n resamples of sets.

    `sets`: the set code 0..sets-1 of each row, or the number of sets (then values are one per set). Raises
    StatisticsError for values that are not finite and fewer than two sets.
    """
    value = np.asarray(values, dtype=np.float64)
    code = np.arange(sets) if isinstance(sets, int) else np.asarray(sets)
    n_sets = int(code.max(initial=-1)) + 1
    if value.ndim != 1 or code.shape != value.shape or not np.isfinite(value).all() or np.unique(code).size < n_sets:
        raise StatisticsError(
            f"{value.size} values of shape {value.shape}, {int((~np.isfinite(value)).sum())} of them not finite, "
            f"do not fit {n_sets} sets.",
            where="values",
            remedy="pass finite values (rows,) with the set code 0, 1, ... of each, or one per set and their number",
        )
    if n_sets < 2:
        raise StatisticsError(
            f"{n_sets} set cannot be resampled.", where="sets", remedy="score at least two sets, better thirty"
        )
    total, rows = np.bincount(code, value), np.bincount(code)

    def mean(counts: Counts) -> FloatArray:
        return np.asarray((counts @ total) / (counts @ rows))

    estimate = float(mean(np.ones((1, n_sets), dtype=np.int32))[0])
    draws = np.concatenate([mean(chunk) for chunk in set_count_chunks(n_sets, n, rng)])
    lo, hi = np.quantile(draws, [alpha / 2, 1 - alpha / 2])
    return Interval(estimate=estimate, lo=float(lo), hi=float(hi), method="percentile", draws=n)
