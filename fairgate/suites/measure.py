"""From scores per image to what a check is about: an estimate, its groups, its resamples, and its loudest sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import MetricError
from fairgate.metrics import (
    max_skew_at_k,
    min_skew_at_k,
    ndkl_at_k,
    ndkl_at_k_weighted,
    set_deviation,
    set_std,
    skew_at_k,
    skew_at_k_weighted,
)
from fairgate.probes import ProbeScores
from fairgate.statistics import set_count_chunks, weighted_median

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]


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

    def sets_with(self, group: str) -> NDArray[np.bool_]:
        """Which sets hold a member of the group, (sets,)."""
        holding = np.zeros(self.n_sets, dtype=bool)
        for codes, names in zip(self.group_codes, self.groups, strict=True):
            if group in names:
                holding[self.set_code[codes == names.index(group)]] = True
        return holding

    def per_set(self, values: Floats) -> tuple[Floats, Floats]:
        """Sums of `values` (images,) and counts, both (sets, groups), of every set's members in every group."""
        sums, counts = [], []
        for codes, names in zip(self.group_codes, self.groups, strict=True):
            flat = self.set_code * len(names) + codes
            shape = (self.n_sets, len(names))
            sums.append(np.bincount(flat, values, minlength=shape[0] * shape[1]).reshape(shape))
            counts.append(np.bincount(flat, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape))
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
class Measure:
    """One metric on one cell.

    `draw(counts)` maps set multiplicities (draws, sets) to the statistic (draws,) and `draw_groups` to (draws, groups).
    `paired` (sets, groups), for metrics that are means over sets, is what a paired test compares. `badness` (sets,)
    ranks sets by how loudly they speak against the metric.
    """

    value: float
    draw: Callable[[Counts], Floats]
    badness: Floats
    groups: list[str] = field(default_factory=list)
    group_values: Floats = field(default_factory=lambda: np.empty(0))
    draw_groups: Callable[[Counts], Floats] | None = None
    group_images: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    group_sets: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    paired: Floats | None = None


def measure(metric: str, cell: Cell, scores: ProbeScores, *, k: int | None, desired: str) -> Measure:
    """Measure one metric of the catalog on one cell."""
    if metric == "fairness":
        return _fairness(cell, scores)
    if metric == "accuracy":
        return _accuracy(cell, scores)
    if metric == "group_gap":
        return _group_gap(cell, scores)
    return _ranking(metric, cell, scores, k or 0, desired)


def _fairness(cell: Cell, scores: ProbeScores) -> Measure:
    spread = set_std(cell.sets_by_members(scores.value[cell.rows]))
    return Measure(
        value=1.0 - float(np.median(spread)),
        draw=lambda counts: 1.0 - weighted_median(spread, counts),
        badness=spread,
    )


def _accuracy(cell: Cell, scores: ProbeScores) -> Measure:
    correct = np.asarray(scores.correct)[cell.rows].astype(np.float64)
    wrong = np.bincount(cell.set_code, 1.0 - correct, minlength=cell.n_sets).astype(np.float64)
    if not cell.groups:
        size = np.bincount(cell.set_code, minlength=cell.n_sets).astype(np.float64)
        right = np.bincount(cell.set_code, correct, minlength=cell.n_sets)
        return Measure(
            value=float(correct.mean()),
            draw=lambda counts: np.asarray((counts @ right) / (counts @ size)),
            badness=wrong,
            paired=(right / size)[:, None],
        )
    return _means(cell, correct, badness=wrong)


def _group_gap(cell: Cell, scores: ProbeScores) -> Measure:
    value = scores.value[cell.rows]
    deviation = np.empty_like(value)
    by_set = np.argsort(cell.set_code, kind="stable")
    deviation[by_set] = set_deviation(cell.sets_by_members(value)).ravel()
    lowest = np.zeros(cell.n_sets)
    np.minimum.at(lowest, cell.set_code, deviation)
    return _means(cell, deviation, badness=-lowest)


def _means(cell: Cell, values: Floats, badness: Floats) -> Measure:
    """A mean per group; the value of the check is the worst (lowest) group's."""
    sums, counts = cell.per_set(values)
    absent = [name for name, count in zip(cell.group_names(), counts.sum(axis=0), strict=True) if count == 0]
    if absent:
        raise MetricError(
            f"no image shows the group '{absent[0]}'"
            + (f" (nor {len(absent) - 1} others)." if len(absent) > 1 else "."),
            where="over",
            remedy="leave the attribute out of `over`, or add images of the group to the dataset",
        )
    paired = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    group_values = sums.sum(axis=0) / counts.sum(axis=0)

    def draw_groups(draws: Counts) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((draws @ sums) / (draws @ counts))

    return Measure(
        value=float(group_values.min()),
        draw=lambda draws: np.asarray(np.nanmin(draw_groups(draws), axis=1)),
        badness=badness,
        groups=cell.group_names(),
        group_values=group_values,
        draw_groups=draw_groups,
        group_images=cell.group_images(),
        group_sets=(counts > 0).sum(axis=0),
        paired=paired,
    )


