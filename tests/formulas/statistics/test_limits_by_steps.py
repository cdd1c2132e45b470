"""Limits and p-values of paired means, worked out once more, step by step and group by group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, binom, norm, skew

from fairgate.formulas.statistics import PairedResult, paired_test, set_counts
from fairgate.formulas.statistics.answers import least_lost, p_lost_less, p_lost_more
from fairgate.ground.randomness import stream

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


def wallace(t: float | np.ndarray, freedom: float) -> np.ndarray:
    """Student's t as a normal score."""
    size = np.sqrt(freedom * np.log(1 + np.square(t) / freedom))
    return np.asarray(np.sign(t) * (8 * freedom + 1) / (8 * freedom + 3) * size)


class Side:
    """One direction of a family, by hand: 1 where truths may lie over a bound, -1 where under it."""

    def __init__(self, groups: list[Group], alpha: float, direction: int) -> None:
        self.groups, self.alpha, self.direction = groups, alpha, direction
        self.largest = max(group.largest for group in groups)
        together = np.concatenate([group.values for group in groups])
        self.answers = bool(np.isin(together, [-1, 0, 1]).all() and np.ptp(together) > 0)
        self.sparse = [group.departing < 24 if self.answers else group.sparse for group in groups]

    def judged(self, at: int) -> bool:
        group = self.groups[at]
        seen = self.sparse[at] or np.isnan(group.drawn).mean() <= 0.005
        return seen and (2.0 ** (1 - group.n) <= self.alpha or not (group.mean or group.error))

    def stretch(self, at: int) -> float:
        """Large values on the other side lengthen the tail."""
        skewness = float(skew(self.groups[at].values))
        return 1 + 2 * max(-self.direction * skewness, 0.0) ** 2 / self.groups[at].n

    def score(self, at: int, bound: float) -> float:
        group = self.groups[at]
        distance = self.direction * (group.mean - bound)
        if not self.sparse[at]:
            return float(wallace(distance / group.error / self.stretch(at), group.n - 1))
        if self.answers:
            lost, won = int((group.values < 0).sum()), int((group.values > 0).sum())
            test = p_lost_more if self.direction < 0 else p_lost_less
            return float(norm.isf(test(lost, won, group.n, -bound)))
        rate = group.departing / group.n + (distance / self.largest if self.largest else math.inf)
        return float(norm.isf(binom.cdf(group.departing, group.n, min(rate, 1.0)))) if distance > 0 else -math.inf

    def p(self, z: float, members: list[int], *, exact: bool = False) -> float:
        """Of a score in a family of so many groups. The reserve is for all but exact tests of answers."""
        drawn = [
            wallace(self.direction * self.groups[at].drawn, self.groups[at].n - 1)
            for at in members
            if not self.sparse[at]
        ]
        extremes = np.max([np.where(np.isnan(one), np.inf, one) for one in drawn], axis=0) if drawn else None
        joint = 0.0 if extremes is None else (1 + (extremes >= z).sum()) / (DRAWS + 1) / 0.9
        alone = norm.sf(z)
        others = sum(self.sparse[at] for at in members) * alone / (1 if self.answers else 0.9)
        return float(max(joint + others, 0 if exact else alone / 0.9))

    def adjusted(self, bound: float) -> np.ndarray:
        """Step by step: each among those that are no clearer, and no p below that of one that is clearer."""
        members = [at for at in range(len(self.groups)) if self.judged(at)]
        score = {at: min(max(self.score(at, bound), -37.0), 37.0) for at in members}
        raw = {}
        for at in members:
            weaker = [other for other in members if score[other] <= score[at]]
            raw[at] = self.p(score[at], weaker, exact=self.answers and self.sparse[at])
        found = np.ones(len(self.groups))
        for at in members:
            steps = max(raw[other] for other in members if score[other] >= score[at])
            found[at] = min(max(steps, 2.0 ** (1 - self.groups[at].n)), 1.0)
        return found

    def critical(self) -> float:
        """Where the p of a single step falls to alpha."""
        members = [at for at in range(len(self.groups)) if self.judged(at)]
        exact = self.answers and all(self.sparse[at] for at in members)
        low, high = -5.0, 37.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if self.p(middle, members, exact=exact) <= self.alpha else (middle, high)
        return high

    def reach(self, at: int) -> float:
        group = self.groups[at]
        if not self.judged(at):
            return math.inf
        z = self.critical()
        if not self.sparse[at]:
            scale = (8 * (group.n - 1) + 1) / (8 * (group.n - 1) + 3)
            t = np.sqrt((group.n - 1) * np.expm1((z / scale) ** 2 / (group.n - 1)))
            return float(t * group.error * self.stretch(at))
        if self.answers:
            lost, won = int((group.values < 0).sum()), int((group.values > 0).sum())
            level = norm.sf(math.ceil(z * 50) / 50)
            if self.direction < 0:
                return (lost - won) / group.n - least_lost(lost, won, group.n, level)
            return (won - lost) / group.n - least_lost(won, lost, group.n, level)
        share = beta.ppf(1 - norm.sf(z), group.departing + 1, group.n - group.departing)
        return float((share - group.departing / group.n) * self.largest)


