"""Metrics of a check's rankings, of the galleries as they are and under resampled sets, by the same code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fairgate.metrics import bias_of_counts, entropy_of_counts, skew_of_counts
from fairgate.probes import ProbeScores
from fairgate.suites.association import association_of
from fairgate.suites.catalog import METRICS
from fairgate.suites.cell import Cell, Counts, Floats
from fairgate.suites.gallery import RankedGallery
from fairgate.suites.measure import Counted, Drawn, Extreme, Measure, value_of
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.queries import Grouping, Query, queries_of

Answer = tuple[Floats, Floats]
"""(draws, parts), of which the query's value is the extreme, and (draws, groups), what each group is shown with."""

Ranked = Callable[[Counts], list[Answer]]
"""One metric of one query: set multiplicities (draws, sets) to an answer for every grouping."""


def measure_ranking(planned: PlannedCheck, cell: Cell, answers: Sequence[ProbeScores]) -> Measure:
    """Every query's extreme part, averaged over queries; the value is the worst grouping's."""
    queries = queries_of(planned, cell, answers)
    check = planned.check
    extreme: Extreme = "max" if METRICS[check.metric].better == "lower" else "min"
    galleries: list[RankedGallery] = []
    ranked: list[Ranked] = []
    for query in queries:
        if check.metric == "c_asc":
            ranked.append(association_of(query))
        else:
            galleries.append(RankedGallery.of(query, check.k or 0))
            ranked.append(_ranked(planned, query, galleries[-1]))

    def draw(counts: Counts) -> Drawn:
        drawn = list(zip(*(one(counts) for one in ranked), strict=True))
        parts = tuple(tuple(part for part, _ in ones) for ones in drawn)
        groups = np.concatenate([np.mean([group for _, group in ones], axis=0) for ones in drawn], axis=1)
        return Drawn(value_of(parts, extreme), groups, parts)

    now = draw(np.ones((1, cell.n_sets), dtype=np.int32))
    groups = np.zeros(0) if now.groups is None else now.groups[0]
    kept, blocks = places_of_groups(queries[0].groupings)
    return Measure(
        value=float(now.value[0]),
        draw=draw,
        badness=np.mean([query.spread_inside_sets() for query in queries], axis=0),
        groups=[cell.group_names()[position] for position in kept],
        group_values=groups,
        group_badness=np.abs(groups) if check.metric == "c_asc" else groups if extreme == "max" else -groups,
        group_images=cell.group_images()[kept],
        group_sets=cell.group_sets()[kept],
        extreme=extreme,
        parts=tuple(tuple(part[0] for part in queries_) for queries_ in now.parts),
        blocks=blocks,
        counted=_counted(galleries, queries) if galleries else None,
    )


def answer_of_counts(metric: str, shown: Floats, present: Floats, desired: str, grouping: Grouping) -> Answer:
    """Metrics that need no order inside the top k, from images per group shown and present, both (draws, groups)."""
    if metric == "bias_at_k":
        first, second = grouping.kept
        bias = bias_of_counts(shown[:, first], shown[:, second])
        signed = np.stack([bias, -bias], axis=1)
        return signed, signed
    skew = skew_of_counts(shown, present, desired=desired)
    return (entropy_of_counts(shown)[:, None] if metric == "normalized_entropy_at_k" else skew), skew


def _ranked(planned: PlannedCheck, query: Query, gallery: RankedGallery) -> Ranked:
    """The check's metric on one query."""
    check = planned.check

    def draw(counts: Counts) -> list[Answer]:
        shown, present = gallery.shown(counts), gallery.present(counts)
        found = []
        for grouping in query.groupings:
            top, all_ = grouping.fold(shown), grouping.fold(present)
            parts, groups = answer_of_counts(check.metric, top, all_, check.desired, grouping)
            if check.metric == "ndkl_at_k":
                parts = gallery.ndkl(counts, grouping, all_, check.desired)[:, None]
            found.append((parts, groups))
        return found

    return draw


def _counted(galleries: Sequence[RankedGallery], queries: Sequence[Query]) -> Counted:
    """What stands in the top k of every query, and what in its gallery."""
    once = np.ones((1, queries[0].n_sets), dtype=np.int32)

    def folded(counts: Floats, query: Query) -> Floats:
        return np.concatenate([grouping.fold(counts)[0][grouping.kept] for grouping in query.groupings])

    pairs = list(zip(galleries, queries, strict=True))
    return Counted(
        shown=np.stack([folded(gallery.shown(once), query) for gallery, query in pairs]),
        images=np.stack([folded(gallery.present(once), query) for gallery, query in pairs]),
    )


def places_of_groups(groupings: Sequence[Grouping]) -> tuple[list[int], tuple[int, ...]]:
    """Places of the groups that the metric speaks of, among the groups of all groupings, and how many each has."""
    starts = np.cumsum([0, *(grouping.size for grouping in groupings)])
    places = [
        int(start + place)
        for start, grouping in zip(starts, groupings, strict=False)
        for place in grouping.kept.tolist()
    ]
    return places, tuple(len(grouping.kept) for grouping in groupings)
