"""The rankings of a check: one gallery per subject, or everybody's under each word of an association; measured alike,
as the galleries are and under resampled sets, by the same code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import TextColumn
from fairgate.ground.errors import MetricError
from fairgate.metrics.cell import Cell, Counts, Floats, used_codes
from fairgate.metrics.contract import Answers, Counted, Drawn, Measure, MetricRequest, Ties, Units
from fairgate.metrics.limits import value_of
from fairgate.records import Extreme

Answer = tuple[Floats, Floats]
"""(draws, parts), of which the query's value is the extreme, and (draws, groups), what each group is shown with."""

Ranked = Callable[[Counts, Units], list[Answer]]
"""One metric of one query: multiplicities of sets, or of blocks of sets, to an answer for every grouping."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """One grouping of a check on its joint groups: `of` (joint groups,) says in which of its `size` groups each is.

    `included` (groups,) are the groups that the check's metric is about: all, or the two that bias_at_k compares.
    """

    of: NDArray[np.int64]
    size: int
    included: NDArray[np.int64]

    def fold(self, counts: Floats) -> Floats:
        """Joint counts (draws, joint groups) summed to this grouping's (draws, groups)."""
        return np.asarray(counts @ (self.of[:, None] == np.arange(self.size)).astype(np.float64))


@dataclass(frozen=True, slots=True)
class Query:
    """One ranking: `similarity`, `joint` and `sets` (images,) are the gallery's scores, joint groups and sets.

    A joint group is a crossing of all groupings of the check, so that the top k is counted once for all of them.
    """

    similarity: Floats
    joint: NDArray[np.int64]
    sets: NDArray[np.int64]
    groupings: tuple[Grouping, ...]
    n_sets: int

    @property
    def size(self) -> int:
        """Number of joint groups."""
        return len(self.groupings[0].of)

    def drawn_by(self, unit: Units) -> Query:
        """The query with blocks for sets."""
        return self if unit is None else replace(self, sets=unit[self.sets], n_sets=int(unit.max()) + 1)

    def spread_inside_sets(self) -> Floats:
        """Range of the similarity inside each set (sets,); 0 for a set that this query does not rank."""
        high, low = np.full(self.n_sets, -np.inf), np.full(self.n_sets, np.inf)
        np.maximum.at(high, self.sets, self.similarity)
        np.minimum.at(low, self.sets, self.similarity)
        ranked = high >= low
        return np.where(ranked, np.subtract(high, low, where=ranked, out=np.zeros(self.n_sets)), 0.0)


@dataclass(frozen=True, slots=True)
class Gallery:
    """The images that one query ranks, before any score: `rows` and `joint` (images,) are their places in the cell and
    their joint groups."""

    name: str
    rows: NDArray[np.int64]
    joint: NDArray[np.int64]
    groupings: tuple[Grouping, ...]


def galleries_of(r: MetricRequest, cell: Cell) -> list[Gallery]:
    """One gallery per subject in the cell, or, for an association, all of the cell once for every word.

    Joint groups are those that the gallery shows.
    """

    def gallery(name: str, rows: NDArray[np.int64]) -> Gallery:
        sizes = [len(names) for names in cell.groups]
        of_rows = [_of(rows, codes) for codes in cell.group_codes]
        crossing = of_rows[0] if len(of_rows) == 1 else np.ravel_multi_index(of_rows, sizes)
        shown, joint, _ = used_codes(crossing, math.prod(sizes))
        groupings = tuple(
            Grouping(of.astype(np.int64), len(names), r.settings.compared(names))
            for of, names in zip(np.unravel_index(shown, sizes), cell.groups, strict=True)
        )
        return Gallery(name, rows, joint, groupings)

    if r.words:
        everybody = gallery("", np.arange(len(cell.rows)))
        return [replace(everybody, name=word) for word in r.words]
    return [gallery(name, np.flatnonzero(cell.subject == name)) for name in TextColumn.of(cell.subject).distinct()]


def queries_of(r: MetricRequest, cell: Cell, answers: Answers) -> list[Query]:
    """Every ranking of a check. Raises MetricError for one that has the same similarity with every image."""
    galleries = galleries_of(r, cell)
    queries = []
    for gallery, scores in zip(galleries, answers if r.words else [answers[0]] * len(galleries), strict=True):
        similarity = _of(gallery.rows, _of(cell.rows, scores.value))
        require_told_apart(r, similarity, gallery.name)
        sets = _of(gallery.rows, cell.set_code)
        queries.append(Query(similarity, gallery.joint, sets, gallery.groupings, cell.n_sets))
    return queries


def _of(rows: NDArray[np.int64], column: NDArray[Any]) -> NDArray[Any]:
    """A column's entries of some rows, in order; the column itself if these are all."""
    return column if len(rows) == len(column) else column[rows]


def require_told_apart(r: MetricRequest, similarity: Floats, query: str, whose: str = "every") -> None:
    """Raise MetricError where the same similarity with all images leaves their order to the files."""
    if similarity.min() == similarity.max():
        raise MetricError(
            f"{whose} image has the same similarity ({similarity[0]:.4g}) with the query of '{query}': the model does "
            "not tell them apart, and the order of files would decide.",
            where=f"probe '{r.probe}'",
            remedy="check the checkpoint, or the prompt's column in the table of scores",
        )


def places_of_groups(groupings: Sequence[Grouping]) -> tuple[list[int], tuple[int, ...]]:
    """Positions of the groups that the metric is about, among the groups of all groupings, and how many each has."""
    starts = np.cumsum([0, *(grouping.size for grouping in groupings)])
    places = np.concatenate([start + grouping.included for start, grouping in zip(starts, groupings, strict=False)])
    return places.tolist(), tuple(len(grouping.included) for grouping in groupings)


def measure_rankings(
    cell: Cell,
    queries: Sequence[Query],
    ranked: Sequence[Ranked],
    extreme: Extreme,
    *,
    by_size: bool = False,
    places: tuple[list[int], tuple[int, ...]] | None = None,
    counted: Counted | None = None,
    ties: Callable[[], Ties] | None = None,
) -> Measure:
    """Every query's extreme part, averaged over queries; the value is the worst grouping's.

    `ranked` holds the metric of every query. `by_size`: a group is worse the farther its number is from 0. `places` are
    the positions of its answers' groups among the cell's, and how many each answer has; None: as the queries group.
    """

    def draw(counts: Counts, unit: Units = None) -> Drawn:
        drawn = list(zip(*(metric(counts, unit) for metric in ranked), strict=True))
        parts = tuple(tuple(part for part, _ in ones) for ones in drawn)
        groups = np.concatenate([np.mean([group for _, group in ones], axis=0) for ones in drawn], axis=1)
        return Drawn(value_of(parts, extreme), groups, parts)

    now = draw(np.ones((1, cell.n_sets), dtype=np.int32))
    groups = np.zeros(0) if now.groups is None else now.groups[0]
    included, blocks = places or places_of_groups(queries[0].groupings)
    return Measure(
        value=float(now.value[0]),
        draw=draw,
        in_blocks=draw,
        badness=np.zeros(cell.n_sets)
        if cell.unit == "images"
        else np.mean([query.spread_inside_sets() for query in queries], axis=0),
        groups=[cell.group_names()[position] for position in included],
        group_values=groups,
        group_badness=np.abs(groups) if by_size else groups if extreme == "max" else -groups,
        group_images=cell.group_images()[included],
        group_sets=cell.group_sets()[included],
        extreme=extreme,
        parts=tuple(tuple(part[0] for part in queries_) for queries_ in now.parts),
        blocks=blocks,
        counted=counted,
        ties=ties,
    )
