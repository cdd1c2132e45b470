"""Is the model of use? Accuracy, mean P(true) and recall: means over images, or of the worst group."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import numpy as np
from pydantic import Field

from fairgate.formulas.metrics import found_at_k
from fairgate.ground.errors import ScoresError, SuiteError
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import (
    CLASSIFIED,
    PREDICTED,
    RETRIEVED,
    Answers,
    Drawn,
    Limits,
    Measure,
    Metric,
    MetricRequest,
    MetricSettings,
    register,
)
from fairgate.metrics.limits import limits_of_share, worst_group
from fairgate.probes import DatasetFacts
from fairgate.records import MetricSpec


def shares(cell: Cell, right: Floats) -> Measure:
    """How right a model is, from 0 to 1 per image, on average; over groups, the worst group's average."""
    wrong = np.bincount(cell.set_code, 1.0 - right, minlength=cell.n_sets).astype(np.float64)
    if cell.groups:
        return worst_group_mean(cell, right, badness=wrong)
    size = np.bincount(cell.set_code, minlength=cell.n_sets).astype(np.float64)
    total = np.bincount(cell.set_code, right, minlength=cell.n_sets)
    return Measure(
        value=float(right.mean()),
        draw=lambda counts: Drawn((counts @ total) / (counts @ size)),
        badness=wrong,
        paired=(total / size)[:, None],
        weights=size[:, None],
    )


def worst_group_mean(cell: Cell, values: Floats, badness: Floats) -> Measure:
    """A mean per group of `values` (images,); the value of the check is the worst (lowest) group's.

    `badness` (sets,) ranks the sets, the worst highest.
    """
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
        weights=counts,
        extreme="min",
        parts=((group_values,),),
        blocks=(len(group_values),),
    )


_spec = partial(MetricSpec, better="higher", per_group="maybe", utility=True)


class Right(Metric):
    """The mean of something between 0 and 1 per image; over groups, the worst group's."""

    @abstractmethod
    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        """How right the model is about every image of the cell, (images,)."""

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The mean, or the worst group's."""
        return shares(cell, self.right(r, cell, answers))

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Of a share of images that are right or wrong, binomial limits of the worst group."""
        if self.spec.turns:
            return limits_of_share(r, cell, now, drawn, alpha)
        if now.extreme is None:
            return super().interval(r, cell, now, drawn, alpha)
        return worst_group(r, cell, now, drawn, alpha, degrees=int(now.group_sets[now.judged_or_all].min()))

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """One of the labels, each time: 1 where each image has its labels to itself."""
        return 1 / labels


@register
class Accuracy(Right):
    """Share of images whose most probable label is the true one."""

    spec = _spec(
        name="accuracy",
        meaning="share of images whose most probable label is the true one; with `over`, of the worst group",
        probes=(*CLASSIFIED, *PREDICTED),
        truth=True,
        turns=True,
        worst_set="{count} wrong",
    )

    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        """1 where the answer is right."""
        return np.asarray(answers[0].correct)[cell.rows].astype(np.float64)


@register
class PTrue(Right):
    """Mean P(true label)."""

    spec = _spec(
        name="p_true",
        meaning="mean P(true label): sees what accuracy no longer does; with `over`, of the worst group",
        probes=CLASSIFIED,
        truth=True,
        display="mean P(true)",
        plain="mean P(true)",
    )

    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        """P(true label)."""
        return answers[0].value[cell.rows]


class Nearest(MetricSettings):
    """How many of the nearest queries are looked at."""

    k: int = Field(ge=1)


@register
class Recall(Right):
    """Share of images that find their own subject's query."""

    spec = _spec(
        name="recall_at_k",
        meaning="share of images whose own subject's query is among the k nearest of all subjects' queries; with "
        "`over`, of the worst group",
        probes=RETRIEVED,
        turns=True,
        display="Recall",
        alias="recall",
        usual_k=1,
    )
    Settings = Nearest

    def require(self, r: MetricRequest, dataset: DatasetFacts) -> None:
        """Refuse a k among which the right subject always is."""
        if _k(r.settings) >= len(dataset.subjects):
            raise SuiteError(
                f"check '{r.check}' looks for the right one among the {_k(r.settings)} nearest of "
                f"{len(dataset.subjects)} subjects: it would always be there.",
                where=r.at("k"),
                remedy="choose k below the number of subjects"
                + ("" if len(dataset.subjects) > 1 else "; with one subject use accuracy on a classification probe"),
            )

    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        """1 where an image's own subject's query is among the k nearest."""
        rank = answers[0].rank
        if rank is None:
            raise ScoresError(
                f"the kept scores of probe '{r.probe}' hold no ranks, which recall_at_k needs.",
                where=r.where,
                remedy="make the baseline again with this version of fairgate, or compare with `model:URI`",
            )
        return found_at_k(rank[cell.rows], _k(r.settings))

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """k of all subjects, each time."""
        return 0.0 if subjects is None else min(1.0, _k(settings) / subjects)


def _k(settings: MetricSettings) -> int:
    assert isinstance(settings, Nearest)
    return settings.k
