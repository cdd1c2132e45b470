"""Limits and p-values of paired means, worked out once more, step by step and group by group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, binom
from scipy.stats import t as student

from fairgate.randomness import stream
from fairgate.statistics import PairedResult, paired_test, set_counts

DRAWS = 400


@dataclass
class Group:
    """One group's differences, what is known of it, and its t in every resample."""

    values: np.ndarray
    drawn: np.ndarray

    def __post_init__(self) -> None:
        self.n = self.values.size
        self.mean, self.error = self.values.mean(), self.values.std(ddof=1) / np.sqrt(self.n)
        kinds, often = np.unique(self.values, return_counts=True)
        self.departing = self.n - often.max()
        self.largest = np.abs(kinds - kinds[often.argmax()]).max()
        self.sparse = self.departing < 8 and self.departing < self.n - 1


def groups_of(difference: np.ndarray) -> list[Group]:
    counts = set_counts(len(difference), DRAWS, stream(1, "draws"))
    found = []
    for column in difference.T:
        held = ~np.isnan(column)
        values, times = column[held], counts[:, held]
        size = times.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = times @ (values - values.mean()) / size
            square = times @ (values - values.mean()) ** 2 / size - mean**2
            found.append(Group(values, mean / np.sqrt(np.maximum(square, 0.0) / (size - 1))))
    return found


@dataclass
class ByHand:
    lo: np.ndarray
    hi: np.ndarray
    p_worse: np.ndarray
    p_not_worse: np.ndarray


def by_hand(difference: np.ndarray, margin: float, alpha: float) -> ByHand:
    groups = groups_of(difference)
    dense = [group for group in groups if not group.sparse]
    part, largest = len(dense) / len(groups), max(group.largest for group in groups)
    t = np.stack([group.drawn for group in dense], axis=1) if dense else np.zeros((DRAWS, 0))
    lost = np.isnan(t).any(axis=1)
    high, low = (np.sort(np.where(lost, np.inf, side.max(axis=1, initial=-np.inf))) for side in (t, -t))

    def reach(group: Group, extremes: np.ndarray) -> float:
        if 2.0 ** (1 - group.n) > alpha and (group.mean or group.error):
            return math.inf
        if group.sparse:
            share = beta.ppf(1 - alpha / len(groups) / 2, group.departing + 1, group.n - group.departing)
            return float((share - group.departing / group.n) * largest)
        beyond = math.floor(alpha * part / 2 * (DRAWS + 1) + 1e-9) - 1
        return float(max(extremes[DRAWS - 1 - beyond], student.ppf(1 - alpha / 2, group.n - 1)) * group.error)

    def p(group: Group, distance: float, extremes: np.ndarray) -> float:
        if 2.0 ** (1 - group.n) > alpha and (group.mean or group.error):
            return 1.0
        if group.sparse:
            rate = group.departing / group.n + (distance / largest if largest else math.inf)
            found = 2 * len(groups) * binom.cdf(group.departing, group.n, min(rate, 1.0)) if distance > 0 else 1.0
        else:
            stat = distance / group.error
            drawn = 2 * (1 + (extremes >= stat).sum()) / (DRAWS + 1) / part
            found = max(drawn, 2 * student.sf(stat, group.n - 1)) if stat > 0 else 1.0
        return float(min(max(found, 2.0 ** (1 - group.n)), 1.0))

    return ByHand(
        lo=np.array([group.mean - reach(group, high) for group in groups]),
        hi=np.array([group.mean + reach(group, low) for group in groups]),
        p_worse=np.array([p(group, -margin - group.mean, low) for group in groups]),
        p_not_worse=np.array([p(group, group.mean + margin, high) for group in groups]),
    )


def skewed(sets: int, shift: float = 0.0) -> np.ndarray:
    return stream(0, "skewed", sets).exponential(0.1, (sets, 3)) * [1.0, 2.0, 0.5] + shift


def gaps() -> np.ndarray:
    found = skewed(60, -0.15)
    found[20:, 1] = np.nan
    found[:25, 2] = np.nan
    return found


def answers(sets: int, *departing: int) -> np.ndarray:
    """Right-or-wrong answers of as many groups, of which so many changed, and a group of scores."""
    changed = [np.where(np.arange(sets) < many, -1.0, 0.0) for many in departing]
    return np.stack([*changed, stream(0, "scores").exponential(0.3, sets) - 0.35], axis=1)


