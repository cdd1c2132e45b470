"""Inside counterfactual sets: do all members get the same P(true label), and does a group get less than the others?

Fairness is Lui et al. 2023. Where images form no sets, a group is compared with the other groups' means.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairgate.formulas.metrics import fairness, set_deviation, set_std
from fairgate.formulas.statistics import Unavailable, median_interval, weighted_median
from fairgate.ground.errors import SuiteError
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import (
    CLASSIFIED,
    Answers,
    Drawn,
    Limits,
    Measure,
    Metric,
    MetricRequest,
    limits_of,
    register,
)
from fairgate.metrics.image_means import shares, worst_group_mean
from fairgate.metrics.limits import worst_group
from fairgate.probes import DatasetFacts
from fairgate.records import CROSS, MetricSpec


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
        per_group="no",
        counterfactual=True,
        tempered=True,
        alias="fairness",
    )

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """A plain statistic of all sets."""
        p_true = cell.sets_by_members(answers[0].value[cell.rows])
        spread = set_std(p_true)
        return Measure(
            value=fairness(p_true),
            draw=lambda counts: Drawn(1.0 - weighted_median(spread, counts)),
            badness=spread,
        )

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """The median's interval, which is exact; the bootstrap's percentiles fall short."""
        found = median_interval(now.badness, alpha=alpha)
        if not isinstance(found, Unavailable):
            found = replace(found, estimate=1 - found.estimate, lo=1 - found.hi, hi=1 - found.lo)
        how = f"{1 - alpha:.0%} order statistics of the spreads inside sets"
        return limits_of(found, cell, drawn, alpha, how=how)


@register
class GroupGap(Metric):
    """The worst group's P(true label) less its set-mates' mean, or, of single images, less the mean of all groups."""

    spec = MetricSpec(
        name="group_gap",
        meaning="how far the worst group's P(true label) is below its set-mates' mean; where images form no sets, "
        "below the mean of all groups",
        probes=CLASSIFIED,
        better="higher",
        lowest=-1,
        highest=0,
        per_group="yes",
        tempered=True,
        relative=True,
        display="gap to the others",
        worst_set="one member {number} behind its set-mates",
        alias="group_gap",
    )

    def require(self, r: MetricRequest, dataset: DatasetFacts) -> None:
        """Without set-mates, a group is compared with the groups of its attribute, each with images of its own."""
        if dataset.counterfactual:
            return
        if dataset.n_sets < dataset.n_rows:
            raise SuiteError(
                f"check '{r.check}' measures group_gap, and the {dataset.n_sets:,} sets of '{dataset.name}' hold "
                f"{dataset.n_rows:,} images: they are neither counterfactual nor single images.",
                where=r.at("over"),
                remedy="give every image a set of its own, or use `metric: p_true` with `over`",
            )
        if len(r.crossings) > 1:
            several = " and ".join(CROSS.join(crossing) for crossing in r.crossings)
            raise SuiteError(
                f"check '{r.check}' measures group_gap over {several}, and a group of single images is compared with "
                "the groups of one attribute.",
                where=r.at("over"),
                remedy=f"write a check for each (`over: {r.crossings[0][0]}`), or cross them (`over: crossed`)",
            )

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """Inside sets, or between groups of single images."""
        value = answers[0].value[cell.rows]
        return _of_images(cell, value, r.min_sets) if cell.unit == "images" else _inside_sets(cell, value)

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of the worst group."""
        return worst_group(r, cell, now, drawn, alpha, degrees=int(now.group_sets[now.judged_or_all].min()))


def _inside_sets(cell: Cell, value: Floats) -> Measure:
    deviation = np.empty_like(value)
    by_set = np.argsort(cell.set_code, kind="stable")
    deviation[by_set] = set_deviation(cell.sets_by_members(value)).ravel()
    lowest = np.zeros(cell.n_sets)
    np.minimum.at(lowest, cell.set_code, deviation)
    return worst_group_mean(cell, deviation, badness=-lowest)


def _of_images(cell: Cell, value: Floats, min_sets: int) -> Measure:
    """Without set-mates, a group is compared with the other groups: its mean less the mean of all groups' means.

    A group in fewer than `min_sets` sets does not count in that mean: its noise would move every other group.
    """
    plain = shares(cell, value)
    enough = plain.group_sets >= min_sets
    counted = enough if enough.any() else np.ones(len(enough), dtype=bool)

    def gaps_of(means: Floats) -> Floats:
        found: Floats = means - np.nanmean(means[..., counted], axis=-1, keepdims=True)
        return found

    def draw(resampled: Counts) -> Drawn:
        means = plain.draw(resampled).groups
        assert means is not None
        gaps = gaps_of(means)
        return Drawn(np.nanmin(gaps, axis=1), gaps, ((gaps,),))

    gaps = gaps_of(plain.group_values)
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
