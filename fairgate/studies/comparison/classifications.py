"""Classifications by several models: F_M and accuracy, and every pair by Mood's test as in paper 1 and by paired tests;
how far a group's outcome lies from a reference group's, and who is taken for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from fairgate import records
from fairgate.formulas import statistics
from fairgate.formulas.metrics import fairness_of_spreads, set_std
from fairgate.formulas.statistics import ClusterOLS, cluster_ols, holm
from fairgate.ground.errors import StatisticsError
from fairgate.metrics import Cell, Crossing, Floats
from fairgate.studies.comparison.answers import Answers, AuditData, share_limits
from fairgate.suites import wrong_answers


@dataclass(frozen=True, slots=True)
class _Scope:
    """All models on one subject: spread inside each set and share of right answers in it, both (sets, models).

    `spread` is None where images are no counterfactual sets. `size` (sets,) are the images of each set.
    """

    data: AuditData
    place: tuple[str, str]
    subject: str | None
    models: tuple[str, ...]
    spread: Floats | None
    right: Floats
    size: Floats


def compare_fairness(
    data: AuditData, probe: str, answers: Answers, margin: float
) -> tuple[list[records.FairnessRow], list[records.PairRow]]:
    """Every model on every subject, and every pair of models on it, each subject a family of its own."""
    rows: list[records.FairnessRow] = []
    pairs: list[records.PairRow] = []
    for subject, cell in data.cells():
        correct = [np.asarray(of_model.correct, dtype=np.float64)[cell.rows] for of_model in answers.values()]
        size = np.bincount(cell.set_code, minlength=cell.n_sets).astype(np.float64)
        right = np.stack([np.bincount(cell.set_code, of_model, minlength=cell.n_sets) for of_model in correct], axis=1)
        spread = None
        if data.counterfactual:
            spread = np.stack(
                [set_std(cell.sets_by_members(of_model.value[cell.rows])) for of_model in answers.values()], axis=1
            )
        place = probe, subject or ""
        scope = _Scope(data, place, subject, tuple(answers), spread, right / size[:, None], size)
        medians, accuracies = _resampled(scope)
        rows += _rows(scope, accuracies)
        pairs += _pairs(scope, medians, margin)
    return rows, pairs


def draws_for(draws: int, pairs: int, alpha: float) -> int:
    """Draws that can show a Bonferroni share of alpha, twice over."""
    return max(draws, int(np.ceil(4 * max(1, pairs) / alpha)))


def _resampled(scope: _Scope) -> tuple[Floats | None, Floats]:
    """F_M and accuracy (draws, models), every model under the same resampled sets."""
    models = len(scope.models)
    decision = scope.data.suite.decision
    draws = draws_for(decision.draws, models * (models - 1) // 2, decision.alpha)
    medians: list[Floats] = []
    accuracies: list[Floats] = []
    for counts in statistics.set_count_chunks(len(scope.size), draws, scope.data.random("sets", *scope.place)):
        weight = counts.astype(np.float64)
        accuracies.append((weight @ (scope.right * scope.size[:, None])) / (weight @ scope.size)[:, None])
        if scope.spread is not None:
            medians.append(
                1.0 - np.stack([statistics.weighted_median(of_model, counts) for of_model in scope.spread.T], axis=1)
            )
    return np.concatenate(medians) if medians else None, np.concatenate(accuracies)


def _rows(scope: _Scope, accuracies: Floats) -> list[records.FairnessRow]:
    alpha = scope.data.suite.decision.alpha
    accuracy_limits = np.quantile(accuracies, [alpha / 2, 1 - alpha / 2], axis=0)
    rows = []
    for at, model in enumerate(scope.models):
        accuracy = float((scope.right[:, at] @ scope.size) / scope.size.sum())
        lo, hi = map(float, accuracy_limits[:, at])
        lo, hi = share_limits(accuracy, lo, hi, len(scope.size), alpha)
        fairness_limits: dict[str, float] = {}
        if scope.spread is not None:
            fairness_limits["fairness"] = float(fairness_of_spreads(scope.spread[:, at]))
            limits = statistics.median_interval(scope.spread[:, at], alpha=alpha)
            if isinstance(limits, statistics.Interval):
                fairness_limits |= {"lo": 1.0 - limits.hi, "hi": 1.0 - limits.lo}
        rows.append(
            records.FairnessRow(
                model=model,
                subject=scope.subject,
                accuracy=accuracy,
                accuracy_lo=lo,
                accuracy_hi=hi,
                n_sets=len(scope.size),
                n_images=int(scope.size.sum()),
                **fairness_limits,
            )
        )
    return rows


def _pairs(scope: _Scope, medians: Floats | None, margin: float) -> list[records.PairRow]:
    """Every pair of models; nothing where one set is all there is."""
    places = list(combinations(range(len(scope.models)), 2))
    if not places or len(scope.size) < 2:
        return []
    columns = _means(scope, ("accuracy", "p_accuracy"), scope.right, places)
    if scope.spread is not None and medians is not None:
        columns |= _means(scope, ("spread", "p_paired"), scope.spread, places)
        columns |= _medians(scope, scope.spread, medians, places)
    pairs = []
    for at, (a, b) in enumerate(places):
        row: dict[str, Any] = {name: values[at] for name, values in columns.items()}
        if scope.spread is not None:
            row["conclusion"] = conclusion(row["spread_lo"], row["spread_hi"], margin)
            row["agreement"] = agreement(row, scope.data.suite.decision.alpha)
        row |= {"first": scope.models[a], "second": scope.models[b], "subject": scope.subject}
        pairs.append(records.PairRow(n_sets=len(scope.size), **row))
    return pairs


def _means(
    scope: _Scope, keys: tuple[str, str], values: Floats, places: Sequence[tuple[int, int]]
) -> dict[str, list[Any]]:
    """The mean difference, set by set, of every pair: one family, with limits that hold for all pairs at once."""
    name, p_name = keys
    first, second = np.array(places).T
    decision, rng = scope.data.suite.decision, scope.data.random(f"pairs of {name}", *scope.place)
    rule: dict[str, Any] = {"margin": 0.0, "harm": "either", "alpha": decision.alpha, "draws": decision.draws}
    tested = statistics.paired_test(values[:, second], values[:, first], rng=rng, **rule)
    limits = {f"{name}_lo": tested.lo.tolist(), f"{name}_hi": tested.hi.tolist()}
    return {f"{name}_delta": tested.delta.tolist(), p_name: tested.p_adjusted.tolist()} | limits


def _medians(scope: _Scope, spread: Floats, medians: Floats, places: Sequence[tuple[int, int]]) -> dict[str, list[Any]]:
    """The difference of F_M between paired limits, and Mood's test, which takes the same spreads as unpaired."""
    fairness = fairness_of_spreads(spread)
    first, second = np.array(places).T
    tested = statistics.paired_statistic_test(
        fairness[second] - fairness[first],
        medians[:, second] - medians[:, first],
        n_sets=len(scope.size),
        margin=0.0,
        alpha=scope.data.suite.decision.alpha,
        harm="either",
    )
    mood = [_mood(spread[:, a], spread[:, b]) for a, b in places]
    corrected = statistics.bonferroni([1.0 if p is None else p for p in mood]).tolist()
    adjusted = [None if p is None else adjusted_p for p, adjusted_p in zip(mood, corrected, strict=True)]
    limits = {"delta": tested.delta.tolist(), "lo": tested.lo.tolist(), "hi": tested.hi.tolist()}
    return limits | {"p_mood": mood, "p_mood_adjusted": adjusted}


