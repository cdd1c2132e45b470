"""The rankings of a check: one gallery per subject, or everybody's under each word of an association."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import MetricError
from fairgate.probes import ProbeScores
from fairgate.suites.cell import Cell, Floats
from fairgate.suites.plan import PlannedCheck


@dataclass(frozen=True, slots=True)
class Grouping:
    """One grouping of a check on its joint groups: `of` (joint groups,) says in which of its `size` groups each is.

    `kept` (groups,) are the groups that the check's metric speaks of: all, or the two that bias_at_k compares.
    """

    of: NDArray[np.int64]
    size: int
    kept: NDArray[np.int64]

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
    def held(self) -> Floats:
        """Images of every set in every joint group, (sets, joint groups)."""
        groups = len(self.groupings[0].of)
        held = np.bincount(self.sets * groups + self.joint, minlength=self.n_sets * groups)
        return held.reshape(self.n_sets, groups).astype(np.float64)

    def spread_inside_sets(self) -> Floats:
        """Range of the similarity inside each set (sets,); 0 for a set that this query does not rank."""
        high, low = np.full(self.n_sets, -np.inf), np.full(self.n_sets, np.inf)
        np.maximum.at(high, self.sets, self.similarity)
        np.minimum.at(low, self.sets, self.similarity)
        held = high >= low
        return np.where(held, np.subtract(high, low, where=held, out=np.zeros(self.n_sets)), 0.0)


@dataclass(frozen=True, slots=True)
class Gallery:
    """The images that one query ranks, before any score: `rows` and `joint` (images,) are their places in the cell and
    their joint groups."""

    name: str
    rows: NDArray[np.int64]
    joint: NDArray[np.int64]
    groupings: tuple[Grouping, ...]


def galleries_of(planned: PlannedCheck, cell: Cell) -> list[Gallery]:
    """One gallery per subject in the cell, or, for an association, all of the cell once for every word.

    Joint groups are those that the gallery shows.
    """

    def gallery(name: str, rows: NDArray[np.int64]) -> Gallery:
        sizes = [len(names) for names in cell.groups]
        crossing = np.ravel_multi_index([codes[rows] for codes in cell.group_codes], sizes)
        shown, joint = np.unique(crossing, return_inverse=True)
        groupings = tuple(
            Grouping(of.astype(np.int64), len(names), _kept(planned, names))
            for of, names in zip(np.unravel_index(shown, sizes), cell.groups, strict=True)
        )
        return Gallery(name, rows, joint.astype(np.int64), groupings)

    if planned.words:
        everybody = gallery("", np.arange(len(cell.rows)))
        return [replace(everybody, name=word) for word in planned.words]
    return [gallery(name, np.flatnonzero(cell.subject == name)) for name in dict.fromkeys(cell.subject.tolist())]


def queries_of(planned: PlannedCheck, cell: Cell, answers: Sequence[ProbeScores]) -> list[Query]:
    """Every ranking of a check. Raises MetricError for one that has the same similarity with every image."""
    galleries = galleries_of(planned, cell)
    scores = answers if planned.words else [answers[0]] * len(galleries)
    return [_query(planned, cell, *one) for one in zip(galleries, scores, strict=True)]


def _query(planned: PlannedCheck, cell: Cell, gallery: Gallery, scores: ProbeScores) -> Query:
    similarity = scores.value[cell.rows[gallery.rows]]
    if similarity.min() == similarity.max():
        raise MetricError(
            f"every image has the same similarity ({similarity[0]:.4g}) with the query of '{gallery.name}': the model "
            "tells none from another, and the order of files would decide.",
            where=f"probe '{planned.check.probe}'",
            remedy="check the checkpoint, or the prompt's column in the table of scores",
        )
    return Query(similarity, gallery.joint, cell.set_code[gallery.rows], gallery.groupings, cell.n_sets)


def _kept(planned: PlannedCheck, names: Sequence[str]) -> NDArray[np.int64]:
    if planned.check.metric != "bias_at_k":
        return np.arange(len(names))
    first, second = planned.check.first, planned.check.second
    return np.array([0, 1] if first is None or second is None else [names.index(first), names.index(second)])
