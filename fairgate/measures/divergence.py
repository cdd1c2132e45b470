"""NDKL and normalised entropy: how far is the top k as a whole from the desired shares, or from equal ones?"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairgate.measures.cell import Cell, Counts, Floats
from fairgate.measures.contract import RANKED, Drawn, Limits, Measure, MetricRequest
from fairgate.measures.fair_chance import NULL_DRAWS
from fairgate.measures.galleries import Answer, Gallery, Grouping, Query
from fairgate.measures.limits import bootstrapped
from fairgate.measures.registry import register
from fairgate.measures.top_k import Folded, RankedGallery, TopK
from fairgate.metrics import (
    entropy_of_counts,
    entropy_tie_range,
    fair_counts,
    fair_rankings,
    ndkl_of_ranking,
    skew_of_counts,
)
from fairgate.records import MetricSpec
from fairgate.statistics import Interval, Unavailable, divergence_interval

_SIZE = "for galleries of this size"


@register
class NDKL(TopK):
    """Divergence of every prefix of the top k from the desired shares (Geyik et al. 2019); groups show their skew."""

    spec = MetricSpec(
        name="ndkl_at_k",
        meaning="discounted KL divergence of every prefix of the top k from the desired shares",
        probes=RANKED,
        better="lower",
        lowest=0,
        highest=math.inf,
        per_group="yes",
        rankings=True,
        jointly=True,
        group_bound="none",
        display="NDKL",
        alias="ndkl",
        usual_k=100,
    )

    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """The groups' skews; the value depends on the order."""
        skew = skew_of_counts(shown, present, desired=r.cut.desired)
        return skew, skew

    def resampled(
        self,
        r: MetricRequest,
        gallery: RankedGallery,
        counts: Counts,
        grouping: Grouping,
        folded: Folded,
    ) -> Answer:
        """NDKL of every resampled ranking."""
        _, skew = self.of_counts(r, *folded, grouping)
        return gallery.ndkl(counts, grouping, folded[1], r.cut.desired)[:, None], skew

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

    def tie_range(self, r: MetricRequest, query: Query, grouping: Grouping) -> tuple[float, float] | None:
        """None: every place counts."""
        return None


@register
class NormalizedEntropy(TopK):
    """Entropy of the groups in the top k over that of equal shares (So-B-IT); groups show their skew."""

    spec = MetricSpec(
        name="normalized_entropy_at_k",
        meaning="how evenly the top k is spread over the groups: its entropy over that of equal shares",
        probes=RANKED,
        better="higher",
        lowest=0,
        highest=1,
        per_group="yes",
        rankings=True,
        jointly=True,
        group_bound="none",
        display="normalised entropy",
        alias="entropy",
        usual_k=100,
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

    def tie_range(self, r: MetricRequest, query: Query, grouping: Grouping) -> tuple[float, float] | None:
        """Over all orders of tied images."""
        labels, similarity = grouping.of[query.joint], query.similarity[None, :]
        found = entropy_tie_range(similarity, labels, r.cut.k, groups=grouping.size)
        return float(found.lowest[0]), float(found.highest[0])


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
