"""F_M and accuracy of every model, and every pair compared: Mood's test as in paper 1, and paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from fairgate.comparison.answers import Answers, AuditData
from fairgate.errors import StatisticsError
from fairgate.measures import Cell, Floats
from fairgate.metrics import fairness_of_spreads, set_std
from fairgate.randomness import stream
from fairgate.records import Agreement, Conclusion, FairnessRow, PairRow
from fairgate.statistics import (
    Interval,
    bonferroni,
    median_interval,
    moods_median_test,
    paired_statistic_test,
    paired_test,
    set_count_chunks,
    weighted_median,
)


@dataclass(frozen=True, slots=True)
class _Scope:
    """All models on one subject: spread inside each set and share of right answers in it, both (sets, models).

    `spread` is None where images are no counterfactual sets. `size` (sets,) are the images of each set.
    """

    data: AuditData
    probe: str
    subject: str | None
    models: tuple[str, ...]
    spread: Floats | None
    right: Floats
    size: Floats

    @classmethod
    def of(cls, data: AuditData, probe: str, subject: str | None, cell: Cell, answers: Answers) -> _Scope:
        correct = [np.asarray(one.correct, dtype=np.float64)[cell.rows] for one in answers.values()]
        size = np.bincount(cell.set_code, minlength=cell.n_sets).astype(np.float64)
        right = np.stack([np.bincount(cell.set_code, one, minlength=cell.n_sets) for one in correct], axis=1)
        spread = None
        if data.counterfactual:
            spread = np.stack([set_std(cell.sets_by_members(one.value[cell.rows])) for one in answers.values()], axis=1)
        return cls(data, probe, subject, tuple(answers), spread, right / size[:, None], size)

    def random(self, purpose: str) -> np.random.Generator:
        data = self.data
        return stream(data.seed, "audit", purpose, data.suite, self.probe, self.subject or "")


def compare_fairness(
    data: AuditData, probe: str, answers: Answers, margin: float
) -> tuple[list[FairnessRow], list[PairRow]]:
    """Every model on every subject, and every pair of models on it, each subject a family of its own."""
    rows: list[FairnessRow] = []
    pairs: list[PairRow] = []
    for subject, cell in data.cells():
        scope = _Scope.of(data, probe, subject, cell, answers)
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
    draws = draws_for(scope.data.draws, models * (models - 1) // 2, scope.data.alpha)
    medians: list[Floats] = []
    accuracies: list[Floats] = []
    for counts in set_count_chunks(len(scope.size), draws, scope.random("sets")):
        weight = counts.astype(np.float64)
        accuracies.append((weight @ (scope.right * scope.size[:, None])) / (weight @ scope.size)[:, None])
        if scope.spread is not None:
            medians.append(1.0 - np.stack([weighted_median(one, counts) for one in scope.spread.T], axis=1))
    return np.concatenate(medians) if medians else None, np.concatenate(accuracies)


def _rows(scope: _Scope, accuracies: Floats) -> list[FairnessRow]:
    levels = [scope.data.alpha / 2, 1 - scope.data.alpha / 2]
    accuracy_limits = np.quantile(accuracies, levels, axis=0)
    rows = []
    for at, model in enumerate(scope.models):
        row = FairnessRow(
            model=model,
            subject=scope.subject,
            accuracy=float((scope.right[:, at] @ scope.size) / scope.size.sum()),
            accuracy_lo=float(accuracy_limits[0, at]),
            accuracy_hi=float(accuracy_limits[1, at]),
            n_sets=len(scope.size),
            n_images=int(scope.size.sum()),
        )
        if scope.spread is not None:
            found: dict[str, float] = {"fairness": float(fairness_of_spreads(scope.spread[:, at]))}
            limits = median_interval(scope.spread[:, at], alpha=scope.data.alpha)
            if isinstance(limits, Interval):
                found |= {"lo": 1.0 - limits.hi, "hi": 1.0 - limits.lo}
            row = row.model_copy(update=found)
        rows.append(row)
    return rows


def _pairs(scope: _Scope, medians: Floats | None, margin: float) -> list[PairRow]:
    """Every pair of models; nothing where one set is all there is."""
    places = list(combinations(range(len(scope.models)), 2))
    if not places or len(scope.size) < 2:
        return []
    found: list[dict[str, Any]] = [{} for _ in places]
    _add_means(found, scope, ("accuracy", "p_accuracy"), scope.right, places)
    if scope.spread is not None and medians is not None:
        _add_means(found, scope, ("spread", "p_paired"), scope.spread, places)
        _add_medians(found, scope, medians, places)
        for one in found:
            one["conclusion"] = conclusion(one["spread_lo"], one["spread_hi"], margin)
            one["agreement"] = agreement(one, scope.data.alpha)
    return [
        PairRow(first=scope.models[a], second=scope.models[b], subject=scope.subject, n_sets=len(scope.size), **one)
        for (a, b), one in zip(places, found, strict=True)
    ]


def _add_means(
    found: list[dict[str, Any]], scope: _Scope, keys: tuple[str, str], values: Floats, places: Sequence[tuple[int, int]]
) -> None:
    """The mean difference, set by set, of every pair: one family, with limits that hold for all pairs at once."""
    name, p_name = keys
    first, second = ([place[at] for place in places] for at in (0, 1))
    result = paired_test(
        values[:, second],
        values[:, first],
        margin=0.0,
        alpha=scope.data.alpha,
        rng=scope.random(f"pairs of {name}"),
        draws=scope.data.draws,
        harm="either",
    )
    for at, one in enumerate(found):
        one[f"{name}_delta"], one[p_name] = float(result.delta[at]), float(result.p_adjusted[at])
        one[f"{name}_lo"], one[f"{name}_hi"] = float(result.lo[at]), float(result.hi[at])


def _add_medians(
    found: list[dict[str, Any]], scope: _Scope, medians: Floats, places: Sequence[tuple[int, int]]
) -> None:
    """The difference of F_M between paired limits, and Mood's test, which takes the same spreads as unpaired."""
    assert scope.spread is not None
    fairness = fairness_of_spreads(scope.spread)
    first, second = ([place[at] for place in places] for at in (0, 1))
    result = paired_statistic_test(
        fairness[second] - fairness[first],
        medians[:, second] - medians[:, first],
        n_sets=len(scope.size),
        margin=0.0,
        alpha=scope.data.alpha,
        harm="either",
    )
    mood = [_mood(scope.spread[:, a], scope.spread[:, b]) for a, b in places]
    adjusted = bonferroni([1.0 if p is None else p for p in mood])
    for at, one in enumerate(found):
        one |= {"delta": float(result.delta[at]), "lo": float(result.lo[at]), "hi": float(result.hi[at])}
        one |= {"p_mood": mood[at], "p_mood_adjusted": None if mood[at] is None else float(adjusted[at])}


def _mood(first: Floats, second: Floats) -> float | None:
    """Mood's p, or None where all spreads lie on one side of their median (all equal, say): nothing to compare."""
    try:
        return moods_median_test(first, second).p
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
