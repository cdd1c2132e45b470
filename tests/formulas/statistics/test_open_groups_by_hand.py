"""What an undecided group is told of more sets and wider margins, and how far a later step moves limits, worked out
beside the comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from fairgate.formulas.statistics import Design, PairedComparison, PairedResult, compare_means, decided
from fairgate.formulas.statistics._limits import SimultaneousLimits, limits

Floats = NDArray[np.float64]
MARGIN, ALPHA, SETS = 0.1, 0.05, 60


def noisy(means: list[float], errors: float | list[float], seed: int = 0) -> Floats:
    """Values (sets, groups) with exactly these means and standard errors."""
    noise = np.random.default_rng(seed).normal(size=(SETS, len(means)))
    noise -= noise.mean(axis=0)
    return np.array(means) + noise / noise.std(axis=0, ddof=1) * np.array(errors) * np.sqrt(SETS)


def of_changes(changes: Floats, harm: Any = "lower", seed: int = 0) -> PairedComparison:
    design, rng = Design(MARGIN, ALPHA, harm), np.random.default_rng(seed)
    return compare_means(changes, np.zeros_like(changes), design=design, rng=rng, draws=600)


def of_gaps(changes: Floats, gaps: Floats) -> PairedComparison:
    design, rng = Design(MARGIN, ALPHA, "lower"), np.random.default_rng(0)
    return compare_means(gaps, gaps - changes, design=design, rng=rng, draws=600, gap=True)


def ends_of(part: PairedComparison) -> list[SimultaneousLimits]:
    return [limits(of, part.design.alpha_each_side) for of in (part.evidence, part.gap) if of is not None]


def settling(ends: SimultaneousLimits) -> Floats:
    """Sets that settle, nine times in ten, on which side of the margin the means are."""
    distance = ends.mean + MARGIN
    reach = np.where(distance < 0, ends.above, ends.below)
    return np.asarray(np.ceil(((reach + 1.28 * ends.error) / distance) ** 2 * ends.n_sets))


def test_a_gap_needs_the_sets_of_both_questions_to_fail_and_those_of_either_one_to_pass() -> None:
    fell, stayed, behind, near = -0.13, -0.05, -0.14, -0.06
    changes = noisy([fell, fell, stayed, stayed, fell, fell, stayed], 0.04)
    errors = [0.03, 0.03, 0.05, 0.05, 0.03, 0.06, 0.03]
    part = of_gaps(changes, noisy([behind, near, behind, near, -0.9, near, behind], errors, seed=1))
    (result,) = decided([part])
    assert (result.verdict == "inconclusive").all()
    assert not result.clear_alone.any()
    change, gap = (settling(ends) for ends in ends_of(part))
    either, both = np.minimum(change, gap), np.maximum(change, gap)
    wanted = [both[0], gap[1], change[2], either[3], both[4], gap[5], change[6]]
    assert result.sets_needed.tolist() == wanted


def passing(part: PairedComparison, open_: NDArray[np.bool_]) -> tuple[int, float]:
    """The first margin at which all open groups pass, of their farthest limit and steps of a tenth, and its step."""
    sides = [ends.below - ends.mean for ends in ends_of(part)]
    if part.design.harm == "either":
        sides = [np.maximum(sides[0], ends.above + ends.mean) for ends in ends_of(part)]
    first = float(np.min(sides, axis=0)[open_].max())
    for step in range(8):
        margin = first * (1 + 1e-9) * 1.1**step
        (result,) = decided([replace(part, design=replace(part.design, margin=margin))])
        if (result.p_not_worse[open_] <= ALPHA).all():
            return step, margin
    raise AssertionError("no margin passes")


def three(kind: str) -> PairedComparison:
    """Two groups that are open, and one that failed."""
    if kind == "gap":
        return of_gaps(noisy([-0.06, -0.08, -0.9], 0.05), noisy([-0.03, -0.02, -0.9], 0.05, seed=1))
    return of_changes(noisy([0.04, -0.03, -0.9], [0.1, 0.05, 0.05]), kind)


@pytest.mark.parametrize(("kind", "step"), [("lower", 0), ("either", 0), ("gap", 1)])
def test_the_margin_named_is_the_first_at_which_all_open_groups_pass(kind: str, step: int) -> None:
    made = three(kind)
    (result,) = decided([made])
    assert result.verdict.tolist() == ["inconclusive", "inconclusive", "fail"]
    taken, margin = passing(made, result.verdict == "inconclusive")
    assert taken == step
    assert result.margin_decided.tolist() == pytest.approx([margin, margin, np.nan], nan_ok=True)


def harmed(kind: str) -> PairedComparison:
    """Two groups that fail by themselves."""
    if kind == "gap":
        return of_gaps(noisy([-0.21, -0.19], 0.036), noisy([-0.22, -0.3], 0.035, seed=1))
    return of_changes(noisy([-0.2, 0.19], 0.033) if kind == "either" else noisy([-0.2, -0.19], 0.036), kind)


@pytest.mark.parametrize("kind", ["lower", "either", "gap"])
def test_every_group_that_fails_alone_needs_the_sets_with_which_it_would_fail_in_its_family(kind: str) -> None:
    made = harmed(kind)
    others = [of_changes(noisy([0.0] * 6, 0.05, seed=seed), seed=seed) for seed in range(2, 8)]
    alone, result = decided([made])[0], decided([made, *others])[0]
    assert alone.verdict.tolist() == ["fail", "fail"]
    assert alone.p_adjusted[0] != alone.p_adjusted[1]
    assert result.verdict.tolist() == ["inconclusive", "inconclusive"]
    assert result.clear_alone.tolist() == [True, True]
    wanted = 1.28 + norm.isf(ALPHA * alone.p_adjusted / result.p_adjusted)
    assert result.sets_needed.tolist() == np.ceil((wanted / norm.isf(alone.p_adjusted)) ** 2 * SETS).tolist()
    assert np.isnan(result.margin_decided).all()


def by_steps(harm: str, errors: float) -> tuple[PairedResult, SimultaneousLimits]:
    """Two groups so far within the margin and two so far beyond it that a later step alone settles them, among twenty
    that are clear."""
    within, beyond = MARGIN - errors * 0.02, MARGIN + errors * 0.02
    part = of_changes(noisy([-within, within, -beyond, beyond, *[-0.9] * 10, *[0.9] * 10], 0.02), harm)
    return decided([part])[0], ends_of(part)[0]


@pytest.mark.parametrize(("mean", "verdict"), [(-0.3, "fail"), (0.08, "pass")])
def test_at_a_level_of_just_its_p_a_group_is_decided_and_its_limit_is_on_the_margin(mean: float, verdict: str) -> None:
    part = of_changes(noisy([mean, 0.5, -0.6], [0.06, 0.1, 0.1]))
    (result,) = decided([part])
    p = (result.p_adjusted if verdict == "fail" else result.p_not_worse)[0]
    at_p, below = (
        decided([replace(part, design=replace(part.design, alpha=level))])[0] for level in (p, np.nextafter(p, 0.0))
    )
    assert (at_p.outcome(0), below.outcome(0)) == (verdict, "inconclusive")
    assert at_p.hi[0] <= -MARGIN or at_p.lo[0] >= -MARGIN


def test_where_either_harms_and_nothing_moved_the_lower_limit_tells_the_sets_needed() -> None:
    """28 sets rose by 0.5 and 14 fell by 1: the limits are not as far on both sides."""
    part = of_changes(np.repeat([0.5, -1.0], [28, 14])[:, None], "either")
    (result,), (ends,) = decided([part]), ends_of(part)
    assert (result.delta[0], result.overall) == (0.0, "inconclusive")
    assert ends.below[0] != ends.above[0]
    assert result.sets_needed.tolist() == settling(ends).tolist()


def test_where_either_harms_what_a_step_settles_has_its_limit_on_the_margin() -> None:
    result, ends = by_steps("either", 3.17)
    assert result.verdict[:4].tolist() == ["pass", "pass", "fail", "fail"]
    low, high = ends.mean - ends.below, ends.mean + ends.above
    assert low[0] < -MARGIN < high[2]  # a single step would not say so
    assert low[3] < MARGIN < high[1]
    assert result.lo.tolist() == [-MARGIN, low[1], low[2], MARGIN, *low[4:]]
    assert result.hi.tolist() == [high[0], MARGIN, -MARGIN, high[3], *high[4:]]


def test_where_lower_is_worse_what_a_step_settles_has_its_limit_on_the_margin_below() -> None:
    result, ends = by_steps("lower", 2.9)
    assert result.verdict[:4].tolist() == ["pass", "pass", "fail", "pass"]
    low, high = ends.mean - ends.below, ends.mean + ends.above
    assert low[0] < -MARGIN < high[2]
    assert result.lo.tolist() == [-MARGIN, *low[1:]]
    assert result.hi.tolist() == [high[0], high[1], -MARGIN, *high[3:]]


def test_a_group_that_passes_by_its_gap_alone_keeps_the_limits_of_its_fall() -> None:
    part = of_gaps(noisy([-0.3, 0.2], 0.02), noisy([0.4, 0.1], 0.02, seed=1))
    (result,) = decided([part])
    assert result.verdict.tolist() == ["pass", "pass"]
    assert result.lo.tolist() == (ends_of(part)[0].mean - ends_of(part)[0].below).tolist()
