"""C-ASC: is a caption nearer to one group than to everybody else? (Hamidieh et al. 2024, So-B-IT)."""

from __future__ import annotations

import math

import numpy as np

from fairgate.formulas.metrics import SetSums, c_asc_of_sums
from fairgate.metrics.cell import Cell, Counts
from fairgate.metrics.contract import RANKED, Answers, Drawn, Limits, Measure, Metric, MetricRequest, register
from fairgate.metrics.galleries import Answer, Query, Ranked, measure_rankings, queries_of
from fairgate.metrics.limits import worst_group
from fairgate.records import MetricSpec


@register
class CASC(Metric):
    """C-ASC has a sign, which way a group departs: a check is held to the largest size."""

    spec = MetricSpec(
        name="c_asc",
        meaning="by how many standard deviations a caption is nearer to, or farther from, a group than everybody else",
        probes=RANKED,
        better="lower",
        lowest=0,
        highest=math.inf,
        per_group="yes",
        rankings=True,
        group_bound="size",
        display="C-ASC",
        plain="C-ASC",
    )

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The largest size over groups, averaged over queries."""
        queries = queries_of(r, cell, answers)
        return measure_rankings(cell, queries, [association_of(query) for query in queries], "max", by_size=True)

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of the group that departs farthest."""
        return worst_group(r, cell, now, drawn, alpha)


def association_of(query: Query) -> Ranked:
    """Set multiplicities (draws, sets) to C-ASC of every grouping's groups: (draws, 2 groups) of both signs, and
    (draws, groups), with the sample standard deviation. NaN for a group without an image."""
    summed = SetSums.of(query.similarity, query.joint, query.sets, groups=query.size, n_sets=query.n_sets)

    def draw(counts: Counts) -> list[Answer]:
        sums, images, squares = summed.drawn(counts)
        total, all_images = sums.sum(axis=1, keepdims=True), images.sum(axis=1, keepdims=True)
        found = []
        for grouping in query.groupings:
            inside, members = grouping.fold(sums), grouping.fold(images)
            association = c_asc_of_sums(inside, members, squares, images=all_images, total=total)
            found.append((np.concatenate([association, -association], axis=1), association))
        return found

    return draw
