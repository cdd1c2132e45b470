"""Skew and NDKL of a check's galleries, exactly and under resampled sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.metrics import (
    max_skew_at_k,
    min_skew_at_k,
    ndkl_at_k,
    ndkl_at_k_weighted,
    ranking,
    skew_at_k,
    skew_at_k_weighted,
)
from fairgate.probes import ProbeScores
from fairgate.suites.cell import Cell, Counts, Floats
from fairgate.suites.measure import Measure

EXACT: dict[str, Callable[..., Any]] = {
    "max_skew_at_k": max_skew_at_k,
    "min_skew_at_k": min_skew_at_k,
    "ndkl_at_k": ndkl_at_k,
}


def measure_ranking(metric: str, cell: Cell, scores: ProbeScores, k: int, desired: str) -> Measure:
    """One ranking per subject in the cell: subjects are averaged, and the worst grouping is the value."""
    similarity = scores.value[cell.rows]
    subjects = [np.flatnonzero(cell.subject == name) for name in dict.fromkeys(cell.subject.tolist())]
    rankings = [
        [_Ranking.of(cell, rows, codes, len(names), similarity, k, desired) for rows in subjects]
        for codes, names in zip(cell.group_codes, cell.groups, strict=True)
    ]
    lowest = metric == "min_skew_at_k"

    def worst(per_grouping: list[Floats]) -> Floats:
        return np.asarray((np.min if lowest else np.max)(per_grouping, axis=0))

    def draw(counts: Counts) -> tuple[Floats, Floats | None]:
        skews = [[one.skew(counts) for one in ones] for ones in rankings]
        groups = np.concatenate([skew[0] for skew in skews], axis=1) if len(subjects) == 1 else None
        if metric == "ndkl_at_k":
            return worst([np.mean([one.ndkl(counts) for one in ones], axis=0) for ones in rankings]), groups
        extreme = np.nanmin if lowest else np.nanmax
        return worst([np.mean([extreme(skew, axis=1) for skew in each], axis=0) for each in skews]), groups

    return Measure(
        value=float(worst([np.mean([one.exact(EXACT[metric]) for one in ones], axis=0) for ones in rankings])),
        draw=draw,
        badness=_pulled_apart(cell, similarity),
        groups=cell.group_names(),
        group_values=np.concatenate([np.mean([one.exact(skew_at_k) for one in ones], axis=0) for ones in rankings]),
        group_images=cell.group_images(),
        group_sets=(cell.per_set(similarity)[1] > 0).sum(axis=0),
    )


def _pulled_apart(cell: Cell, similarity: Floats) -> Floats:
    """Range of the similarity inside each set (sets,)."""
    high, low = np.full(cell.n_sets, -np.inf), np.full(cell.n_sets, np.inf)
    np.maximum.at(high, cell.set_code, similarity)
    np.minimum.at(low, cell.set_code, similarity)
    return np.asarray(high - low)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """One query's ranked gallery under one grouping, ready to be counted again under set multiplicities.

    `ranked_labels` and `ranked_sets` (images,) stand best first; `held` (sets, groups) counts each set's images.
    """

    similarity: Floats
    labels: NDArray[np.int64]
    ranked_labels: NDArray[np.int64]
    ranked_sets: NDArray[np.int64]
    held: Floats
    k: int
    desired: str

    @classmethod
    def of(
        cls,
        cell: Cell,
        rows: NDArray[np.intp],
        codes: NDArray[np.int64],
        groups: int,
        similarity: Floats,
        k: int,
        desired: str,
    ) -> _Ranking:
        labels, sets = codes[rows], cell.set_code[rows]
        order = ranking(similarity[rows][None, :], labels, k, groups=groups)[0]
        held = np.bincount(sets * groups + labels, minlength=cell.n_sets * groups).reshape(cell.n_sets, groups)
        return cls(similarity[rows], labels, labels[order], sets[order], held.astype(np.float64), k, desired)

    @property
    def groups(self) -> int:
        """Number of declared groups."""
        return int(self.held.shape[1])

    def exact(self, metric: Callable[..., Any]) -> Floats:
        """A metric of the gallery as it is."""
        result = metric(self.similarity[None, :], self.labels, self.k, groups=self.groups, desired=self.desired)
        return np.asarray(result[0])

    def skew(self, counts: Counts) -> Floats:
        """Skew@k (draws, groups) of the resampled galleries."""
        return skew_at_k_weighted(*self._resampled(counts), **self._how(counts))

    def ndkl(self, counts: Counts) -> Floats:
        """NDKL@k (draws,) of the resampled galleries."""
        return ndkl_at_k_weighted(*self._resampled(counts), **self._how(counts))

    def _resampled(self, counts: Counts) -> tuple[NDArray[np.int64], Counts, int]:
        return self.ranked_labels, counts[:, self.ranked_sets], self.k

    def _how(self, counts: Counts) -> dict[str, Any]:
        present = counts.astype(np.float64) @ self.held
        return {"groups": self.groups, "desired": self.desired, "present": present}