def _mood(first: Floats, second: Floats) -> float | None:
    """Mood's p, or None where all spreads lie on one side of their median (all equal, say): nothing to compare."""
    try:
        return statistics.moods_median_test(first, second).p
    except StatisticsError:
        return None


def conclusion(lo: float, hi: float, margin: float) -> records.Conclusion:
    """Which model treats set-mates more alike: by the limits of the mean change of spread, against the margin."""
    if lo > margin:
        return "first_fairer"
    if hi < -margin:
        return "second_fairer"
    return "alike" if lo >= -margin and hi <= margin else "unsettled"


def agreement(pair: dict[str, Any], alpha: float) -> records.Agreement:
    """Do Mood's test and the paired test say the same, and if not, why?

    `opposite`: medians and means moved against each other, because a median sees nothing of what happens in fewer than
    half of the sets. `pairing`: only the paired test sees it, and the paired limits of F_M see it too: the scenes that
    both models share drowned it for Mood. `few_sets`: only the paired test sees it, and the median did not move.
    `cancels`: the medians differ, also paired, and the mean does not. `independence`: only Mood, which takes the sets
    of both models as independent, sees it.
    """
    mood = pair["p_mood_adjusted"] is not None and pair["p_mood_adjusted"] <= alpha
    paired = pair["p_paired"] <= alpha
    median_moved = pair["lo"] > 0 or pair["hi"] < 0
    if paired and (mood or median_moved) and pair["delta"] * pair["spread_delta"] > 0:
        return "opposite"
    if mood == paired:
        return "agree"
    if paired:
        return "pairing" if median_moved else "few_sets"
    return "cancels" if median_moved else "independence"


