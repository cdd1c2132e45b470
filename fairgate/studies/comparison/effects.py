"""How far each group's outcome lies from a reference group's, who is taken for whom, and implicit
associations: P(positive label) by group and within sets (paper 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fairgate.formulas.metrics import implicit_association
from fairgate.formulas.statistics import ClusterOLS, cluster_ols, holm
from fairgate.ground.errors import MetricError, StatisticsError
from fairgate.metrics import Cell, Crossing, Floats
from fairgate.records import CROSS, OUTCOMES, EffectRow, ImplicitAudit, ImplicitRow, Outcome, Refusal, TakenFor
from fairgate.studies.comparison.answers import Answers, AuditData
from fairgate.suites import wrong_answers


def group_effects(
    data: AuditData, values: Mapping[Outcome, Mapping[str, Floats]]
) -> tuple[list[EffectRow], list[Refusal]]:
    """OLS of each outcome (images,) of each model on group, clustered by set, per grouping and subject; p-values are
    adjusted over all models and groups of one outcome and grouping, subjects apart from all.

    What cannot be estimated (a model that is always right has no effects on correctness) is refused with its reason.
    """
    rows: list[EffectRow] = []
    refusals: list[Refusal] = []
    for subject, cell in data.cells():
        for at, grouping in enumerate(data.groupings):
            reference = CROSS.join(data.reference[name] for name in grouping)
            for outcome, of_models in values.items():
                for model, value in of_models.items():
                    place: dict[str, Any] = {"model": model, "subject": subject, "over": CROSS.join(grouping)}
                    fit = _fit(value[cell.rows], cell, at, reference, data.suite.decision.alpha)
                    if isinstance(fit, str):
                        what = f"group effects on {OUTCOMES[outcome]}"
                        refusals.append(Refusal(what=what, reason=fit, **place))
                    else:
                        effects = _effects(fit, counterfactual=data.counterfactual)
                        rows += [EffectRow(outcome=outcome, **place, **effect) for effect in effects]
    families: dict[tuple[Outcome, str, bool], list[int]] = {}
    for at, row in enumerate(rows):
        families.setdefault((row.outcome, row.over, row.subject is None), []).append(at)
    for family in families.values():
        for at, p in zip(family, holm(np.array([rows[at].p for at in family])).tolist(), strict=True):
            rows[at] = rows[at].model_copy(update={"p_adjusted": p})
    return rows, refusals


def outcomes_of(answers: Answers) -> dict[Outcome, dict[str, Floats]]:
    """What a classification is judged by: whether an image was named rightly, and P(true label)."""
    return {
        "correct": {model: np.asarray(scores.correct, dtype=np.float64) for model, scores in answers.items()},
        "p_true": {model: scores.value for model, scores in answers.items()},
    }


def _fit(outcome: Floats, cell: Cell, at: int, reference: str, alpha: float) -> ClusterOLS | str:
    """The regression, or in a sentence why there is none."""
    if np.ptp(outcome) == 0:
        return f"every image has the same outcome, {outcome[0]:g}, and there is no difference to explain"
    names, code = np.array(cell.groups[at], dtype=object), cell.group_codes[at]
    present = [name for group, name in enumerate(cell.groups[at]) if (code == group).any()]
    try:
        return cluster_ols(outcome, names[code], cell.set_code, reference=reference, groups=present, alpha=alpha)
    except StatisticsError as error:
        return error.problem


def _effects(ols: ClusterOLS, *, counterfactual: bool) -> Iterator[dict[str, Any]]:
    """Every group's effect. Where every set shows exactly the same difference there is no spread to take an error from,
    and p is that of a sign test over the sets: n sets that all differ alike have 2^(1-n); no difference, or images
    that are no sets, is no evidence."""
    signs = 2.0 ** (1 - ols.clusters) if counterfactual else 1.0
    for group, name in enumerate(ols.names[1:], start=1):
        still, effect = bool(np.isnan(ols.p[group])), float(ols.coefficient[group])
        p = (1.0 if effect == 0 else signs) if still else float(ols.p[group])
        yield {
            "reference": ols.names[0],
            "reference_mean": float(ols.coefficient[0]),
            "group": name,
            "effect": effect,
            "lo": None if still else float(ols.lo[group]),
            "hi": None if still else float(ols.hi[group]),
            "p": p,
            "p_adjusted": p,
            "n_sets": ols.clusters,
            "n_images": int(ols.n_per_group[group]),
        }


def taken_for(data: AuditData, answers: Answers, truth: str) -> list[TakenFor]:
    """Wrong answers, counted per model, subject and group.

    Attributes are crossed as far as they can be, and each is in a crossing or alone; so is the attribute that
    says what is right, where there is one (`truth`): who is taken for whom is a question about its groups.
    """
    return [
        TakenFor(model=model, over=CROSS.join(grouping), **taken.model_dump(exclude={"probe"}))
        for grouping in finest(data.groupings, None if truth == "subject" else truth)
        for model, scores in answers.items()
        for taken in wrong_answers("", data.index, scores, grouping)
    ]


def finest(groupings: Sequence[Crossing], truth: str | None) -> list[Crossing]:
    """The groupings that no other one crosses further, and that of the truth where none of them has it.

    >>> finest([("gender",), ("age",), ("race",), ("gender", "race")], "gender")
    [('gender', 'race'), ('age',)]
    """
    maximal = [grouping for grouping in groupings if not any(set(grouping) < set(other) for other in groupings)]
    if truth is not None and not any(truth in grouping for grouping in maximal):
        maximal.append((truth,))
    return sorted(maximal, key=lambda grouping: (truth not in grouping, -len(grouping)))


def compare_implicit(data: AuditData, name: str, digest: str, positive: str, answers: Answers) -> ImplicitAudit:
    """Every model's mean P(positive label) by every grouping, and group effects as of a classification."""
    effects, refusals = group_effects(data, {"p_positive": {model: one.value for model, one in answers.items()}})
    rows: list[ImplicitRow] = []
    for grouping in data.groupings:
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
            rows += [
                ImplicitRow(
                    model=model,
                    over=over,
                    group=group,
                    mean=float(association.mean[at]),
                    within_sets=None if association.within_sets is None else float(association.within_sets[at]),
                    n_images=int(association.counts[at]),
                    n_sets=association.sets,
                )
                for at, group in enumerate(names)
            ]
    return ImplicitAudit(name=name, digest=digest, positive=positive, groups=rows, effects=effects, refusals=refusals)
