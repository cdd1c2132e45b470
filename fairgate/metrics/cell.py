"""The images that one check is about, coded for counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import MetricError
from fairgate.probes import Rows

Crossing = tuple[str, ...]
"""Attributes that are crossed into one partition of the images; one attribute is a crossing of one."""

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]


class GroupedRows(Rows, Protocol):
    """The dataset's columns, and how it codes groups; `fairgate.data.Dataset.index` is one."""

    def codes(self, attributes: str | Sequence[str]) -> tuple[NDArray[np.int64], list[str]]: ...


@dataclass(frozen=True, slots=True)
class Cell:
    """The images that one check is about, on one subject or on all.

    `rows` (images,) are their places in the dataset, `set_code` (images,) their sets as 0..sets-1 with `set_ids` their
    names; `group_codes` holds one (images,) coding per grouping, and `groups` the names of each grouping's groups.
    """

    rows: NDArray[np.int64]
    set_code: NDArray[np.int64]
    set_ids: NDArray[Any]
    subject: NDArray[Any]
    group_codes: tuple[NDArray[np.int64], ...]
    groups: tuple[tuple[str, ...], ...]

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self.set_ids)

    @property
    def unit(self) -> str:
        """What is resampled and compared, as a reader calls it: "images" where each image is a set of its own."""
        return "images" if self.n_sets == len(self.rows) else "sets"

    def group_names(self) -> list[str]:
        """Names of all groups, grouping after grouping."""
        return [name for names in self.groups for name in names]

    def group_images(self) -> NDArray[np.int64]:
        """Number of images of every group."""
        return np.concatenate(
            [
                np.bincount(codes, minlength=len(names))
                for codes, names in zip(self.group_codes, self.groups, strict=True)
            ]
        )

    def group_sets(self) -> NDArray[np.int64]:
        """Number of sets that hold a member of every group."""
        sets: NDArray[np.int64] = (self.per_set(np.zeros(len(self.rows)))[1] > 0).sum(axis=0)
        return sets

    def sets_with(self, group: str) -> NDArray[np.bool_]:
        """Which sets hold a member of the group, (sets,)."""
        holding = np.zeros(self.n_sets, dtype=bool)
        for codes, names in zip(self.group_codes, self.groups, strict=True):
            if group in names:
                holding[self.set_code[codes == names.index(group)]] = True
        return holding

    def per_set(self, values: Floats) -> tuple[Floats, Floats]:
        """Sums of `values` (images,) and counts, both (sets, groups), of every set's members in every group; (sets, 1)
        of all members where there are no groups."""
        sums, counts = [], []
        codings = zip(self.group_codes, map(len, self.groups), strict=True)
        for codes, n_groups in codings if self.groups else [(np.zeros_like(self.set_code), 1)]:
            flat, size = self.set_code * n_groups + codes, self.n_sets * n_groups
            sums.append(np.bincount(flat, values, minlength=size).astype(np.float64).reshape(-1, n_groups))
            counts.append(np.bincount(flat, minlength=size).astype(np.float64).reshape(-1, n_groups))
        return np.concatenate(sums, axis=1), np.concatenate(counts, axis=1)

    def sets_by_members(self, values: Floats) -> Floats:
        """`values` (images,) as (sets, members). Raises MetricError when sets differ in size."""
        sizes = np.bincount(self.set_code, minlength=self.n_sets)
        if sizes.min() != sizes.max():
            raise MetricError(
                f"sets have between {sizes.min()} and {sizes.max()} members.",
                where=f"set '{self.set_ids[int(sizes.argmin())]}'",
                remedy="run `fairgate dataset verify NAME`: every member of a set must be scored",
            )
        return values[np.argsort(self.set_code, kind="stable")].reshape(self.n_sets, -1)


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a dataset, each coded once: many checks are about the same images."""

    index: GroupedRows
    _known: dict[tuple[str | None, tuple[Crossing, ...]], Cell] = field(default_factory=dict)

    def of(self, subject: str | None, crossings: tuple[Crossing, ...]) -> Cell:
        """The images of one subject, or (None) of all."""
        index, key = self.index, (subject, crossings)
        if key in self._known:
            return self._known[key]
        everything = np.arange(len(index.subject), dtype=np.int64)
        rows = everything if subject is None else np.flatnonzero(index.subject == subject)
        set_ids, set_code = np.unique(index.set_id[rows], return_inverse=True)
        codings = [index.codes(crossing) for crossing in crossings]
        self._known[key] = Cell(
            rows=rows,
            set_code=set_code.astype(np.int64),
            set_ids=set_ids,
            subject=index.subject[rows],
            group_codes=tuple(np.asarray(codes, dtype=np.int64)[rows] for codes, _ in codings),
            groups=tuple(tuple(names) for _, names in codings),
        )
        return self._known[key]