def _ranking(metric: str, cell: Cell, scores: ProbeScores, k: int, desired: str) -> Measure:
    """Skew and NDKL of one ranking per subject in the cell; several subjects are averaged."""
    similarity = scores.value[cell.rows]
    subjects = [np.flatnonzero(cell.subject == name) for name in dict.fromkeys(cell.subject.tolist())]
    per_grouping = list(zip(cell.group_codes, cell.groups, strict=True))
    rankings = [
        [_Ranking.of(similarity[rows], codes[rows], cell.set_code[rows], k, len(names), desired) for rows in subjects]
        for codes, names in per_grouping
    ]
    summary: Callable[[Floats], Floats] = (
        (lambda skew: skew.min(axis=-1)) if metric == "min_skew_at_k" else (lambda skew: skew.max(axis=-1))
    )
    worst = np.min if metric == "min_skew_at_k" else np.max

    def value_of(of: Callable[[_Ranking], Floats]) -> Floats:
        """Mean over subjects, worst over groupings."""
        return np.asarray(worst([np.mean([of(one) for one in ones], axis=0) for ones in rankings], axis=0))

    def draw(counts: Counts) -> Floats:
        if metric == "ndkl_at_k":
            return value_of(lambda one: one.ndkl(counts))
        return value_of(lambda one: summary(one.skew(counts)))

    exact: dict[str, Callable[[_Ranking], Floats]] = {
        "max_skew_at_k": lambda one: one.exact(max_skew_at_k),
        "min_skew_at_k": lambda one: one.exact(min_skew_at_k),
        "ndkl_at_k": lambda one: one.exact(ndkl_at_k),
    }
    single = len(subjects) == 1
    return Measure(
        value=float(value_of(exact[metric])),
        draw=draw,
        badness=_pulled_apart(cell, similarity),
        groups=cell.group_names(),
        group_values=np.concatenate([np.mean([one.exact(skew_at_k) for one in ones], axis=0) for ones in rankings]),
        draw_groups=(lambda counts: np.concatenate([ones[0].skew(counts) for ones in rankings], axis=1))
        if single
        else None,
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
    """One query's ranked gallery, ready to be re-ranked under set multiplicities."""

    similarity: Floats
    labels: NDArray[np.int64]
    set_code: NDArray[np.int64]
    order: NDArray[np.int64]
    k: int
    groups: int
    desired: str

    @classmethod
    def of(
        cls, similarity: Floats, labels: NDArray[np.int64], sets: NDArray[np.int64], k: int, groups: int, desired: str
    ) -> _Ranking:
        order = np.lexsort((np.arange(len(similarity)), -similarity))
        return cls(similarity, labels, sets, order, k, groups, desired)

    def exact(self, metric: Callable[..., Any]) -> Floats:
        result = metric(self.similarity[None, :], self.labels, self.k, groups=self.groups, desired=self.desired)
        return np.asarray(result[0])

    def _weights(self, counts: Counts) -> Counts:
        return np.asarray(counts[:, self.set_code[self.order]])

    def skew(self, counts: Counts) -> Floats:
        return skew_at_k_weighted(
            self.labels[self.order], self._weights(counts), self.k, groups=self.groups, desired=self.desired
        )

    def ndkl(self, counts: Counts) -> Floats:
        return ndkl_at_k_weighted(
            self.labels[self.order], self._weights(counts), self.k, groups=self.groups, desired=self.desired
        )


def resample(
    measures: Sequence[Measure], n_sets: int, draws: int, rng: np.random.Generator
) -> list[tuple[Floats, Floats | None]]:
    """Set-bootstrap draws of each measure, every one under the same resampled sets.

    Returns, per measure, the statistic (draws,) and its groups (draws, groups) or None. Sets are resampled, never rows.
    """
    values: list[list[Floats]] = [[] for _ in measures]
    groups: list[list[Floats]] = [[] for _ in measures]
    for counts in set_count_chunks(n_sets, draws, rng):
        for index, one in enumerate(measures):
            values[index].append(one.draw(counts))
            if one.draw_groups is not None:
                groups[index].append(one.draw_groups(counts))
    return [
        (np.concatenate(value), np.concatenate(group) if group else None)
        for value, group in zip(values, groups, strict=True)
    ]
