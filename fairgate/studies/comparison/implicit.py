"""Implicit associations by several models: P(positive label) by group, and how far apart the groups are (paper 1)."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from fairgate.formulas import statistics
from fairgate.formulas.metrics import implicit_association
from fairgate.ground.errors import MetricError
from fairgate.metrics import Cell, Floats, percentiles
from fairgate.records import CROSS, ImplicitAudit, ImplicitRow, MetricRow, Refusal
from fairgate.studies.comparison.answers import Answers, AuditData
from fairgate.studies.comparison.classifications import group_effects


def compare_implicit(data: AuditData, name: str, digest: str, positive: str, answers: Answers) -> ImplicitAudit:
    """Every model's mean P(positive label) by every grouping, and group effects as of a classification."""
    effects, refusals = group_effects(data, {"p_positive": {model: answer.value for model, answer in answers.items()}})
    rows: list[ImplicitRow] = []
    spreads: list[MetricRow] = []
    _, cell = next(data.cells())
    for place, grouping in enumerate(data.groupings):
        over = CROSS.join(grouping)
        codes, names = data.index.codes(grouping)
        for model, scores in answers.items():
            try:
                association = implicit_association(
                    scores.value,
                    np.asarray(codes, dtype=np.int64),
                    groups=len(names),
                    sets=data.index.set_id if data.counterfactual else None,
                )
            except MetricError as error:
                what = "implicit association"
                refusals.append(Refusal(what=what, model=model, over=over, reason=error.problem))
                continue
            drawn = _drawn_means(data, name, cell, place, scores.value[cell.rows])
            alpha = data.suite.decision.alpha
            lo, hi = (
                ([None] * len(names),) * 2 if drawn is None else (each.tolist() for each in percentiles(drawn, alpha))
            )
            rows += [
                ImplicitRow(
                    model=model,
                    over=over,
                    group=group,
                    mean=float(association.mean[at]),
                    lo=lo[at],
                    hi=hi[at],
                    within_sets=None if association.within_sets is None else float(association.within_sets[at]),
                    n_images=int(association.counts[at]),
                    n_sets=association.sets,
                )
                for at, group in enumerate(names)
            ]
            spread = _spread(association.mean, drawn, cell.n_sets, alpha)
            spreads.append(
                MetricRow(
                    model=model,
                    metric="highest less lowest",
                    subject=None,
                    over=over,
                    check="",
                    n_sets=cell.n_sets,
                    **spread,
                )
            )
    return ImplicitAudit(
        name=name, digest=digest, positive=positive, groups=rows, spreads=spreads, effects=effects, refusals=refusals
    )


def _drawn_means(data: AuditData, name: str, cell: Cell, place: int, value: Floats) -> Floats | None:
    """Group means of resampled sets (draws, groups), alike for every model; None where a resample lacks a group."""
    groups = len(cell.groups[place])
    code, known = cell.group_codes[place], cell.group_codes[place] >= 0
    at = cell.set_code[known] * groups + code[known]
    shape = cell.n_sets, groups
    sums = np.bincount(at, value[known], minlength=cell.n_sets * groups).reshape(shape)
    images = np.bincount(at, minlength=cell.n_sets * groups).reshape(shape).astype(np.float64)
    draws, random = data.suite.decision.draws, data.random("implicit", name)
    parts = [(counts @ sums, counts @ images) for counts in statistics.set_count_chunks(cell.n_sets, draws, random)]
    total, size = (np.concatenate(part) for part in zip(*parts, strict=True))
    return total / size if (size > 0).all() else None


def _spread(mean: Floats, drawn: Floats | None, n_sets: int, alpha: float) -> dict[str, Any]:
    """The highest mean less the lowest: the largest of all differences of two groups, with its interval as such."""
    value = float(mean.max() - mean.min())
    if drawn is None:
        return {"value": value, "interval": "a resample of the sets lacks a group"}
    first, other = np.array(list(permutations(range(len(mean)), 2))).T
    limits = statistics.extreme_interval(
        mean[first] - mean[other], drawn[:, first] - drawn[:, other], n_sets=n_sets, alpha=alpha
    )
    if isinstance(limits, statistics.Unavailable):
        return {"value": value, "interval": limits.reason}
    how = f"{1 - alpha:.0%}, of the largest difference of two groups"
    return {"value": value, "lo": max(0.0, limits.lo), "hi": limits.hi, "interval": how}