CASES = {
    "skewed": skewed(40),
    "skewed below": skewed(40, -0.25),
    "gaps": gaps(),
    "a sparse group": answers(50, 3),
    "sparse groups, and one that is not any more": answers(50, 0, 7, 8),
    "answers alone": answers(50, 1, 5)[:, :2],
    "few sets": answers(9, 1, 6, 7, 8),
    "six sets": skewed(6, -0.3),
    "five sets": np.concatenate([skewed(5), np.zeros((5, 1))], axis=1),
    "one flat group": stream(0, "flat").uniform(-0.1, 0.08, (12, 1)),
    "flat groups": stream(1, "flat").uniform(-0.1, 0.05, (30, 2)),
    "all but one by the same": np.append(np.full(9, -0.5), -0.4)[:, None],
    "all by the same": np.full((10, 1), -0.1),
    "a group in five sets": np.where(np.arange(30)[:, None] < [30, 5, 6], skewed(30, -0.2), np.nan),
}


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("name", CASES)
def test_limits_and_p_values_are_those_worked_out_by_hand(name: str, alpha: float) -> None:
    difference = CASES[name]
    base = np.where(np.isnan(difference), np.nan, 0.0)
    for margin in (0.0, 0.01, 0.05, 0.3):
        options = {"margin": margin, "alpha": alpha, "draws": DRAWS}
        result = paired_test(difference, base, rng=stream(1, "draws"), **options)
        agree(result, by_hand(difference, margin, alpha))
        np.testing.assert_array_equal(result.sets_needed, needed(difference, result, margin))
        mirrored = paired_test(-difference, base, rng=stream(1, "draws"), harm="higher", **options)
        np.testing.assert_allclose(-mirrored.hi, result.lo)
        np.testing.assert_allclose(mirrored.p_adjusted, result.p_adjusted)


def test_weak_evidence_has_a_p_value_under_one() -> None:
    difference = stream(0, "flat").uniform(-0.3, 0.1, (12, 1))
    margin = float(-difference.mean() - 0.5 * difference.std(ddof=1) / np.sqrt(12))  # half an error beyond it
    result = paired_test(difference, np.zeros((12, 1)), margin=margin, rng=stream(1, "draws"), draws=DRAWS)
    agree(result, by_hand(difference, margin, 0.05))
    assert 0.5 < result.p < 0.8


def needed(difference: np.ndarray, result: PairedResult | PairedSides, margin: float) -> np.ndarray:
    """Sets that settle on which side of the margin each inconclusive group's estimate stands."""
    answers_ = []
    for group, column in enumerate(difference.T):
        values = column[~np.isnan(column)]
        distance = result.delta[group] + margin
        side = result.delta[group] - result.lo[group] if distance > 0 else result.hi[group] - result.delta[group]
        with np.errstate(divide="ignore", invalid="ignore"):
            sets = np.ceil(((side + 1.28 * values.std(ddof=1) / np.sqrt(values.size)) / distance) ** 2 * values.size)
        answers_.append(sets if sets <= 1000 * values.size else np.inf)
    return np.where(result.verdict == "inconclusive", answers_, np.nan)


def test_means_are_exactly_the_value_that_all_sets_share() -> None:
    for sets in (3, 6, 7, 10, 13):
        for value in (0.1, -0.1, 0.7, 1.1):
            difference = np.stack([np.full(sets, value), stream(0, "other").normal(size=sets)], axis=1)
            result = paired_test(difference, np.zeros((sets, 2)), margin=0.1, rng=stream(0), draws=200)
            assert result.delta[0] == value


def test_signs_that_just_reach_the_level_may_speak() -> None:
    result = paired_test([0.1, 0.2, 0.4], np.zeros(3), margin=0.1, alpha=0.25, rng=stream(0), draws=200)
    assert np.isfinite(result.lo).all()
    silent = paired_test([0.1, 0.2, 0.4], np.zeros(3), margin=0.1, alpha=0.24, rng=stream(0), draws=200)
    assert np.isinf(silent.lo).all()


def test_zeros_have_no_sign_and_the_method_is_said() -> None:
    for harm in ("lower", "higher", "either"):
        result = paired_test(np.ones(9), np.ones(9), margin=0.0, rng=stream(0), harm=harm)
        assert not np.signbit(result.delta).any()
        assert (result.method, result.draws) == ("max-t bootstrap", 4000)


def test_where_either_harms_the_nearer_margin_says_how_many_sets_are_needed() -> None:
    for shift, margin in product((-0.2, -0.1, 0.0, 0.1), (0.15, 0.02)):
        difference = skewed(40, shift)
        result = paired_test(difference, np.zeros((40, 3)), margin=margin, rng=stream(1), harm="either", draws=DRAWS)
        below = needed(difference, result, margin)
        swapped = PairedSides(-result.delta, -result.hi, -result.lo, result.verdict)
        above = needed(-difference, swapped, margin)
        nearer = np.abs(margin - result.delta) < np.abs(result.delta + margin)
        np.testing.assert_array_equal(result.sets_needed, np.where(nearer, above, below))


@dataclass
class PairedSides:
    """A result looked at from the other side."""

    delta: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    verdict: np.ndarray


def agree(result: PairedResult, expected: ByHand) -> None:
    np.testing.assert_allclose(result.lo, expected.lo)
    np.testing.assert_allclose(result.hi, expected.hi)
    np.testing.assert_allclose(result.p_adjusted, expected.p_worse)
    np.testing.assert_allclose(result.p_not_worse, expected.p_not_worse)
