"""Metrics by name, and a check measured by one. Families register themselves when they are imported; installed
packages add theirs. A check's value is its worst group's: the extreme part of every query, over the groups that can be
judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import MetricError
from fairgate.measures.cell import Cell, Counts, Floats
from fairgate.measures.contract import Answers, Drawn, Measure, Metric, MetricRequest, Parts
from fairgate.plugins import Registry
from fairgate.records import Extreme, MetricSpec, name_and_k
from fairgate.statistics import Resamples, set_count_chunks

_FAMILIES = {
    "fairness": "set_spread",
    "accuracy": "image_means",
    "p_true": "image_means",
    "group_gap": "set_spread",
    "recall_at_k": "image_means",
    "max_skew_at_k": "desired_shares",
    "min_skew_at_k": "desired_shares",
    "ndkl_at_k": "desired_shares",
    "bias_at_k": "bias_at_k",
    "normalized_entropy_at_k": "desired_shares",
    "c_asc": "c_asc",
}


def _checked(name: str, thing: Any) -> Metric:
    metric = thing() if isinstance(thing, type) and issubclass(thing, Metric) else thing
    if not isinstance(metric, Metric):
        raise TypeError("it is no fairgate.measures.Metric")
    if metric.spec.name != name:
        raise TypeError(f"its spec names it '{metric.spec.name}'")
    known, k = name_and_k(name)  # as a record's readers do: `max_skew_at_100` holds both
    if metric.needs_k and (name.count("_at_k") != 1 or not name.endswith("_at_k")):
        better = f"{known.replace('_at_k', '')}_at_k"
        raise TypeError(
            f"it takes a `k`, and its name does not end in `_at_k`, where records write it: call it '{better}'"
        )
    if k:
        better = f"{known.removesuffix('_at_k')}_{k}"
        raise TypeError(f"it takes no `k`, and records would read {k} as one from its name: call it '{better}'")
    return metric


METRICS: Registry[Metric] = Registry(
    "metric", {name: f"fairgate.measures.{family}" for name, family in _FAMILIES.items()}, _checked
)


def register(metric: type[Metric]) -> type[Metric]:
    """Class decorator: make a metric known by its spec's name. Raises FairgateError for a name that is taken."""
    METRICS.register(metric.spec.name, metric)
    return metric


def measure(r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
    """Measure a check on its images.

    Groups in fewer than `r.min_sets` sets are measured like the others, and the value is not taken from them. Raises
    MetricError, naming the metric, for a `paired` that is not (sets, groups).
    """
    metric = METRICS[r.metric]
    found = metric.measure(r, cell, answers)
    wanted = (cell.n_sets, max(len(found.groups), 1))
    if found.paired is not None and found.paired.shape != wanted:
        raise MetricError(
            f"the metric '{r.metric}' gives `paired` the shape {found.paired.shape}, where {wanted} is needed.",
            where=r.where or f"probe '{r.probe}'",
            remedy="report it to the package that adds the metric: `paired` is (sets, groups), or (sets, 1)",
        )
    if not found.groups:
        return found
    return over_judged(replace(found, judged=large_enough(found.group_sets, found.blocks, metric.spec, r.min_sets)))


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
    chunks = [[one.draw(counts) for one in measures] for counts in set_count_chunks(n_sets, draws, sets)]
    return [_joined(found) for found in zip(*chunks, strict=True)]


def _joined(chunks: Sequence[Drawn]) -> Drawn:
    groups = [chunk.groups for chunk in chunks if chunk.groups is not None]
    parts = tuple(
        tuple(np.concatenate(queries) for queries in zip(*groupings, strict=True))
        for groupings in zip(*(chunk.parts for chunk in chunks), strict=True)
    )
    return Drawn(np.concatenate([chunk.value for chunk in chunks]), np.concatenate(groups) if groups else None, parts)
