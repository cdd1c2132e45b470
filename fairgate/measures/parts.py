"""A check's value is its worst group's: the extreme part of every query, over the groups that can be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairgate.measures.cell import Counts, Floats
from fairgate.measures.contract import Drawn, Measure, Parts
from fairgate.records import Extreme, MetricSpec
from fairgate.statistics import Resamples, set_count_chunks


def value_of(parts: Parts, extreme: Extreme) -> Floats:
    """The check's number under resamples, (draws,): worst grouping, mean over queries, extreme part.

    A part that a resample does not have (a group without an image) is passed over.
    """
    of = np.nanmax if extreme == "max" else np.nanmin
    means = [np.mean([of(part, axis=1) for part in queries], axis=0) for queries in parts]
    return np.asarray((np.max if extreme == "max" else np.min)(means, axis=0))


def parts_of(parts: Parts, blocks: Sequence[int], keep: NDArray[np.bool_]) -> Parts:
    """The parts of some groups. A part has a column per group, one per group and sign, or, of a joint metric, one."""
    masks = np.split(keep, np.cumsum(blocks)[:-1])
    return tuple(
        tuple(part[..., np.resize(mask, part.shape[-1])] for part in queries)
        for queries, mask in zip(parts, masks, strict=True)
        if mask.any()
    )


def large_enough(
    group_sets: NDArray[np.int64], blocks: Sequence[int], metric: MetricSpec, min_sets: int
) -> NDArray[np.bool_]:
    """Which groups can be judged, (groups,): those in `min_sets` sets; of a joint metric, a whole block or none."""
    enough = group_sets >= min_sets
    if not metric.jointly:
        return enough
    return np.concatenate([np.full(len(block), block.all()) for block in np.split(enough, np.cumsum(blocks)[:-1])])


def over_judged(found: Measure) -> Measure:
    """The same measure with the judged groups alone in its value, its resamples and its parts."""
    keep, extreme = found.judged_or_all, found.extreme
    if keep.all() or extreme is None:
        return found

    def draw(counts: Counts) -> Drawn:
        drawn = found.draw(counts)
        parts = parts_of(drawn.parts, found.blocks, keep)
        return Drawn(value_of(parts, extreme), drawn.groups, parts)

    parts = parts_of(found.parts, found.blocks, keep)
    value = value_of(tuple(tuple(part[None] for part in queries) for queries in parts), extreme)
    return replace(found, value=float(value[0]), draw=draw, parts=parts)


def resample(measures: Sequence[Measure], n_sets: int, draws: int, sets: Resamples) -> list[Drawn]:
    """`draws` resamples of each measure's statistic."""
    chunks: list[list[Drawn]] = [[] for _ in measures]
    for counts in set_count_chunks(n_sets, draws, sets):
        for found, one in zip(chunks, measures, strict=True):
            found.append(one.draw(counts))
    return [_joined(found) for found in chunks]


def _joined(chunks: Sequence[Drawn]) -> Drawn:
    groups = [chunk.groups for chunk in chunks if chunk.groups is not None]
    parts = tuple(
        tuple(np.concatenate(queries) for queries in zip(*groupings, strict=True))
        for groupings in zip(*(chunk.parts for chunk in chunks), strict=True)
    )
    return Drawn(np.concatenate([chunk.value for chunk in chunks]), np.concatenate(groups) if groups else None, parts)