def by_hand(difference: np.ndarray, margin: float, alpha: float) -> ByHand:
    groups = groups_of(difference)
    over, under = Side(groups, alpha, 1), Side(groups, alpha, -1)
    p_worse, p_not_worse = under.adjusted(-margin), over.adjusted(-margin)
    lo = np.array([group.mean - over.reach(at) for at, group in enumerate(groups)])
    hi = np.array([group.mean + under.reach(at) for at, group in enumerate(groups)])
    # What a later step settles lies beyond the margin.
    lo = np.where((p_not_worse <= alpha) & (p_worse > alpha), np.maximum(lo, -margin), lo)
    hi = np.where(p_worse <= alpha, np.minimum(hi, -margin), hi)
    return ByHand(lo, hi, p_worse, p_not_worse)


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
    "many answers beside few": answers(60, 31, 7, 27)[:, :3],
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
    assert 0.25 < result.p < 0.5


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
    values = [0.1, 0.2, 0.4, 0.3, 0.5]
    result = paired_test(values, np.zeros(5), margin=0.1, alpha=0.0625, rng=stream(0), draws=200)
    assert np.isfinite(result.lo).all()
    silent = paired_test(values, np.zeros(5), margin=0.1, alpha=0.0624, rng=stream(0), draws=200)
    assert np.isinf(silent.lo).all()


def test_a_group_that_resamples_lose_is_not_judged_and_hides_nothing_of_the_others() -> None:
    sets = np.arange(300)
    difference = stream(0, "lost").normal(-0.1, 0.05, (300, 2))
    difference[sets >= 6, 1] = np.nan  # six of 300 sets: one resample in 60 has fewer than two of them
    alone = paired_test(difference[:, 0], np.zeros(300), margin=0.05, rng=stream(1), draws=DRAWS)
    both = paired_test(difference, np.where(np.isnan(difference), np.nan, 0.0), margin=0.05, rng=stream(1), draws=DRAWS)
    assert both.verdict.tolist() == ["fail", "inconclusive"]
    assert both.p_adjusted[0] == alone.p_adjusted[0]
    assert [both.lo[0], both.hi[0]] == pytest.approx([alone.lo[0], alone.hi[0]])
    assert (both.lo[1], both.hi[1], both.p_adjusted[1]) == (-np.inf, np.inf, 1.0)


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
        wanted = np.where(nearer, above, below)
        np.testing.assert_array_equal(result.sets_needed[~result.clear_alone], wanted[~result.clear_alone])


@dataclass
class PairedSides:
    """A result looked at from the other side."""

    delta: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    verdict: np.ndarray


def agree(result: PairedResult, expected: ByHand) -> None:
    np.testing.assert_allclose(result.lo, expected.lo, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(result.hi, expected.hi, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(result.p_adjusted, expected.p_worse)
    np.testing.assert_allclose(result.p_not_worse, expected.p_not_worse)
