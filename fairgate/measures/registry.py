"""Metrics by name. Families register themselves when they are imported; installed packages add theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fairgate.errors import MetricError
from fairgate.measures.cell import Cell
from fairgate.measures.contract import Answers, Measure, Metric, MetricRequest
from fairgate.measures.parts import large_enough, over_judged
from fairgate.plugins import Registry
from fairgate.records import name_and_k

_FAMILIES = {
    "fairness": "set_spread",
    "accuracy": "image_means",
    "p_true": "image_means",
    "group_gap": "group_gap",
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
            remedy="tell the package that adds the metric: `paired` is (sets, groups), or (sets, 1) without groups",
        )
    if not found.groups:
        return found
    return over_judged(replace(found, judged=large_enough(found.group_sets, found.blocks, metric.spec, r.min_sets)))
