"""Metrics that count groups in the top k of every ranking: ranked once, counted again under resampled sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas import metrics as formulas
from fairgate.ground.randomness import stream
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import (
    RANKED,
    Answers,
    Counted,
    Cut,
    FairRankings,
    Measure,
    Metric,
    MetricRequest,
    MetricSettings,
    Parts,
    Ties,
    Units,
)
from fairgate.metrics.galleries import (
    Answer,
    Gallery,
    Grouping,
    Query,
    galleries_of,
    measure_rankings,
    places_of_groups,
    queries_of,
)
from fairgate.metrics.limits import large_enough, parts_of, value_of
from fairgate.records import MetricSpec

NULL_DRAWS = 2000
"""Rankings of a fair ranker, where its value is drawn."""

spec_at_k = partial(MetricSpec, probes=RANKED, per_group="yes", rankings=True, usual_k=100)
"""The spec of a metric of the top k."""


def ranked(query: Query, k: int) -> Query:
    """A query with its images best first. Raises MetricError as the ranking metrics do."""
    anybody = np.arange(len(query.joint)) > 0  # some groups with an image each: the order does not depend on them
    order = formulas.ranking(query.similarity[None, :], anybody.astype(np.int64), k, groups=2)[0]
    return replace(query, similarity=query.similarity[order], joint=query.joint[order], sets=query.sets[order])


def counted(query: Query, counts: Counts, k: int) -> tuple[Floats, Floats]:
    """Images of each joint group in the top k, and in all, of every resampled gallery of a ranked query: from set
    multiplicities (draws, sets), twice (draws, joint groups)."""
    shown = formulas.counts_at_k_weighted(query.joint, counts, k, groups=max(2, query.size), sets=query.sets)
    return shown[:, : query.size], formulas.weighted_group_counts(query.joint, counts, query.size, sets=query.sets)


class TopK(Metric):
    """A metric of the top k: made of images per group shown and present, and, by override, of their order."""

    Settings: ClassVar[type[MetricSettings]] = Cut

    @abstractmethod
    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """The metric from images per group shown and present, both (draws, groups)."""

    def tie_range(
        self, r: MetricRequest, similarity: Floats, labels: NDArray[np.int64], grouping: Grouping
    ) -> formulas.TieRange | None:
        """Its smallest and largest value over all orders of tied images, from similarity (1, images) and groups
        (images,); None where every place counts."""
        return None

    def resampled(
        self, r: MetricRequest, query: Query, counts: Counts, grouping: Grouping, shown: Floats, present: Floats
    ) -> Answer:
        """The metric of a ranked query under set multiplicities (draws, sets), with which so many images per group are
        shown in the top k, and present in the gallery, both (draws, groups)."""
        return self.of_counts(r, shown, present, grouping)

    def drawn_fairly(self, r: MetricRequest, gallery: Gallery, rng: np.random.Generator) -> tuple[Floats, ...]:
        """Of a perfectly fair ranker: (draws, parts) for every grouping."""
        present = np.bincount(gallery.joint)
        shown = formulas.fair_counts(present, r.cut.k, NULL_DRAWS, rng).astype(np.float64)
        images = present[None, :].astype(np.float64)
        return tuple(
            self.of_counts(r, grouping.fold(shown), grouping.fold(images), grouping)[0]
            for grouping in gallery.groupings
        )

    def rankings(self, r: MetricRequest, cell: Cell, queries: Sequence[Query]) -> list[list[Query]]:
        """What each query ranks, best first: its whole gallery, or parts of it one by one."""
        return [[ranked(query, r.cut.k)] for query in queries]

    def places(self, r: MetricRequest, cell: Cell, groupings: Sequence[Grouping]) -> tuple[list[int], tuple[int, ...]]:
        """Positions of the groups of all rankings of a query among the cell's, and how many each ranking has."""
        return places_of_groups(groupings)

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The worst grouping's mean over queries of every query's extreme part."""
        k, queries = r.cut.k, queries_of(r, cell, answers)
        rankings = self.rankings(r, cell, queries)

        def drawn(of_query: Sequence[Query], counts: Counts, unit: Units) -> list[Answer]:
            drawn_answers = []
            for query in (part.drawn_by(unit) for part in of_query):
                shown, present = counted(query, counts, k)
                drawn_answers += [
                    self.resampled(r, query, counts, grouping, grouping.fold(shown), grouping.fold(present))
                    for grouping in query.groupings
                ]
            return drawn_answers

        return measure_rankings(
            cell,
            queries,
            [partial(drawn, of_query) for of_query in rankings],
            self.spec.extreme,
            places=self.places(r, cell, queries[0].groupings),
            counted=_counted_once(rankings, k),
            ties=partial(self._ties, r, rankings),
        )

    def fair_chance(self, r: MetricRequest, cell: Cell, rankings: FairRankings) -> formulas.NullSkew | None:
        """Of several subjects or words the average's, of several groupings the worst one's, as the check has it,
        without groups in fewer than `min_sets` sets: the top k of every query is a random draw from its gallery,
        independent of the others'."""
        galleries = galleries_of(r, cell)
        drawn = self.fair_parts(r, cell, galleries, rankings)
        included, blocks = self.places(r, cell, galleries[0].groupings)
        rng = stream(0, "fair ranker", self.spec.name, r.cut.k, len(drawn))
        queries = []
        for of_query in drawn:
            order = rng.permutation(NULL_DRAWS)  # one composition, another query: the same draws, in another order
            queries.append([parts[order] for parts in of_query])
        enough = large_enough(cell.group_sets()[included], blocks, self.spec, r.min_sets)
        parts: Parts = tuple(zip(*queries, strict=True))
        parts = parts_of(parts, blocks, enough) if enough.any() else parts
        values = value_of(parts, self.spec.extreme)
        far = 0.95 if self.spec.better == "lower" else 0.05
        median, worse = np.quantile(values, [0.5, far], method="inverted_cdf")
        return formulas.NullSkew(mean=float(values.mean()), median=float(median), p95=float(worse), draws=NULL_DRAWS)

    def fair_parts(
        self, r: MetricRequest, cell: Cell, galleries: Sequence[Gallery], rankings: FairRankings
    ) -> list[tuple[Floats, ...]]:
        """By query, (draws, parts) of a fair ranker for every grouping."""
        return [self.drawn_once(r, gallery, rankings) for gallery in galleries]

    def drawn_once(self, r: MetricRequest, gallery: Gallery, rankings: FairRankings) -> tuple[Floats, ...]:
        """`drawn_fairly`, once for all galleries of one composition."""
        name, cut = self.spec.name, r.cut
        folds = tuple(grouping.of.tobytes() + grouping.included.tobytes() for grouping in gallery.groupings)
        composition = (name, cut.k, cut.desired, np.bincount(gallery.joint).tobytes(), folds)
        if composition not in rankings:
            rankings[composition] = self.drawn_fairly(r, gallery, stream(0, "fair ranking", name, cut.k))
        return rankings[composition]

    def _ties(self, r: MetricRequest, rankings: Sequence[Sequence[Query]]) -> Ties:
        """Ties at the cut of any of a check's rankings: the ends of the value over all orders of tied images."""
        k, ends = r.cut.k, []
        every = (query for of_query in rankings for query in of_query)
        if not any((query.similarity[k - 1] == query.similarity[k : k + 1]).any() for query in every):
            return Ties(decided=False)
        by_query = [[(query, grouping) for query in of_query for grouping in query.groupings] for of_query in rankings]
        for of_grouping in zip(*by_query, strict=True):
            ranges = []
            for query, grouping in of_grouping:
                of_query = self.tie_range(r, query.similarity[None, :], grouping.of[query.joint], grouping)
                if of_query is None:  # the value depends on every place
                    return Ties(decided=True)
                ranges.append((of_query.lowest[0], of_query.highest[0]))
            ends.append(np.mean(ranges, axis=0))
        lowest, highest = (np.max if self.spec.extreme == "max" else np.min)(ends, axis=0).tolist()
        return Ties(decided=True, lowest=lowest, highest=highest)


def _counted_once(rankings: Sequence[Sequence[Query]], k: int) -> Counted:
    """What is in the top k of every ranking, and what in its gallery."""
    once, both = np.ones((1, rankings[0][0].n_sets), dtype=np.int32), []
    for of_query in rankings:
        joint = [(query.groupings, counted(query, once, k)) for query in of_query]
        both.append(
            [
                np.concatenate([each.fold(of[at])[0][each.included] for groupings, of in joint for each in groupings])
                for at in (0, 1)
            ]
        )
    shown, images = np.stack(both, axis=1)
    return Counted(shown, images)
