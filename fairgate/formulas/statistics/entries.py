"""Numbers of groups inside sets, as a list of those that there are.

As a table (sets, groups) they would be empty nearly everywhere if sets are single images: each shows one group of many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Entries:
    """The number of every group that a set has: `value`, with its set `row` and its group `column`, (entries,) each.

    `weight` (entries,) are the images that a number is of, if they differ. Sets and groups may lack any number.
    """

    value: FloatArray
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    shape: tuple[int, int]
    """Number of sets and of groups"""
    weight: FloatArray | None = None

    @classmethod
    def of(cls, table: ArrayLike | Entries, weight: FloatArray | None = None) -> Entries:
        """The numbers of a table (sets,) or (sets, groups), NaN where a set lacks the group; `weight` likewise."""
        if isinstance(table, Entries):
            return table
        values = np.asarray(table, dtype=np.float64)
        values = values.reshape(len(values), -1)
        row, column = np.nonzero(~np.isnan(values))
        weights = None if weight is None else weight[row, column]
        return cls(values[row, column], row, column, (values.shape[0], values.shape[1]), weights)

    def among(self, groups: NDArray[np.bool_]) -> Entries:
        """The numbers of these groups (groups,) alone, which are counted anew."""
        if groups.all():
            return self
        chosen = groups[self.column]
        column = (np.cumsum(groups) - 1)[self.column[chosen]]
        shape = (self.shape[0], int(groups.sum()))
        return replace(self.having(chosen), column=column, shape=shape)

    def having(self, chosen: NDArray[np.bool_]) -> Entries:
        """Some of the numbers, of the same sets and groups."""
        weight = None if self.weight is None else self.weight[chosen]
        return Entries(self.value[chosen], self.row[chosen], self.column[chosen], self.shape, weight)

    def sums(self, numbers: FloatArray) -> FloatArray:
        """Sums of numbers (entries,) by group, (groups,)."""
        return np.bincount(self.column, numbers, minlength=self.shape[1]).astype(np.float64)

    def means(self) -> FloatArray:
        """Mean of every group over images, (groups,), of numbers that are sums over as many as their weight; NaN of a
        group without an image."""
        assert self.weight is not None
        with np.errstate(invalid="ignore"):
            return np.asarray(self.sums(self.value) / self.sums(self.weight))

    def sets(self) -> NDArray[np.int64]:
        """Sets with a number of every group, (groups,)."""
        return np.bincount(self.column, minlength=self.shape[1]).astype(np.int64)

    def places(self) -> list[NDArray[np.intp]]:
        """Where every group's numbers are, (sets of the group,) each, in order; remembered of the latest `column`."""
        known = _LATEST[0] if _LATEST else None  # read once: another thread may put its own there
        if known is None or known[0] is not self.column or len(known[1]) != self.shape[1]:
            column = self.column.astype(np.uint16) if self.shape[1] < 2**16 else self.column  # sorted in linear time
            order = np.argsort(column, kind="stable")
            known = self.column, np.split(order, np.cumsum(self.sets())[:-1])
            _LATEST[:] = [known]
        return known[1]

    def samples(self) -> list[FloatArray]:
        """Every group's numbers, (sets of the group,) each, in their order."""
        return [self.value[places] for places in self.places()]

    def keys(self) -> NDArray[np.int64]:
        """The place of every number in a table, (entries,)."""
        return self.row * self.shape[1] + self.column

    def is_placed_as(self, other: Entries) -> bool:
        """Whether the numbers are of the same sets and groups, in the same order, as those of another."""
        if self.shape == other.shape and self.row is other.row and self.column is other.column:
            return True
        return np.array_equal(self.keys(), other.keys())


_LATEST: list[tuple[NDArray[np.int64], list[NDArray[np.intp]]]] = []
