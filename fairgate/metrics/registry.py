"""Metrics by name, and a check measured by one. Families register themselves when they are imported; installed
packages add theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fairgate.formulas.statistics import Resamples, set_count_chunks
from fairgate.ground.errors import MetricError
from fairgate.ground.spans import span
from fairgate.metrics.cell import Cell
from fairgate.metrics.contract import REGISTERED, Answers, Drawn, Measure, MetricRequest
from fairgate.metrics.limits import large_enough, over_judged, resampled_means

_ROUND_OFF = 1e-9
_FAMILIES = (
    ("image_means", "fairness", "accuracy", "p_true", "group_gap", "accuracy_gap"),
    ("first_places", "recall_at_k", "accuracy_at_k"),
    ("desired_shares", "max_skew_at_k", "min_skew_at_k"),
    ("skew_within", "marginal_max_skew_at_k"),
    ("desired_shares", "ndkl_at_k", "bias_at_k", "normalized_entropy_at_k"),
    ("associations", "c_asc", "association", "differential_association"),
    ("edits", "flip_rate", "flip_gap", "lightening", "darkening", "unreadable_skin", "reader_accuracy", "edit_success"),
    ("attribute_drift", "attribute_drift"),
    ("detections", "detection_recall", "detection_gap", "false_boxes"),
    ("by_label", "f1", "balanced_accuracy"),
    ("questions", "answer_accuracy", "answered_share", "answer_agreement", "answer_share", "answer_gap"),
    ("questions", "abstention_rate", "abstention_gap", "unreadable_rate", "bias_ambiguous", "bias_disambiguated"),
    ("generated_shares", "perceived_share", "target_distance", "target_skew", "painted_entropy"),
    ("generated_shares", "readable", "subject_shown", "refusal_rate"),
    ("numbers", "mean_number", "right_share", "effect_size", "effect_p", "number_agreement"),
)
"""The module of each family, with its metrics, in the order in which reports and pages list them."""

METRICS = REGISTERED.with_modules(
    {name: f"fairgate.metrics.{family}" for family, *names in _FAMILIES for name in names}
)


def measure(r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
    """Measure a check on its images.

    Groups in fewer than `r.min_sets` sets are measured like the others, and the value is not taken from them. Raises
    MetricError, naming the metric, for NaN, a value that its spec excludes and a `paired` that is not (sets, groups).
    """
    metric = METRICS[r.metric]
    with METRICS.blaming(r.metric):
        measured = metric.measure(r, cell, answers)
    may_lack = metric.spec.gaps or metric.spec.relative  # a group without others has none, which is inconclusive
    if np.isnan(measured.value) and not may_lack:
        raise MetricError(
            f"the metric '{r.metric}' gives no number (NaN).",
            where=r.where or f"probe '{r.probe}'",
            remedy="look at the answers that it reads",
        )
    lowest, highest = metric.spec.lowest, metric.spec.highest
    if np.isfinite(measured.value) and not lowest - _ROUND_OFF <= measured.value <= highest + _ROUND_OFF:
        raise MetricError(
            f"the metric '{r.metric}' gives {measured.value:g}, and its spec says that it lies between {lowest:g} and "
            f"{highest:g}.",
            where=r.where or f"probe '{r.probe}'",
            remedy="report it to the package that adds the metric: `lowest` and `highest` are 0 and 1 by default",
        )
    wanted = (cell.n_sets, max(len(measured.groups), 1))
    if measured.paired is not None and measured.paired.shape != wanted:
        raise MetricError(
            f"the metric '{r.metric}' gives `paired` the shape {measured.paired.shape}, where {wanted} is needed.",
            where=r.where or f"probe '{r.probe}'",
            remedy="report it to the package that adds the metric: `paired` is (sets, groups), or (sets, 1)",
        )
    if not measured.groups:
        return measured
    judged = large_enough(measured.group_sets, measured.blocks, metric.spec, r.min_sets)
    if measured.judged.size:
        judged &= measured.judged
    return over_judged(replace(measured, judged=judged))


def resample(measures: Sequence[Measure], n_sets: int, draws: int, sets: Resamples) -> list[Drawn]:
    """`draws` resamples of each measure's statistic."""
    with span("resample"):
        ways = [_shortcut(each, draws, sets) for each in measures]
        of_sets = [each for each, way in zip(measures, ways, strict=True) if way is None]
        chunks = set_count_chunks(n_sets, draws, sets) if of_sets else ()
        tables = zip(*([each.draw(counts) for each in of_sets] for counts in chunks), strict=True)
        drawn = (_joined(of_measure) for of_measure in tables)
        return [next(drawn) if way is None else way() for way in ways]


def _shortcut(measured: Measure, draws: int, sets: Resamples) -> Callable[[], Drawn] | None:
    """How a measure is resampled without the multiplicities of all sets; None if it has no such way."""
    means, in_blocks, unit = measured.means, measured.in_blocks, sets.unit
    if means is not None:
        return lambda: means.finish(resampled_means(means.sums, draws, sets))
    if in_blocks is not None and unit is not None:
        return lambda: _joined([in_blocks(counts, unit) for counts in sets.of_blocks(draws)])
    return None


def _joined(chunks: Sequence[Drawn]) -> Drawn:
    groups = [chunk.groups for chunk in chunks if chunk.groups is not None]
    parts = tuple(
        tuple(np.concatenate(queries) for queries in zip(*groupings, strict=True))
        for groupings in zip(*(chunk.parts for chunk in chunks), strict=True)
    )
    return Drawn(np.concatenate([chunk.value for chunk in chunks]), np.concatenate(groups) if groups else None, parts)
