"""F_M and accuracy of every model, and every pair compared: Mood's test as in paper 1, and paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from fairgate.formulas import statistics
from fairgate.formulas.metrics import fairness_of_spreads, set_std
from fairgate.ground.errors import StatisticsError
from fairgate.metrics import Floats
from fairgate.records import Agreement, Conclusion, FairnessRow, PairRow
from fairgate.studies.comparison.answers import Answers, AuditData


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
) -> tuple[list[FairnessRow], list[PairRow]]:
    """Every model on every subject, and every pair of models on it, each subject a family of its own."""
    rows: list[FairnessRow] = []
    pairs: list[PairRow] = []
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


def _rows(scope: _Scope, accuracies: Floats) -> list[FairnessRow]:
    alpha = scope.data.suite.decision.alpha
    accuracy_limits = np.quantile(accuracies, [alpha / 2, 1 - alpha / 2], axis=0)
    rows = []
    for at, model in enumerate(scope.models):
        fairness_limits: dict[str, float] = {}
        if scope.spread is not None:
            fairness_limits["fairness"] = float(fairness_of_spreads(scope.spread[:, at]))
            limits = statistics.median_interval(scope.spread[:, at], alpha=alpha)
            if isinstance(limits, statistics.Interval):
                fairness_limits |= {"lo": 1.0 - limits.hi, "hi": 1.0 - limits.lo}
        rows.append(
            FairnessRow(
                model=model,
                subject=scope.subject,
                accuracy=float((scope.right[:, at] @ scope.size) / scope.size.sum()),
                accuracy_lo=float(accuracy_limits[0, at]),
                accuracy_hi=float(accuracy_limits[1, at]),
                n_sets=len(scope.size),
                n_images=int(scope.size.sum()),
                **fairness_limits,
            )
        )
    return rows


def _pairs(scope: _Scope, medians: Floats | None, margin: float) -> list[PairRow]:
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
        pairs.append(PairRow(n_sets=len(scope.size), **row))
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


def conclusion(lo: float, hi: float, margin: float) -> Conclusion:
    """Which model treats set-mates more alike: by the limits of the mean change of spread, against the margin."""
    if lo > margin:
        return "first_fairer"
    if hi < -margin:
        return "second_fairer"
    return "alike" if lo >= -margin and hi <= margin else "unsettled"


def agreement(pair: dict[str, Any], alpha: float) -> Agreement:
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
