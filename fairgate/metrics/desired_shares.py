"""Skew, NDKL and normalised entropy: whom does the top k show too often, and how far is it from the desired shares?

Geyik et al. 2019; the entropy is So-B-IT's, and compares with equal shares.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.metrics import (
    TieRange,
    entropy_of_counts,
    entropy_tie_range,
    fair_counts,
    fair_rankings,
    ndkl_at_k_weighted,
    ndkl_of_ranking,
    skew_of_counts,
    skew_tie_range,
)
from fairgate.formulas.statistics import Interval, Unavailable, divergence_interval, skew_interval
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import Counted, Drawn, Limits, Measure, MetricRequest, register
from fairgate.metrics.galleries import Answer, Gallery, Grouping, Query
from fairgate.metrics.limits import Stacked, bootstrapped, from_parts, same_attribute
from fairgate.metrics.top_k import NULL_DRAWS, TopK, spec_at_k

_SIZE = "for galleries of this size"


class _Skew(TopK):
    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """Log ratio of every group's share to its desired share."""
        skew = skew_of_counts(shown, present, desired=r.cut.desired)
        return skew, skew

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of the group with the most extreme skew."""
        assert now.counted is not None
        images, desired = now.counted.images[:, now.judged_or_all], _desired(r, now, now.counted)

        def find(parts: Stacked) -> Interval | Unavailable:
            return skew_interval(
                parts.values,
                parts.draws,
                k=r.cut.k,
                images=images,
                n_sets=parts.sets,
                desired=desired,
                which=self.spec.extreme,
                alpha=alpha,
                attribute=parts.attribute,
                names=parts.names,
            )

        return from_parts(find, r, cell, now, drawn, alpha)

    def tie_range(
        self, r: MetricRequest, similarity: Floats, labels: NDArray[np.int64], grouping: Grouping
    ) -> TieRange | None:
        """Over all orders of tied images."""
        k, desired, extreme = r.cut.k, r.cut.desired, self.spec.extreme
        return skew_tie_range(similarity, labels, k, groups=grouping.size, extreme=extreme, desired=desired)


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

    spec = spec_at_k(
        name="max_skew_at_k",
        meaning="log ratio of the most over-represented group's share of the top k to its desired share",
        better="lower",
        lowest=0,
        highest=math.inf,
        display="MaxSkew",
        alias="max_skew",
    )


@register
class MinSkew(_Skew):
    """The smallest skew of a group."""

    spec = spec_at_k(
        name="min_skew_at_k",
        meaning="log ratio of the most under-represented group's share of the top k to its desired share",
        better="higher",
        lowest=-math.inf,
        highest=0,
        display="MinSkew",
        alias="min_skew",
    )


@register
class NDKL(TopK):
    """Divergence of every prefix of the top k from the desired shares (Geyik et al. 2019); groups show their skew."""

    spec = spec_at_k(
        name="ndkl_at_k",
        meaning="discounted KL divergence of every prefix of the top k from the desired shares",
        better="lower",
        lowest=0,
        highest=math.inf,
        jointly=True,
        group_bound="none",
        display="NDKL",
        alias="ndkl",
    )

    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """The groups' skews; the value depends on the order."""
        skew = skew_of_counts(shown, present, desired=r.cut.desired)
        return skew, skew

    def resampled(
        self, r: MetricRequest, query: Query, counts: Counts, grouping: Grouping, shown: Floats, present: Floats
    ) -> Answer:
        """NDKL of every resampled ranking."""
        _, skew = self.of_counts(r, shown, present, grouping)
        ndkl = ndkl_at_k_weighted(
            grouping.of[query.joint],
            counts,
            r.cut.k,
            groups=grouping.size,
            desired=r.cut.desired,
            present=present,
            sets=query.sets,
        )
        return ndkl[:, None], skew

    def drawn_fairly(self, r: MetricRequest, gallery: Gallery, rng: np.random.Generator) -> tuple[Floats, ...]:
        """NDKL of the order that a fair ranker draws."""
        present = np.bincount(gallery.joint)
        ranked = fair_rankings(fair_counts(present, r.cut.k, NULL_DRAWS, rng), rng)
        found = []
        for grouping in gallery.groupings:
            held = grouping.fold(present[None, :].astype(np.float64))[0]
            dataset = r.cut.desired == "dataset"
            shares = held / held.sum() if dataset else np.full(grouping.size, 1 / grouping.size)
            found.append(ndkl_of_ranking(grouping.of[ranked], shares)[:, None])
        return tuple(found)

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of the largest grouping's mean over queries."""
        return bootstrapped(_divergence(r, now, drawn, alpha, to_one=False), _SIZE, cell, drawn, alpha)


@register
class NormalizedEntropy(TopK):
    """Entropy of the groups in the top k over that of equal shares (So-B-IT); groups show their skew."""

    spec = spec_at_k(
        name="normalized_entropy_at_k",
        meaning="how evenly the top k is spread over the groups: its entropy over that of equal shares",
        better="higher",
        jointly=True,
        group_bound="none",
        display="normalised entropy",
        alias="entropy",
    )

    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """Of what is shown."""
        return entropy_of_counts(shown)[:, None], skew_of_counts(shown, present, desired=r.cut.desired)

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """By the distance from 1, a divergence from equal shares."""
        found = _divergence(r, now, drawn, alpha, to_one=True)
        if isinstance(found, Unavailable):
            found = Unavailable(found.reason.replace("NDKL", "entropy"))
        else:
            found = replace(found, estimate=1 - found.estimate, lo=max(0.0, 1 - found.hi), hi=1 - found.lo)
        return bootstrapped(found, _SIZE, cell, drawn, alpha)

    def tie_range(
        self, r: MetricRequest, similarity: Floats, labels: NDArray[np.int64], grouping: Grouping
    ) -> TieRange | None:
        """Over all orders of tied images."""
        return entropy_tie_range(similarity, labels, r.cut.k, groups=grouping.size)


def _divergence(r: MetricRequest, now: Measure, drawn: Drawn, alpha: float, *, to_one: bool) -> Interval | Unavailable:
    """Of every grouping's value, or its distance from 1, averaged over queries."""
    assert now.counted is not None
    means = np.array([np.mean(queries) for queries in now.parts])
    draws = np.stack([np.mean(queries, axis=0)[:, 0] for queries in drawn.parts], axis=1)
    return divergence_interval(
        1 - means if to_one else means,
        1 - draws if to_one else draws,
        k=r.cut.k,
        shown=now.counted.shown[:, now.judged_or_all],
        images=now.counted.images[:, now.judged_or_all],
        alpha=alpha,
    )
