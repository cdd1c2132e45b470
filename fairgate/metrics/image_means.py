"""Is the model of use, and does it treat the images of a set alike?

Accuracy and mean P(true): means over images, or of the worst group. Inside counterfactual sets: do all members
get the same P(true label) (fairness, Lui et al. 2023), and does a group get less than the others? Where images form no
sets, a group is compared with the other groups' means.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.metrics import fairness, set_deviation, set_std
from fairgate.formulas.statistics import Unavailable, median_interval, weighted_median
from fairgate.ground.errors import ScoresError
from fairgate.metrics.cell import Cell, Floats
from fairgate.metrics.contract import (
    CLASSIFIED,
    PREDICTED,
    Answers,
    Drawn,
    Limits,
    Measure,
    Metric,
    MetricRequest,
    MetricSettings,
    limits_of,
    register,
)
from fairgate.metrics.limits import OfWorstGroup, measure_means
from fairgate.probes import ProbeScores
from fairgate.records import MetricSpec


def shares(cell: Cell, right: Callable[[], NDArray[Any]]) -> Measure:
    """How right a model is, from 0 to 1 per image, on average; over groups, the worst group's average."""

    def wrong() -> Floats:
        return np.bincount(cell.set_code, 1.0 - right(), minlength=cell.n_sets).astype(np.float64)

    return measure_means(cell, right(), wrong)


right_spec = partial(MetricSpec, better="higher", per_group="maybe", utility=True, averaged=True)


class Right(OfWorstGroup):
    """The mean of something between 0 and 1 per image; over groups, the worst group's."""

    @abstractmethod
    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> NDArray[Any]:
        """How right the model is about every image of the cell, (images,)."""

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        return shares(cell, partial(self.right, r, cell, answers))

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """One of the labels, each time: 1 where each image has its labels to itself."""
        return 1 / labels


def _of_cell(cell: Cell, numbers: NDArray[Any]) -> NDArray[Any]:
    """Of every image of the cell, (images,)."""
    return numbers if len(numbers) == len(cell.rows) else cell.once("rows", numbers, lambda: numbers[cell.rows])


def _right(cell: Cell, answer: ProbeScores) -> NDArray[Any]:
    return _of_cell(cell, answer.more["right"] if answer.correct is None else answer.correct)


@register
class Accuracy(Right):
    """Share of images whose most probable label is the true one."""

    spec = right_spec(
        name="accuracy",
        meaning="share of images whose most probable label is the true one; with `over`, of the worst group",
        probes=(*CLASSIFIED, *PREDICTED),
        truth=True,
        turns=True,
        worst_set="{count} wrong",
    )

    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> NDArray[Any]:
        """1 where the answer is right; of several views, the share that are."""
        return _right(cell, answers[0])


@register
class PTrue(Right):
    """Mean P(true label)."""

    spec = right_spec(
        name="p_true",
        meaning="mean P(true label): sees what accuracy no longer does; with `over`, of the worst group",
        probes=CLASSIFIED,
        truth=True,
        display="mean P(true)",
        plain="mean P(true)",
    )

    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> NDArray[Any]:
        return _of_cell(cell, answers[0].value)


@register
class SetFairness(Metric):
    """1 less the median of the sets' spreads."""

    spec = MetricSpec(
        name="fairness",
        meaning="1 minus the median, over sets, of the spread of P(true label) inside a set",
        probes=CLASSIFIED,
        better="higher",
        lowest=1 - 2**-0.5,
        highest=1,
        counterfactual=True,
    )

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """A plain statistic of all sets."""
        p_true = cell.sets_by_members(answers[0].value[cell.rows])
        spread = set_std(p_true)
        return Measure(
            value=fairness(p_true),
            draw=lambda counts: Drawn(1.0 - weighted_median(spread, counts)),
            in_blocks=lambda counts, unit: Drawn(1.0 - weighted_median(spread, counts, unit)),
            badness=spread,
        )

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """The median's interval, which is exact; the bootstrap's percentiles fall short."""
        median = median_interval(now.set_badness(), alpha=alpha)
        if not isinstance(median, Unavailable):
            median = replace(median, estimate=1 - median.estimate, lo=1 - median.hi, hi=1 - median.lo)
        how = f"{1 - alpha:.0%} order statistics of the spreads inside sets"
        return limits_of(median, cell, drawn, alpha, how=how)


gap_spec = partial(
    MetricSpec,
    better="higher",
    lowest=-1,
    highest=0,
    per_group="yes",
    relative=True,
    averaged=True,
    worst_set="one member {number} behind its set-mates",
)


