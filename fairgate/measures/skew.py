"""MaxSkew and MinSkew: whom does the top k show too often, and whom too rarely? (Geyik et al. 2019)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairgate.measures.cell import Cell, Floats
from fairgate.measures.contract import RANKED, Counted, Drawn, Limits, Measure, MetricRequest
from fairgate.measures.galleries import Answer, Grouping, Query
from fairgate.measures.limits import WORST, bootstrapped, same_attribute, stacked
from fairgate.measures.registry import register
from fairgate.measures.top_k import TopK
from fairgate.metrics import skew_of_counts, skew_tie_range
from fairgate.records import MetricSpec
from fairgate.statistics import Unavailable, skew_interval


class _Skew(TopK):
    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """Log ratio of every group's share to its desired share."""
        skew = skew_of_counts(shown, present, desired=r.cut.desired)
        return skew, skew

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of the group with the most extreme skew."""
        assert now.counted is not None
        parts = stacked(r, cell, now, drawn)
        if isinstance(parts, Unavailable):
            return bootstrapped(parts, WORST, cell, drawn, alpha)
        found = skew_interval(
            parts.values,
            parts.draws,
            k=r.cut.k,
            images=now.counted.images[:, now.judged_or_all],
            n_sets=parts.sets,
            desired=_desired(r, now, now.counted),
            which=self.spec.extreme,
            alpha=alpha,
            attribute=parts.attribute,
            names=parts.names,
        )
        return bootstrapped(found, WORST, cell, drawn, alpha)

    def tie_range(self, r: MetricRequest, query: Query, grouping: Grouping) -> tuple[float, float] | None:
        """Over all orders of tied images."""
        labels, cut = grouping.of[query.joint], r.cut
        similarity = query.similarity[None, :]
        extreme = self.spec.extreme
        found = skew_tie_range(similarity, labels, cut.k, groups=grouping.size, extreme=extreme, desired=cut.desired)
        return float(found.lowest[0]), float(found.highest[0])


def _desired(r: MetricRequest, now: Measure, counted: Counted) -> Any:
    """The groups' desired shares; where only some groups are judged, as shares of all images all the same."""
    if now.judged_or_all.all():
        return r.cut.desired
    weight = counted.images if r.cut.desired == "dataset" else np.ones(counted.images.shape)
    shares = weight / (weight @ same_attribute(now))
    return shares[:, now.judged_or_all]


@register
class MaxSkew(_Skew):
    """The largest skew of a group."""

    spec = MetricSpec(
        name="max_skew_at_k",
        meaning="log ratio of the most over-represented group's share of the top k to its desired share",
        probes=RANKED,
        better="lower",
        lowest=0,
        highest=math.inf,
        per_group="yes",
        rankings=True,
        display="MaxSkew",
        alias="max_skew",
        usual_k=100,
    )


@register
class MinSkew(_Skew):
    """The smallest skew of a group."""

    spec = MetricSpec(
        name="min_skew_at_k",
        meaning="log ratio of the most under-represented group's share of the top k to its desired share",
        probes=RANKED,
        better="higher",
        lowest=-math.inf,
        highest=0,
        per_group="yes",
        rankings=True,
        display="MinSkew",
        alias="min_skew",
        usual_k=100,
    )
