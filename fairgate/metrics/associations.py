"""Which words a group is taken for: S and differential S, of two lists of words (Saravanan et al. 2023, eq. 2 and 3),
and C-ASC, whether a caption is nearer to a group than to everybody else (Hamidieh et al. 2024, So-B-IT)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from fairgate.formulas.metrics import SetSums, c_asc_of_sums
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import RANKED, Answers, Measure, MetricRequest, Units, register
from fairgate.metrics.galleries import Answer, Query, Ranked, measure_rankings, queries_of
from fairgate.metrics.known_means import departures_of
from fairgate.metrics.limits import OfWorstGroup, means_of_draws, measure_groups
from fairgate.records import MetricSpec

PAIRED = ("pair_association",)
_spec = partial(MetricSpec, probes=PAIRED, better="lower", highest=1)


@register
class Association(OfWorstGroup):
    """S(D, A, B) of everybody, or of the group with the highest.

    Of groups the highest is compared with the baseline, not each: a group that comes up to 0.5 is no regression. It has
    one side: a model that takes everybody for B has the best value, 0. The exchanged lists see that.
    """

    spec = _spec(
        name="association",
        meaning="S(D, A, B): share of pairs (a, b) in which an image is taken for a, 0.5 being neither; with `over`, "
        "of the group with the highest. It sees one side: 0, everybody taken for b, is its best; exchange the lists "
        "for the other",
        lowest=0,
        per_group="maybe",
        display="S",
        plain="association S",
        worst_set="share {number}",
    )
    counts_sets = False

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """A mean over images and words."""
        share = _shares(cell, answers)
        sums, counts = cell.per_set(share)
        paired = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        by_set: dict[str, Any] = {} if cell.groups else {"paired": paired, "weights": counts}
        return measure_groups(
            cell,
            partial(means_of_draws, sums=sums, counts=counts),
            sums.sum(axis=0) / counts.sum(axis=0),
            np.nanmax(paired, axis=1),
            "max",
            group_sets=(counts > 0).sum(axis=0),
            **by_set,
        )


@register
class DifferentialAssociation(OfWorstGroup):
    """S(D_X, A, B) - S(D_Y, A, B) of every group X and everybody else Y: a check is held to the largest size."""

    spec = _spec(
        name="differential_association",
        meaning="S of a group less S of everybody else: how much more often it is taken for the first list's words; of "
        "the group that departs farthest, either way. Against a baseline every group's size is "
        "compared with its own",
        lowest=0,
        per_group="yes",
        group_bound="size",
        display="differential S",
        plain="differential S",
    )
    counts_sets = False

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The largest size over the groups of all groupings."""
        return departures_of(cell, _shares(cell, answers), np.ones(len(cell.rows)), r.min_sets)


def _shares(cell: Cell, answers: Answers) -> Floats:
    """The mean share of pairs over the check's words, (images,)."""
    mean: Floats = np.mean([word.value[cell.rows] for word in answers], axis=0)
    return mean


@register
class CASC(OfWorstGroup):
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
    counts_sets = False

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The largest size over groups, averaged over queries."""
        queries = queries_of(r, cell, answers)
        return measure_rankings(cell, queries, [association_of(query) for query in queries], "max", by_size=True)


def association_of(query: Query) -> Ranked:
    """Set multiplicities (draws, sets) to C-ASC of every grouping's groups: (draws, 2 groups) of both signs, and
    (draws, groups), with the sample standard deviation. NaN for a group without an image."""

    def summed(of: Query) -> SetSums:
        return SetSums.of(of.similarity, of.joint, of.sets, groups=of.size, n_sets=of.n_sets)

    of_sets = summed(query)

    def draw(counts: Counts, unit: Units) -> list[Answer]:
        sums, images, squares = (of_sets if unit is None else summed(query.drawn_by(unit))).drawn(counts)
        total, all_images = sums.sum(axis=1, keepdims=True), images.sum(axis=1, keepdims=True)
        answers = []
        for grouping in query.groupings:
            inside, members = grouping.fold(sums), grouping.fold(images)
            association = c_asc_of_sums(inside, members, squares, images=all_images, total=total)
            answers.append((np.concatenate([association, -association], axis=1), association))
        return answers

    return draw
