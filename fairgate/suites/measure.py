"""From scores per image to what a check is about: an estimate, its groups, its resamples, and its loudest sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import ScoresError
from fairgate.metrics import fairness, set_deviation, set_std
from fairgate.probes import ProbeScores
from fairgate.statistics import weighted_median
from fairgate.suites.catalog import METRICS, MetricSpec
from fairgate.suites.cell import Cell, Counts, Floats
from fairgate.suites.plan import PlannedCheck

Extreme = Literal["max", "min"]
Parts = tuple[tuple[Floats, ...], ...]
"""By grouping and query, what the value is an extreme of: (parts,), or (draws, parts) of resamples. The value is the
worst grouping's mean over queries of the extreme part."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Images of every group that the metric speaks of in the top k and in the gallery, both (queries, groups),
    groupings one after another."""

    shown: Floats
    images: Floats


@dataclass(frozen=True, slots=True)
class Drawn:
    """A statistic under resampled sets: `value` (draws,), `groups` (draws, groups) and `parts` where it has them."""

    value: Floats
    groups: Floats | None = None
    parts: Parts = ()


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric on one cell.

    `value` is the worst of the groups that are `judged` (groups,), those with enough sets; where none is, of all.
    `blocks` is the number of groups of every part.
    `draw(counts)` maps set multiplicities (draws, sets) to the statistic. `extreme` with `parts` says what the value is
    an extreme of; without, it is a plain statistic. `paired` (sets, groups), for metrics that are means over sets, is
    what a paired test compares; `images` (images,), where images form no sets and their groups are compared with each
    other, is that instead. `badness` (sets,) and `group_badness` (groups,) rank sets and groups by how loudly
    they speak against the metric. `counted` is what a rank metric was computed from.
    """

    value: float
    draw: Callable[[Counts], Drawn]
    badness: Floats
    groups: list[str] = field(default_factory=list)
    group_values: Floats = field(default_factory=lambda: np.empty(0))
    group_badness: Floats = field(default_factory=lambda: np.empty(0))
    group_images: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    group_sets: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    paired: Floats | None = None
    images: Floats | None = None
    extreme: Extreme | None = None
    parts: Parts = ()
    counted: Counted | None = None
    blocks: tuple[int, ...] = ()
    judged: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))

    @property
    def speaking(self) -> NDArray[np.bool_]:
        """The groups that the value is taken over, (groups,): those that are judged; where none is, all."""
        return self.judged if self.judged.any() else np.ones(len(self.groups), dtype=bool)

    @property
    def by_draws(self) -> bool:
        """Whether two runs are compared in resamples of the statistic: tests of means resample by themselves."""
        return self.paired is None and self.images is None


def measure(planned: PlannedCheck, cell: Cell, answers: Sequence[ProbeScores], min_sets: int = 0) -> Measure:
    """Measure a planned check's metric on its cell; `answers` are its probe's scores, of an association one a word.

    Groups in fewer than `min_sets` sets are measured like the others, and the check's value is not taken from them.
    """
    found = _measured(planned, cell, answers, min_sets)
    if not found.groups:
        return found
    judged = large_enough(found.group_sets, found.blocks, METRICS[planned.check.metric], min_sets)
    return _over_judged(replace(found, judged=judged))


def large_enough(
    group_sets: NDArray[np.int64], blocks: Sequence[int], metric: MetricSpec, min_sets: int
) -> NDArray[np.bool_]:
    """Which groups can be judged, (groups,): those in `min_sets` sets; of a joint metric, a whole block or none."""
    enough = group_sets >= min_sets
    if not metric.jointly:
        return enough
    return np.concatenate([np.full(len(block), block.all()) for block in np.split(enough, np.cumsum(blocks)[:-1])])


def parts_of(parts: Parts, blocks: Sequence[int], keep: NDArray[np.bool_]) -> Parts:
    """The parts of some groups. A part has a column per group, one per group and sign, or, of a joint metric, one."""
    masks = np.split(keep, np.cumsum(blocks)[:-1])
    return tuple(
        tuple(part[..., np.resize(mask, part.shape[-1])] for part in queries)
        for queries, mask in zip(parts, masks, strict=True)
        if mask.any()
    )


def _over_judged(found: Measure) -> Measure:
    """The same measure with the judged groups alone in its value, its resamples and its parts."""
    keep, extreme = found.speaking, found.extreme
    if keep.all() or extreme is None:
        return found

    def draw(counts: Counts) -> Drawn:
        drawn = found.draw(counts)
        parts = parts_of(drawn.parts, found.blocks, keep)
        return Drawn(value_of(parts, extreme), drawn.groups, parts)

    parts = parts_of(found.parts, found.blocks, keep)
    value = value_of(tuple(tuple(part[None] for part in queries) for queries in parts), extreme)
    return replace(found, value=float(value[0]), draw=draw, parts=parts)


def value_of(parts: Parts, extreme: Extreme) -> Floats:
    """The check's number under resamples, (draws,): worst grouping, mean over queries, extreme part.

    A part that a resample does not have (a group without an image) is passed over.
    """
    of = np.nanmax if extreme == "max" else np.nanmin
    means = [np.mean([of(part, axis=1) for part in queries], axis=0) for queries in parts]
    return np.asarray((np.max if extreme == "max" else np.min)(means, axis=0))


