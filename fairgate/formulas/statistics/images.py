"""Numbers of single images, summed once by small cells and added up for every grouping.

Checks on a probe compare the same numbers in groups of one attribute, of another and of all crossed. The cells of the
finest crossing are parts of all of them: one pass over the images of a probe serves all of its checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.formulas.statistics.entries import Entries, FloatArray
from fairgate.formulas.statistics.moments import ALIKE, LOOKED_AT, SPARSE_ANSWERS, Moments, departing_answers
from fairgate.formulas.statistics.resampling import Resamples

_AT_ONCE = 1 << 18
"""Images that are summed at once: 2 MB of numbers."""

_REMEMBERED = 24
"""Sums that are remembered: a few MB each."""


@dataclass(frozen=True, slots=True)
class CellSums:
    """Of every cell, (cells,): the sum of its numbers, how many are not 0, their mean, and sums of squares and cubes of
    the deviations from it. By block and cell, (blocks, cells): sums of deviations and of their squares."""

    total: FloatArray
    other: FloatArray
    mean: FloatArray
    squares: FloatArray
    cubes: FloatArray
    deviation: FloatArray
    square: FloatArray


@dataclass(frozen=True, slots=True)
class ImageCells:
    """The finest groups of single images: every image's `cell` and its `place` among all sets, (images,) each, and the
    number of images by cell, `counts` (cells,)."""

    cell: NDArray[np.integer[Any]]
    place: NDArray[np.integer[Any]]
    counts: NDArray[np.int64]
    _known: list[tuple[tuple[Any, ...], Any]] = field(default_factory=list, repr=False, compare=False)

    def once(self, of: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What is made `of` these very objects; the latest are remembered."""
        for known, made in self._known:
            if len(known) == len(of) and all(own is other for own, other in zip(known, of, strict=True)):
                return made
        made = make()
        self._known[:] = [(of, made), *self._known[: _REMEMBERED - 1]]
        return made

    def first(self) -> list[NDArray[np.int64]]:
        """Some images of every cell, the first ones."""
        order, ends = np.argsort(self.cell, kind="stable"), np.cumsum(self.counts)
        return [order[end - count : end][:LOOKED_AT].copy() for end, count in zip(ends, self.counts, strict=True)]

    def places(self, unit: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        """Every image's place in a table by block and cell, (images,), from the block of every set, (sets,)."""
        places = np.empty(len(self.cell), dtype=np.int32)
        for rows in self.parts():
            places[rows] = unit[self.place[rows]].astype(np.int32) * len(self.counts) + self.cell[rows]
        return places

    def parts(self) -> Iterator[slice]:
        """All images, some at once."""
        return (slice(start, start + _AT_ONCE) for start in range(0, len(self.cell), _AT_ONCE))

    def sums(self, now: NDArray[Any], before: NDArray[Any] | None, unit: NDArray[np.integer[Any]]) -> CellSums | None:
        """Of numbers (images,), or of what they are more than they were `before`; None unless all are finite."""
        cells, places = len(self.counts), self.once(("places", unit), lambda: self.places(unit))
        total, other, squares, cubes = np.zeros((4, cells))
        for rows in self.parts():
            numbers = _numbers(now, before, rows)
            total += np.bincount(self.cell[rows], numbers, minlength=cells)
            other += np.bincount(self.cell[rows], numbers != 0, minlength=cells)
        if not np.isfinite(total).all():
            return None
        mean, size = total / np.maximum(self.counts, 1), (int(unit.max()) + 1) * cells
        in_blocks = np.zeros((2, size))
        for rows in self.parts():
            cell, place = self.cell[rows].astype(np.intp), places[rows].astype(np.intp)
            deviation = _numbers(now, before, rows) - mean[cell]
            square = deviation**2
            squares += np.bincount(cell, square, minlength=cells)
            cubes += np.bincount(cell, square * deviation, minlength=cells)
            in_blocks += [np.bincount(place, each, minlength=size) for each in (deviation, square)]
        return CellSums(total, other, mean, squares, cubes, *in_blocks.reshape(2, -1, cells))

    def in_blocks(self, unit: NDArray[np.integer[Any]]) -> FloatArray:
        """Images by block and cell, (blocks, cells)."""
        places, cells = self.once(("places", unit), lambda: self.places(unit)), len(self.counts)
        size = (int(unit.max()) + 1) * cells
        counts = sum(np.bincount(places[rows], minlength=size) for rows in self.parts())
        return np.asarray(counts, dtype=np.float64).reshape(-1, cells)


@dataclass(frozen=True, slots=True)
class ImageNumbers:
    """A number `now` of every single image, (images,), or what it is more than `before`, times `sign`.

    `group` (cells,) is the one of so many `groups` that each cell is in, -1 if in none; `plain` lists the same numbers.
    """

    cells: ImageCells
    group: NDArray[np.int64]
    groups: int
    now: NDArray[Any]
    plain: Callable[[], Entries]
    before: NDArray[Any] | None = None
    sign: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of images and of groups."""
        return len(self.now), self.groups

    def sets(self) -> NDArray[np.int64]:
        """Images of every group, (groups,)."""
        return self._added(self.cells.counts).astype(np.int64)

    def means(self) -> FloatArray:
        """Mean of every group, (groups,), NaN of one without an image; not of differences."""
        cells = self.cells

        def totals() -> Any:
            return sum(np.bincount(cells.cell[rows], self.now[rows], len(cells.counts)) for rows in cells.parts())

        with np.errstate(invalid="ignore"):
            return self._added(cells.once(("totals", self.now), totals)) / self.sets()

    def among(self, groups: NDArray[np.bool_]) -> ImageNumbers:
        """The numbers of these groups (groups,) alone, which are counted anew."""
        if groups.all():
            return self
        place = np.where(groups, np.cumsum(groups) - 1, -1)
        group = np.where(self.group >= 0, place[self.group], -1)
        return replace(self, group=group, groups=int(groups.sum()), plain=lambda: self.plain().among(groups))

    def less(
        self, before: ImageNumbers, sign: float, minus: Callable[[Entries, Entries, float], Entries]
    ) -> ImageNumbers:
        """What they are more than the same images' numbers `before`, times the sign; `minus` subtracts lists."""
        return replace(self, before=before.now, sign=sign, plain=lambda: minus(self.plain(), before.plain(), sign))

    def moments(self, sets: Resamples) -> Moments | None:
        """Their moments in every group; None if they have to be looked at one by one: sets are drawn and not blocks,
        numbers are missing, or most of a group's may be equal."""
        unit, cells, n, sign = sets.unit, self.cells, self.sets(), self.sign
        if unit is None or n.min(initial=LOOKED_AT) < LOOKED_AT:
            return None
        sums = partial(cells.sums, self.now, self.before, unit)
        known: CellSums | None = cells.once((self.now, self.before, unit), sums)
        if known is None:
            return None
        counts, inside, mean = cells.counts.astype(np.float64), self.group >= 0, self._added(known.total) / n
        shift = np.zeros(len(counts))
        shift[inside] = known.mean[inside] - mean[self.group[inside]]
        squares = self._added(known.squares + counts * shift**2)
        turned = self._turned(known, n)
        if turned is None and ((squares <= n * (ALIKE * mean) ** 2).any() or self._may_agree()):
            return None
        if not squares.any() and np.ptp(mean) == 0:  # all numbers are the same
            return None
        images = cells.once(("images", unit), lambda: cells.in_blocks(unit))

        def by_unit(_: Resamples, power: int) -> FloatArray:
            if power == 1:
                return sign * self._in_groups(known.deviation + images * shift)
            return self._in_groups(known.square + shift * (2 * known.deviation + shift * images))

        def tally(resamples: Resamples, draws: int) -> FloatArray:
            of = ("tally", self.group, resamples.unit, draws)
            counted: FloatArray = cells.once(of, lambda: resamples.drawn([self._in_groups(images)], draws)[0])
            return counted

        return Moments(
            n_sets=self.shape[0],
            n=n,
            mean=sign * mean,
            squares=squares,
            cubes=sign * self._added(known.cubes + 3 * shift * known.squares + counts * shift**3),
            turned=turned,
            departing=n if turned is None else departing_answers(turned),
            by_unit=by_unit,
            tally=tally,
            samples=lambda: self.plain().samples(),
            apart=lambda: True,
        )

    def _turned(self, known: CellSums, n: NDArray[np.int64]) -> list[tuple[int, int, int]] | None:
        """Per group, the answers that are lower, those that are higher, and all; None of other numbers."""
        if self.now.dtype != bool or (self.before is not None and self.before.dtype != bool):
            return None
        total, other = self.sign * self._added(known.total), self._added(known.other)
        lost, won = ((other - total) / 2).astype(int).tolist(), ((other + total) / 2).astype(int).tolist()
        return list(zip(lost, won, n.tolist(), strict=True))

    def _may_agree(self) -> bool:
        """Whether most of a group's numbers may be equal, or all may be right-or-wrong answers, by some of them."""
        first = self.cells.once(("first",), self.cells.first)
        for group in range(self.groups):
            places = np.concatenate([first[cell] for cell in np.flatnonzero(self.group == group)])[:LOOKED_AT]
            values, counts = np.unique(_numbers(self.now, self.before, places), return_counts=True)
            if counts.max() > SPARSE_ANSWERS or np.isin(values, (-1, 0, 1)).all():
                return True
        return False

    def _added(self, of_cells: FloatArray | NDArray[np.int64]) -> FloatArray:
        """Numbers (cells,) added up by group, (groups,)."""
        inside = self.group >= 0
        return np.bincount(self.group[inside], of_cells[inside], minlength=self.groups).astype(np.float64)

    def _in_groups(self, table: FloatArray) -> FloatArray:
        """A table by block and cell, by block and group."""
        return np.asarray(table @ (self.group[:, None] == np.arange(self.groups)).astype(np.float64))


def listed(numbers: ArrayLike | Entries | ImageNumbers, weight: FloatArray | None = None) -> Entries:
    """Numbers one by one; of a table `weight` too."""
    return numbers.plain() if isinstance(numbers, ImageNumbers) else Entries.of(numbers, weight)


def _numbers(now: NDArray[Any], before: NDArray[Any] | None, rows: slice | NDArray[np.int64]) -> FloatArray:
    numbers = now[rows].astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinite numbers are refused later
        return numbers if before is None else numbers - before[rows]
