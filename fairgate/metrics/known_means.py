"""Means over the images that have a number, such as answers to a question or changes by an edit."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ScoresError
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import Answers, Drawn, Measure, MetricRequest, Units
from fairgate.metrics.limits import OfWorstGroup, in_units, means_of_draws, measure_groups, value_of
from fairgate.probes import ProbeScores
from fairgate.records import Extreme


class KnownMean(OfWorstGroup):
    """A mean over images; over groups, the worst group's, each compared with its own value before. Images without a
    number (NaN) are left out."""

    column: ClassVar[str] = ""
    """Which further number of the probe's answers it is; without one, the value itself."""
    remedy: ClassVar[str] = ""
    """What to do where answers have no such number."""
    nothing_known: ClassVar[tuple[str, str]] = ("no image has a number", "check the probe and the dataset")
    """The problem where no image of the check has a number, and its remedy."""

    def number(self, r: MetricRequest, answer: ProbeScores) -> Floats:
        """Of every image by one word, (images,)."""
        return further(r, answer, self.column, self.remedy) if self.column else answer.value

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """Over the check's words, then over images."""
        totals, counts = known_sums(cell, np.array([self.number(r, word) for word in answers]))
        if not counts.any():
            problem, remedy = self.nothing_known
            raise ScoresError(f"check '{r.check}': {problem}.", where=r.where, remedy=remedy)
        return self.of_sums(r, cell, totals, counts)

    def of_sums(self, r: MetricRequest, cell: Cell, totals: Floats, counts: Floats) -> Measure:
        """The measure from totals and counts of numbers, both (images,)."""
        return means_of(cell, totals, counts, self.spec_for(r.settings).extreme)


def known_sums(cell: Cell, table: Floats) -> tuple[Floats, Floats]:
    """Totals and counts of the numbers of every image of a cell, (images,) each, of a table (words, dataset's images)
    with NaN where there is none."""
    chosen = table[:, cell.rows]
    known = ~np.isnan(chosen)
    return np.where(known, chosen, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64)


def means_of(cell: Cell, totals: Floats, counts: Floats, extreme: Extreme) -> Measure:
    """Means from totals and counts of numbers, both (images,); of groups, the highest or the lowest."""
    sums, known = cell.per_set(totals)[0], cell.per_set(counts)[0]
    sign = 1.0 if extreme == "max" else -1.0
    paired = np.where(known > 0, sums / np.maximum(known, 1), np.nan)
    worst = np.max(np.where(known > 0, sign * paired, -np.inf), axis=1)
    means = partial(means_of_draws, sums=sums, counts=known)
    return measure_groups(
        cell,
        means,
        means(np.ones((1, cell.n_sets), dtype=np.int32), None)[0],
        np.where(np.isneginf(worst), np.nan, worst),
        extreme,
        group_sets=(known > 0).sum(axis=0),
        group_images=_images_with(cell, counts),
        paired=paired,
        weights=known,
    )


def departures_of(cell: Cell, totals: Floats, counts: Floats, min_sets: int) -> Measure:
    """Every group's mean less that of everybody else, of totals and counts of numbers, both (images,); the value is the
    largest size over the groups of all groupings.

    Groups in fewer than `min_sets` sets are not among the others: a few images would decide about a large group. One
    that is left without others is not judged.
    """
    sums, images = cell.per_set(totals)[0], cell.per_set(counts)[0]
    blocks = [len(names) for names in cell.groups]
    starts = np.cumsum([0, *blocks])
    group_sets = (images > 0).sum(axis=0)
    compared = [_compared(sets >= min_sets) for sets in np.split(group_sets, starts[1:-1])]

    def draw(drawn: Counts, unit: Units = None) -> Drawn:
        drawn_sums, drawn_images = in_units(sums, unit), in_units(images, unit)
        groups = [
            _departures(drawn, drawn_sums[:, start:end], drawn_images[:, start:end], others)
            for (start, end), (others, _) in zip(pairwise(starts.tolist()), compared, strict=True)
        ]
        parts = tuple((np.concatenate([group, -group], axis=1),) for group in groups)
        return Drawn(value_of(parts, "max"), np.concatenate(groups, axis=1), parts)

    now = draw(np.ones((1, cell.n_sets), dtype=np.int32))
    assert now.groups is not None
    high, low, known = np.full(cell.n_sets, -np.inf), np.full(cell.n_sets, np.inf), counts > 0
    means = totals[known] / counts[known]
    np.maximum.at(high, cell.set_code[known], means)
    np.minimum.at(low, cell.set_code[known], means)
    return Measure(
        value=float(now.value[0]),
        draw=draw,
        in_blocks=draw,
        badness=np.where(np.isinf(high), np.nan, high - np.where(np.isinf(high), 0.0, low)),
        groups=cell.group_names(),
        group_values=now.groups[0],
        group_badness=np.abs(now.groups[0]),
        group_images=_images_with(cell, counts),
        group_sets=group_sets,
        judged=np.concatenate([judged for _, judged in compared]),
        resampled="sizes",
        extreme="max",
        parts=tuple(tuple(part[0] for part in queries) for queries in now.parts),
        blocks=tuple(blocks),
        sets=int((images > 0).any(axis=1).sum()),
    )


def _images_with(cell: Cell, counts: Floats) -> NDArray[np.int64]:
    """Images of every group that have a number, (groups,), of the counts of all images' numbers, (images,)."""
    images: NDArray[np.int64] = cell.per_set((counts > 0).astype(np.float64))[0].sum(axis=0).astype(np.int64)
    return images


def _compared(enough: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of one grouping's groups, those that others are held against, and those that have any such others: (groups,).
    All, where nothing can be judged."""
    has_others = enough.sum() - enough > 0
    return (enough if has_others.all() else np.ones_like(enough)), has_others


def _departures(drawn: Counts, sums: Floats, counts: Floats, others: NDArray[np.bool_]) -> Floats:
    """Mean of every group of one grouping less that of all its `others` (groups,), (draws, groups)."""
    weight = drawn.astype(np.float64)
    inside, images = weight @ sums, weight @ counts
    total, everybody = (table @ others[:, None].astype(np.float64) for table in (inside, images))
    with np.errstate(invalid="ignore", divide="ignore"):
        departures: Floats = inside / images - (total - inside * others) / (everybody - images * others)
    return departures


def further(r: MetricRequest, answer: ProbeScores, name: str, remedy: str = "") -> Floats:
    """The further number of a probe's answers, (images,). Raises ScoresError where they have none of that name."""
    if name not in answer.more:
        raise ScoresError(
            f"the scores of probe '{r.probe}' hold no '{name}'.",
            where=r.where,
            remedy=remedy or "make the baseline again, or compare with `model:URI`",
        )
    return answer.more[name]