def _measured(planned: PlannedCheck, cell: Cell, answers: Sequence[ProbeScores], min_sets: int) -> Measure:
    (first, *_), check = answers, planned.check
    if check.metric == "fairness":
        return _fairness(cell, first)
    if check.metric == "accuracy":
        return _shares(cell, np.asarray(first.correct)[cell.rows].astype(np.float64))
    if check.metric == "p_true":
        return _shares(cell, first.value[cell.rows])
    if check.metric == "recall_at_k":
        return _shares(cell, _found(planned, first)[cell.rows].astype(np.float64))
    if check.metric == "group_gap":
        return _image_gap(cell, first, min_sets) if cell.unit == "images" else _group_gap(cell, first)
    from fairgate.suites.ranking import measure_ranking

    return measure_ranking(planned, cell, answers)


def _found(planned: PlannedCheck, scores: ProbeScores) -> NDArray[np.bool_]:
    """Whether an image's own subject's query is among the k nearest of all subjects' queries, (images,)."""
    if scores.rank is None:
        raise ScoresError(
            f"the kept scores of probe '{planned.check.probe}' hold no ranks, which recall_at_k needs.",
            where=planned.where,
            remedy="make the baseline again with this version of fairgate, or compare with `model:URI`",
        )
    return scores.rank <= (planned.check.k or 0)


def _fairness(cell: Cell, scores: ProbeScores) -> Measure:
    p_true = cell.sets_by_members(scores.value[cell.rows])
    spread = set_std(p_true)
    return Measure(
        value=fairness(p_true),
        draw=lambda counts: Drawn(1.0 - weighted_median(spread, counts)),
        badness=spread,
    )


def _shares(cell: Cell, right: Floats) -> Measure:
    """How right a model is, from 0 to 1 per image, on average; over groups, the worst group's average."""
    wrong = np.bincount(cell.set_code, 1.0 - right, minlength=cell.n_sets).astype(np.float64)
    if cell.groups:
        return _means(cell, right, badness=wrong)
    size = np.bincount(cell.set_code, minlength=cell.n_sets).astype(np.float64)
    total = np.bincount(cell.set_code, right, minlength=cell.n_sets)
    return Measure(
        value=float(right.mean()),
        draw=lambda counts: Drawn((counts @ total) / (counts @ size)),
        badness=wrong,
        paired=(total / size)[:, None],
    )


def _group_gap(cell: Cell, scores: ProbeScores) -> Measure:
    value = scores.value[cell.rows]
    deviation = np.empty_like(value)
    by_set = np.argsort(cell.set_code, kind="stable")
    deviation[by_set] = set_deviation(cell.sets_by_members(value)).ravel()
    lowest = np.zeros(cell.n_sets)
    np.minimum.at(lowest, cell.set_code, deviation)
    return _means(cell, deviation, badness=-lowest)


def _image_gap(cell: Cell, scores: ProbeScores, min_sets: int) -> Measure:
    """Without set-mates, a group is compared with the other groups: its mean less the mean of all groups' means.

    A group in fewer than `min_sets` sets does not count in that mean: its noise would move every other group.
    """
    value = scores.value[cell.rows]
    plain = _shares(cell, value)
    enough = plain.group_sets >= min_sets
    counted = enough if enough.any() else np.ones(len(enough), dtype=bool)

    def standing(means: Floats) -> Floats:
        found: Floats = means - np.nanmean(means[..., counted], axis=-1, keepdims=True)
        return found

    def draw(resampled: Counts) -> Drawn:
        means = plain.draw(resampled).groups
        assert means is not None
        gaps = standing(means)
        return Drawn(np.nanmin(gaps, axis=1), gaps, ((gaps,),))

    gaps = standing(plain.group_values)
    return replace(
        plain,
        value=float(np.nanmin(gaps)),
        draw=draw,
        group_values=gaps,
        group_badness=-gaps,
        paired=None,
        images=value,
        parts=((gaps,),),
    )


def _means(cell: Cell, values: Floats, badness: Floats) -> Measure:
    """A mean per group; the value of the check is the worst (lowest) group's."""
    sums, counts = cell.per_set(values)
    paired = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    with np.errstate(invalid="ignore"):  # a group without an image has no mean
        group_values = sums.sum(axis=0) / counts.sum(axis=0)

    def draw(resampled: Counts) -> Drawn:
        weight = resampled.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (weight @ sums) / (weight @ counts)
        return Drawn(np.nanmin(means, axis=1), means, ((means,),))

    return Measure(
        value=float(np.nanmin(group_values)),
        draw=draw,
        badness=badness,
        groups=cell.group_names(),
        group_values=group_values,
        group_badness=-group_values,
        group_images=cell.group_images(),
        group_sets=(counts > 0).sum(axis=0),
        paired=paired,
        extreme="min",
        parts=((group_values,),),
        blocks=(len(group_values),),
    )
