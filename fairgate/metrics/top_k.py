"""Metrics that count groups in the top k of every ranking: ranked once, counted again under resampled sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, slots=True)
class Ranking:
    """A query whose images are put in order, best first, as far as a top k reaches."""

    query: Query
    _order: list[NDArray[np.int64]] = field(default_factory=list, repr=False)
    _present: list[Floats] = field(default_factory=list, repr=False)
    _in_blocks: list[tuple[Units, Ranking]] = field(default_factory=list, repr=False)

    @property
    def images(self) -> int:
        """Number of images that are ranked."""
        return len(self.query.joint)

    def best(self, images: int) -> NDArray[np.int64]:
        """Places of so many best images, in order. Raises MetricError as the ranking metrics do."""
        if not self._order or len(self._order[0]) < images:
            anybody = np.arange(self.images) > 0  # some groups with an image each: the order does not depend on them
            scores = self.query.similarity[None, :]
            self._order[:] = [formulas.ranking(scores, anybody.astype(np.int64), images, groups=2, best=images)[0]]
        return self._order[0][:images]

    def drawn_by(self, unit: Units) -> Ranking:
        """The same with blocks for sets."""
        if unit is None:
            return self
        if not self._in_blocks or self._in_blocks[0][0] is not unit:
            self._in_blocks[:] = [(unit, Ranking(self.query.drawn_by(unit), self._order))]
        return self._in_blocks[0][1]

    def counted(self, counts: Counts, k: int) -> tuple[Query, Floats, Floats]:
        """The best images that hold every resampled top k, from set multiplicities (draws, sets); images of each joint
        group in the top k, and in all, both (draws, joint groups)."""
        whole, reach = self.query, min(self.images, 2 * k + 50)
        while (
            reach < self.images
            and (counts @ np.bincount(whole.sets[self.best(reach)], minlength=whole.n_sets)).min() < k
        ):
            reach = min(self.images, 2 * reach)
        at = self.best(reach)
        top = replace(whole, similarity=whole.similarity[at], joint=whole.joint[at], sets=whole.sets[at])
        shown = formulas.counts_at_k_weighted(top.joint, counts, k, groups=max(2, whole.size), sets=top.sets)
        return top, shown[:, : whole.size], self._of_galleries(counts)

    def _of_galleries(self, counts: Counts) -> Floats:
        of = self.query
        if len(counts) == 1:
            return formulas.weighted_group_counts(of.joint, counts, of.size, sets=of.sets)
        if not self._present:
            images = np.bincount(of.sets * of.size + of.joint, minlength=of.n_sets * of.size)
            self._present.append(images.reshape(-1, of.size).astype(np.float64))
        return np.asarray(counts @ self._present[0])


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
        """The metric of a query's best images, in order, under set multiplicities (draws, sets), with which so many
        images per group are shown in the top k, and present in the gallery, both (draws, groups)."""
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

    def rankings(self, r: MetricRequest, cell: Cell, queries: Sequence[Query]) -> list[list[Ranking]]:
        """What each query ranks: its whole gallery, or parts of it one by one."""
        return [[Ranking(query)] for query in queries]

    def places(self, r: MetricRequest, cell: Cell, groupings: Sequence[Grouping]) -> tuple[list[int], tuple[int, ...]]:
        """Positions of the groups of all rankings of a query among the cell's, and how many each ranking has."""
        return places_of_groups(groupings)

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The worst grouping's mean over queries of every query's extreme part."""
        k, queries = r.cut.k, queries_of(r, cell, answers)
        rankings = self.rankings(r, cell, queries)

        def drawn(of_query: Sequence[Ranking], counts: Counts, unit: Units) -> list[Answer]:
            drawn_answers = []
            for part in of_query:
                top, shown, present = part.drawn_by(unit).counted(counts, k)
                drawn_answers += [
                    self.resampled(r, top, counts, grouping, grouping.fold(shown), grouping.fold(present))
                    for grouping in top.groupings
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

    def _ties(self, r: MetricRequest, rankings: Sequence[Sequence[Ranking]]) -> Ties:
        """Ties at the cut of any of a check's rankings: the ends of the value over all orders of tied images."""
        k, ends = r.cut.k, []
        every = (ranking for of_query in rankings for ranking in of_query)
        if not any(_tied(ranking, k) for ranking in every):
            return Ties(decided=False)
        by_query = [
            [(part.query, grouping) for part in of_query for grouping in part.query.groupings] for of_query in rankings
        ]
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


def _tied(ranking: Ranking, k: int) -> bool:
    """Whether the image after the top k has the similarity of its last one."""
    last = ranking.query.similarity[ranking.best(min(ranking.images, k + 1))[k - 1 :]]
    return bool((last[0] == last[1:]).any())


def _counted_once(rankings: Sequence[Sequence[Ranking]], k: int) -> Counted:
    """What is in the top k of every ranking, and what in its gallery."""
    once, both = np.ones((1, rankings[0][0].query.n_sets), dtype=np.int32), []
    for of_query in rankings:
        joint = [(part.query.groupings, part.counted(once, k)[1:]) for part in of_query]
        both.append(
            [
                np.concatenate([each.fold(of[at])[0][each.included] for groupings, of in joint for each in groupings])
                for at in (0, 1)
            ]
        )
    shown, images = np.stack(both, axis=1)
    return Counted(shown, images)