def group_effects(
    data: AuditData, values: Mapping[records.Outcome, Mapping[str, Floats]]
) -> tuple[list[records.EffectRow], list[records.Refusal]]:
    """OLS of each outcome (images,) of each model on group, clustered by set, per grouping and subject; p-values are
    adjusted over all models and groups of one outcome and grouping, subjects apart from all.

    What cannot be estimated (a model that is always right has no effects on correctness) is refused with its reason.
    """
    rows: list[records.EffectRow] = []
    refusals: list[records.Refusal] = []
    for subject, cell in data.cells():
        for at, grouping in enumerate(data.groupings):
            reference = records.CROSS.join(data.reference[name] for name in grouping)
            for outcome, of_models in values.items():
                for model, value in of_models.items():
                    place: dict[str, Any] = {"model": model, "subject": subject, "over": records.CROSS.join(grouping)}
                    fit = _fit(value[cell.rows], cell, at, reference, data.suite.decision.alpha)
                    if isinstance(fit, str):
                        what = f"group effects on {records.OUTCOMES[outcome]}"
                        refusals.append(records.Refusal(what=what, reason=fit, **place))
                    else:
                        effects = _effects(fit, counterfactual=data.counterfactual)
                        rows += [records.EffectRow(outcome=outcome, **place, **effect) for effect in effects]
    families: dict[tuple[records.Outcome, str, bool], list[int]] = {}
    for at, row in enumerate(rows):
        families.setdefault((row.outcome, row.over, row.subject is None), []).append(at)
    for family in families.values():
        for at, p in zip(family, holm(np.array([rows[at].p for at in family])).tolist(), strict=True):
            rows[at] = rows[at].model_copy(update={"p_adjusted": p})
    return rows, refusals


def outcomes_of(answers: Answers) -> dict[records.Outcome, dict[str, Floats]]:
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


def taken_for(data: AuditData, answers: Answers, truth: str) -> list[records.TakenFor]:
    """Wrong answers, counted per model, subject and group.

    Attributes are crossed as far as they can be, and each is in a crossing or alone; so is the attribute that
    says what is right, where there is one (`truth`): who is taken for whom is a question about its groups.
    """
    return [
        records.TakenFor(model=model, over=records.CROSS.join(grouping), **taken.model_dump(exclude={"probe"}))
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
