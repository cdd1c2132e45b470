"""From scores per image to what a check is about: an estimate, its groups, its resamples, and its loudest sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairgate.metrics import fairness, set_deviation, set_std
from fairgate.probes import ProbeScores
from fairgate.statistics import set_count_chunks, weighted_median
from fairgate.suites.cell import Cell, Counts, Floats


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric on one cell.

    `draw(counts)` maps set multiplicities (draws, sets) to the statistic (draws,) and its groups (draws, groups), or
    None where groups are not drawn.
    `paired` (sets, groups), for metrics that are means over sets, is what a paired test compares. `badness` (sets,)
    ranks sets by how loudly they speak against the metric.
    """

    value: float
    draw: Callable[[Counts], tuple[Floats, Floats | None]]
    badness: Floats
    groups: list[str] = field(default_factory=list)
    group_values: Floats = field(default_factory=lambda: np.empty(0))
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
    from fairgate.suites.ranking import measure_ranking

    return measure_ranking(metric, cell, scores, k or 0, desired)


def _fairness(cell: Cell, scores: ProbeScores) -> Measure:
    p_true = cell.sets_by_members(scores.value[cell.rows])
    spread = set_std(p_true)
    return Measure(
        value=fairness(p_true),
        draw=lambda counts: (1.0 - weighted_median(spread, counts), None),
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
            draw=lambda counts: ((counts @ right) / (counts @ size), None),
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
    paired = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    group_values = sums.sum(axis=0) / counts.sum(axis=0)

    def draw(resampled: Counts) -> tuple[Floats, Floats]:
        weight = resampled.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (weight @ sums) / (weight @ counts)
        return np.nanmin(means, axis=1), means

    return Measure(
        value=float(group_values.min()),
        draw=draw,
        badness=badness,
        groups=cell.group_names(),
        group_values=group_values,
        group_images=cell.group_images(),
        group_sets=(counts > 0).sum(axis=0),
        paired=paired,
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
            value, by_group = one.draw(counts)
            values[index].append(value)
            if by_group is not None:
                groups[index].append(by_group)
    return [
        (np.concatenate(value), np.concatenate(group) if group else None)
        for value, group in zip(values, groups, strict=True)
    ]