@register
class GroupGap(OfWorstGroup):
    """The worst group's P(true label) less its set-mates' mean, or, of single images, less the mean of all groups."""

    spec = gap_spec(
        name="group_gap",
        meaning="how far the worst group's P(true label) is below its set-mates' mean; where images form no sets, "
        "below the mean of all groups",
        probes=CLASSIFIED,
        display="gap to the others",
    )

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """Inside sets, or between groups of single images or of clusters."""
        of_images = partial(self.of_images, cell, answers)
        if r.clusters:
            _require_groups_apart(r, cell)
        between = r.clusters or cell.unit == "images"
        return _of_images(cell, of_images, r.min_sets) if between else _inside_sets(cell, of_images())

    def of_images(self, cell: Cell, answers: Answers) -> NDArray[Any]:
        """What gaps are of, for every image of the cell, (images,)."""
        return _of_cell(cell, answers[0].value)


@register
class AccuracyGap(GroupGap):
    """The worst group's accuracy less its set-mates', or, of single images, less the mean of all groups."""

    spec = gap_spec(
        name="accuracy_gap",
        meaning="how far the worst group's accuracy is below its set-mates' mean; where images form no sets, below the "
        "mean of all groups",
        probes=(*CLASSIFIED, *PREDICTED),
        truth=True,
        tempered=False,
        display="accuracy gap",
    )

    def of_images(self, cell: Cell, answers: Answers) -> NDArray[Any]:
        """1 where the answer is right; of several views, the share that are."""
        return _right(cell, answers[0])


def _require_groups_apart(r: MetricRequest, cell: Cell) -> None:
    """Raises ScoresError for a cluster with images of several groups: the groups would not be independent samples."""
    places, several = cell.places(), np.zeros(cell.n_sets, dtype=bool)
    for of_grouping in np.split(np.arange(places.shape[1]), _ends(cell)):
        several |= np.bincount(places.row[np.isin(places.column, of_grouping)], minlength=cell.n_sets) > 1
    if several.any():
        raise ScoresError(
            f"check '{r.check}' compares groups, and {int(several.sum()):,} clusters have images of several groups, "
            f"such as '{cell.set_ids[int(several.argmax())]}'.",
            where=r.at("over"),
            remedy="compare each group with itself: `metric: accuracy` or `metric: p_true`, with `over`",
        )


def _inside_sets(cell: Cell, value: NDArray[Any]) -> Measure:
    deviation = np.empty(len(value))
    by_set = np.argsort(cell.set_code, kind="stable")
    deviation[by_set] = set_deviation(cell.sets_by_members(value)).ravel()
    lowest = np.zeros(cell.n_sets)
    np.minimum.at(lowest, cell.set_code, deviation)
    return measure_means(cell, deviation, -lowest)


def _of_images(cell: Cell, of_images: Callable[[], NDArray[Any]], min_sets: int) -> Measure:
    """Without set-mates, a group is compared with the others of its grouping: its mean less the mean of all means.

    A group in fewer than `min_sets` sets does not count in that mean: its noise would move every other group.
    """
    plain, ends = shares(cell, of_images), _ends(cell)
    counted = [block if block.any() else ~block for block in np.split(plain.group_sets >= min_sets, ends)]

    def gaps_of(means: Floats) -> list[Floats]:
        blocks = zip(np.split(means, ends, axis=-1), counted, strict=True)
        return [block - np.nanmean(block[..., among], axis=-1, keepdims=True) for block, among in blocks]

    def in_gaps(drawn: Drawn) -> Drawn:
        assert drawn.groups is not None
        blocks = gaps_of(drawn.groups)
        gaps = np.concatenate(blocks, axis=1)
        return Drawn(np.nanmin(gaps, axis=1), gaps, tuple((block,) for block in blocks))

    blocks = gaps_of(plain.group_values)
    gaps = np.concatenate(blocks)
    return plain.through(
        in_gaps,
        value=float(np.nanmin(gaps)),
        group_values=gaps,
        group_badness=-gaps,
        paired=None,
        images=of_images(),
        parts=tuple((block,) for block in blocks),
        blocks=tuple(map(len, blocks)),
    )


def _ends(cell: Cell) -> NDArray[np.int64]:
    """Where each grouping but the last one ends among all groups."""
    ends: NDArray[np.int64] = np.cumsum([len(names) for names in cell.groups])[:-1]
    return ends
