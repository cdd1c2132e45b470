"""The images that one check is about, coded for counting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.data import TextRows, code_type, on_disk
from fairgate.formulas.statistics import MOST, Entries, ImageCells, ImageNumbers
from fairgate.ground.errors import MetricError
from fairgate.probes import Rows, text_codes

Crossing = tuple[str, ...]
"""Attributes that are crossed into one partition of the images; one attribute is a crossing of one."""

_REMEMBERED = 40 << 20
"""Bytes of what cells remember."""

_FINEST = 256
"""Groups of a crossing that are summed once for all groupings: two numbers of each for every block, 8 MB."""

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]


class GroupedRows(Rows, Protocol):
    """The dataset's columns, and how it codes groups; `fairgate.data.Dataset.index` is one."""

    def codes(self, attributes: str | Sequence[str]) -> tuple[NDArray[np.int64], list[str]]: ...


@dataclass(frozen=True, slots=True)
class SetGroups:
    """Which groups every set has images of, as `Entries` lists them: `row`, `column` and the number of images `weight`,
    (entries,) each. `entry` (images x groupings,) is where every image counts, in the order of the groupings."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    weight: Floats
    entry: NDArray[np.int64]
    shape: tuple[int, int]

    @classmethod
    def of(
        cls, set_code: NDArray[np.int64], n_sets: int, codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]
    ) -> SetGroups:
        """The places of images with a group code in every grouping; groups are counted through all groupings."""
        starts, groups = np.cumsum([0, *sizes]), int(sum(sizes))
        if n_sets == len(set_code) and len(codes) == 1:  # images that form no sets, in a group each
            column = np.empty(n_sets, dtype=np.int64)
            column[set_code] = codes[0]
            return cls(_all_sets(n_sets), on_disk(column), np.broadcast_to(1.0, n_sets), set_code, (n_sets, groups))
        flat = np.concatenate([set_code * groups + code + at for code, at in zip(codes, starts, strict=False)])
        keys, entry, weight = used_codes(flat, n_sets * groups)
        row, column = np.divmod(keys, groups)
        return cls(row, column, weight.astype(np.float64), entry, (n_sets, groups))

    def entries(self, values: Floats) -> Entries:
        """Sums of `values` (images,) over every set's images in every group."""
        repeated = np.tile(values, len(self.entry) // len(values)) if len(values) else values
        sums = np.bincount(self.entry, repeated, minlength=len(self.row)).astype(np.float64)
        return Entries(sums, self.row, self.column, self.shape, self.weight)


def used_codes(codes: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The codes of 0..size-1 that are used, in order; each code's place among them; and how often each is used."""
    if size > 8 * len(codes):
        return np.unique(codes, return_inverse=True, return_counts=True)
    counts = np.bincount(codes, minlength=size)
    used = np.flatnonzero(counts)
    places = codes if len(used) == size else (np.cumsum(counts > 0) - 1)[codes]
    return used, places, counts[used]


@lru_cache(maxsize=1)
def _all_sets(n_sets: int) -> NDArray[np.int64]:
    """0..sets-1: one array for all groupings."""
    return on_disk(np.arange(n_sets))


@dataclass(frozen=True, slots=True)
class Cell:
    """The images that one check is about, on one subject or on all.

    `rows` (images,) are their places in the dataset, `set_code` (images,) their sets as 0..sets-1 with `set_ids` their
    names; `group_codes` holds one (images,) coding per grouping, and `groups` the names of each grouping's groups.
    """

    rows: NDArray[np.int64]
    set_code: NDArray[np.int64]
    set_ids: TextRows
    subject: TextRows
    group_codes: tuple[NDArray[np.int64], ...]
    groups: tuple[tuple[str, ...], ...]
    finest: Callable[[], ImageCells | None] = lambda: None
    """Of very many single images, groups of which those here are unions"""
    _made: list[tuple[str, NDArray[Any], NDArray[Any]]] = field(default_factory=list, repr=False, compare=False)
    _known: list[SetGroups] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self.set_ids)

    @property
    def unit(self) -> str:
        """What is resampled and compared, as a reader calls it: "images" where each image is a set of its own."""
        return "images" if self.n_sets == len(self.rows) else "sets"

    @property
    def drawn(self) -> str:
        """What a resample draws: sets or images, or blocks of very many."""
        return self.unit if self.n_sets <= MOST else f"blocks of {self.unit}"

    def group_names(self) -> list[str]:
        """Names of all groups, grouping after grouping."""
        return [name for names in self.groups for name in names]

    def group_images(self, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Number of images of every group; of some alone, by their places in the cell."""
        counts = []
        for codes, size in zip(self.group_codes, map(len, self.groups), strict=True):
            if among is None:
                counts.append(self.once("images", codes, partial(np.bincount, codes, minlength=size)))
            else:
                counts.append(np.bincount(codes[among], minlength=size))
        return np.concatenate(counts)

    def group_sets(self) -> NDArray[np.int64]:
        """Number of sets that hold a member of every group."""
        if self.groups and self.unit == "images":
            return self.group_images()
        return self.places().entries(np.zeros(len(self.rows))).sets()

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

    def places(self) -> SetGroups:
        """Where the images of a set stand, found once: in its groups; where there are no groups, in one of all."""
        if not self._known:
            codes = self.group_codes if self.groups else (np.zeros_like(self.set_code),)
            sizes = [len(names) for names in self.groups] or [1]
            self._known.append(SetGroups.of(self.set_code, self.n_sets, codes, sizes))
        return self._known[0]

    def once(self, what: str, of: NDArray[Any], make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """`what` the cell makes of an array: several checks ask for the same, of which the latest are remembered, by
        the array."""
        for name, known, made in self._made:
            if known is of and name == what:
                return made
        made = make()
        self._made[:] = [(what, of, made), *self._made[: _REMEMBERED // max(1, made.nbytes)]]
        return made

    def numbers(self, values: NDArray[Any]) -> ImageNumbers | None:
        """`values` (images,) of single images, to be summed by the finest groups; None if they are not to be."""
        finest = self.finest()
        if finest is None:
            return None

        def group_of_cell() -> NDArray[np.int64]:
            group = np.zeros(len(finest.counts), dtype=np.int64)
            for codes in self.group_codes:
                group[finest.cell] = codes
            return group

        of = self.group_codes or ("all",)
        group = finest.once(("groups", *of), group_of_cell)
        names = sum(map(len, self.groups)) or 1
        return ImageNumbers(finest, group, names, values, lambda: self.sums(values.astype(np.float64))[0])

    def sums(self, values: Floats) -> tuple[Entries, Entries]:
        """Sums of `values` (images,) over every set's images in every group, and their means."""
        places = self.places()
        if places.entry is not self.set_code:
            sums = places.entries(values)
            return sums, replace(sums, value=sums.value / places.weight)
        value = self.once("sums", values, lambda: places.entries(values).value)  # whatever the groups
        sums = Entries(value, places.row, places.column, places.shape, places.weight)
        return sums, sums

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
    _sets: dict[str | None, tuple[NDArray[np.int64], TextRows, NDArray[np.int64]]] = field(default_factory=dict)
    _made: dict[str | None, list[tuple[str, NDArray[Any], NDArray[Any]]]] = field(default_factory=dict)
    _codes: dict[Crossing, tuple[NDArray[np.int64], tuple[str, ...]]] = field(default_factory=dict)
    _finest: dict[tuple[str | None, Crossing], ImageCells] = field(default_factory=dict)
    _crossed: set[str] = field(default_factory=set)

    def of(self, subject: str | None, crossings: tuple[Crossing, ...]) -> Cell:
        """The images of one subject, or (None) of all."""
        key = (subject, crossings)
        if key not in self._known:
            rows, set_ids, set_code = self._sets_of(subject)
            codings = [self._codes_of(crossing) for crossing in crossings]
            self._known[key] = Cell(
                rows=rows,
                set_code=set_code,
                set_ids=set_ids,
                subject=self.index.subject if subject is None else self.index.subject[rows],
                group_codes=tuple(codes if subject is None else codes[rows] for codes, _ in codings),
                groups=tuple(names for _, names in codings),
                finest=partial(self._finest_of, subject, crossings),
                _made=self._made.setdefault(subject, []),
            )
        return self._known[key]

    def _sets_of(self, subject: str | None) -> tuple[NDArray[np.int64], TextRows, NDArray[np.int64]]:
        if subject not in self._sets:
            index = self.index
            everything = np.arange(len(index.subject), dtype=np.int64)
            rows = everything if subject is None else np.flatnonzero(index.subject == subject)
            set_ids, set_code = text_codes(index.set_id if subject is None else index.set_id[rows])
            self._sets[subject] = on_disk(rows), set_ids, on_disk(set_code)
        return self._sets[subject]

    def cross(self, crossings: Iterable[Crossing]) -> None:
        """Say what many checks group by: of very many images, numbers are summed once for all of them."""
        self._crossed.update(name for crossing in crossings for name in crossing)

    def _finest_of(self, subject: str | None, crossings: tuple[Crossing, ...]) -> ImageCells | None:
        """The crossing of all attributes that checks group by, or else the one that is asked for, if it has few groups;
        None if images are not single, or few enough to be drawn themselves."""
        rows, set_ids, set_code = self._sets_of(subject)
        if not MOST < len(rows) == len(set_ids) or len(crossings) > 1:
            return None
        own = crossings[0] if crossings else ()
        for crossing in (tuple(sorted(self._crossed.union(own))), own):
            if (subject, crossing) in self._finest:
                return self._finest[subject, crossing]
            groups = math.prod(len(self._codes_of((name,))[1]) for name in crossing)
            if groups <= _FINEST:
                cell = self._codes_of(crossing)[0][rows].astype(code_type(groups))
                counts = np.bincount(cell, minlength=groups)
                return self._finest.setdefault((subject, crossing), ImageCells(cell, set_code, counts))
        return None

    def _codes_of(self, crossing: Crossing) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        if crossing not in self._codes:
            codes, names = self.index.codes(crossing)
            self._codes[crossing] = on_disk(np.asarray(codes, dtype=np.int64)), tuple(names)
        return self._codes[crossing]


_LATEST: list[Cells] = []


def cells_of(index: GroupedRows) -> Cells:
    """The cells of a dataset, coded once for everything that a run counts in it; those of the latest are remembered."""
    known = _LATEST[0] if _LATEST else None  # read once: another thread may put its own there
    if known is None or known.index is not index:
        known = Cells(index)
        _LATEST[:] = [known]
    return known
