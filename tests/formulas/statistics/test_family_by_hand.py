"""What a family decides, worked out beside it: limits against p-values, rivals of answers, passes of gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from test_limits_match_scores import (
    DESIGN,
    Floats,
    answers,
    bounded,
    few,
    hidden_beside_many,
    images,
    many,
    of_means,
    resamples,
    rng,
)

from fairgate.formulas.statistics import Design, compare_means, decided
from fairgate.formulas.statistics._limits import limits, mean_evidence
from fairgate.formulas.statistics.answers import chance_given_turned
from fairgate.formulas.statistics.family import Evidence, adjusted
from fairgate.formulas.statistics.paired import PairedComparison


def answers_beside_many() -> Evidence:
    """Few answers of the first group turned, half of the second's."""
    half = np.where(rng(3).random(60) < 0.5, rng(4).choice([-1.0, 1.0], 60), 0.0)
    return of_means(np.stack([few([-1.0] * 4 + [1.0]), half], axis=1))


def bounded_beside_many() -> Evidence:
    return of_means(np.stack([few([-0.25, -0.5, 0.25]), rng(1).uniform(-0.5, 0.5, 60)], axis=1), farthest=1.0)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize(
    "evidence",
    [many, hidden_beside_many, answers, answers_beside_many, bounded, bounded_beside_many, resamples, images],
)
def test_a_bound_just_beyond_a_limit_is_refuted_at_alpha_in_a_single_step_and_one_within_it_is_not(
    evidence: Callable[[], Evidence], alpha: float
) -> None:
    of = evidence()
    ends = limits(of, alpha)
    for side, direction, reach in ((of.over, -1.0, ends.below), (of.under, 1.0, ends.above)):
        for group in range(of.mean.size):

            def p(part: float) -> float:
                bound = float(of.mean[group] + direction * part * reach[group])  # noqa: B023
                return float(adjusted([(of, side, bound)], steps=False)[0][group])  # noqa: B023

            assert p(1.02) <= alpha < p(0.9)


def test_the_p_of_answers_is_its_own_and_the_chance_that_each_rival_reaches_it() -> None:
    """Groups of three comparisons on images of their own, at a margin of 0: rivals of the same comparison count by how
    many of their answers turned, those of the others by the p itself."""
    sizes = ((40, 6, 1), (30, 8, 0), (50, 3, 1)), ((35, 4, 0), (45, 12, 0)), ((40, 5, 1),)
    parts = [of_means(alone(groups)) for groups in sizes]
    p = adjusted([(part, part.under, 0.0) for part in parts])
    z = np.concatenate([part.under.z(0.0) for part in parts])
    assert np.argsort(-z)[:2].tolist() == [4, 1]
    first, second = float(ndtr(-z[4])), float(ndtr(-z[1]))
    assert p[1][1] == pytest.approx(first + 4 * first + chance_given_turned(4, 35, first))
    rivals = [chance_given_turned(lost + won, n, second) for n, lost, won in (sizes[0][0], sizes[0][2])]
    assert p[0][1] == pytest.approx(second + sum(rivals) + 2 * second)
    assert sum(rivals) < 2 * second


def alone(groups: tuple[tuple[int, int, int], ...]) -> Floats:
    """Of every group its images, of which some were lost and some won; each is in no other group."""
    table = np.full((sum(n for n, _, _ in groups), len(groups)), np.nan)
    start = 0
    for at, (n, lost, won) in enumerate(groups):
        table[start : start + n, at] = few([-1.0] * lost + [1.0] * won, n)
        start += n
    return table


def test_a_resampled_rival_of_answers_counts_by_its_resamples_alone() -> None:
    """Of the second group's 70 answers 30 turned, as many lost as won."""
    part = of_means(alone(((40, 6, 1), (70, 15, 15))))
    assert part.under.columns.tolist() == [1]
    z = part.under.z(0.0)
    as_large = int((-part.under.drawn[:, 0] >= z[0]).sum())
    (p,) = adjusted([(part, part.under, 0.0)])
    assert p[0] == pytest.approx((1 + as_large) / 201 / 0.9 + ndtr(-z[0]))


@pytest.mark.parametrize(("draws", "finite"), [(19, False), (20, True)])
def test_the_limit_of_a_resampled_group_has_no_end_if_draws_leave_nothing_of_alpha_to_the_others(
    draws: int, finite: bool
) -> None:
    """One draw of 20 is all of a level of 0.05: alpha, less the reserve."""
    table = np.stack([few([0.3, -0.2, 0.1]), rng(1).gamma(2.0, 0.1, 60)], axis=1)
    of = mean_evidence(table, alpha=0.05 / 0.9, draws=draws, rng=rng())
    assert bool(np.isfinite(limits(of, 0.05 / 0.9).below[1])) == finite


def of_gaps(change: float, level: float) -> PairedComparison:
    """Two groups of 60 sets: the first moved by so much, to be so far from the other."""
    before = np.stack([rng(1).normal(level - change, 0.05, 60), rng(2).normal(0.0, 0.05, 60)], axis=1)
    after = before + np.stack([rng(3).normal(change, 0.05, 60), rng(4).normal(0.0, 0.05, 60)], axis=1)
    return compare_means(after, before, design=DESIGN, rng=rng(), draws=400, gap=True)


@pytest.mark.parametrize("change", [-0.12, -0.1, -0.09])
@pytest.mark.parametrize("level", [-0.12, -0.1, -0.08])
def test_a_gap_passes_by_either_refutation_among_those_of_all_groups_and_fails_by_both(
    change: float, level: float
) -> None:
    comparison = of_gaps(change, level)
    (result,) = decided([comparison])
    assert result.p_not_worse.tolist() == np.min(adjusted(comparison.goods), axis=0).tolist()
    assert result.p_adjusted.tolist() == np.max(adjusted(comparison.harms), axis=0).tolist()
    assert (result.verdict == "fail").tolist() == (result.p_adjusted <= 0.05).tolist()
    assert not (result.clear_alone & (result.verdict != "inconclusive")).any()


@pytest.mark.parametrize("harm", ["lower", "either"])
def test_without_gaps_a_group_passes_if_every_direction_is_refuted_by_itself(harm: str) -> None:
    design = Design(0.1, 0.05, harm)  # type: ignore[arg-type] # parametrized
    for moved in (-0.12, -0.09, 0.0, 0.09, 0.12):
        table = np.stack([rng(5).normal(moved, 0.05, 60), rng(6).normal(-moved, 0.05, 60)], axis=1)
        comparison = compare_means(table, np.zeros((60, 2)), design=design, rng=rng(), draws=400)
        (result,) = decided([comparison])
        assert (
            result.p_not_worse.tolist() == np.max([adjusted([each])[0] for each in comparison.goods], axis=0).tolist()
        )
        assert result.p_adjusted.tolist() == np.min(adjusted(comparison.harms), axis=0).tolist()
        assert not (result.clear_alone & (result.verdict != "inconclusive")).any()
        for end, sign in ((result.lo, -1.0), (result.hi, 1.0)):  # what passes lies within the margin, as its limits do
            inside = (result.verdict == "pass") & ((sign < 0) | (harm == "either"))
            assert (sign * end[inside] <= np.maximum(0.1, sign * result.delta[inside])).all()


def test_means_over_views_get_the_test_of_bounded_numbers_and_the_same_values_pass_at_a_margin_of_0() -> None:
    now, before = few([-0.25, -0.5, 0.25])[:, None], np.zeros((60, 1))
    got = compare_means(now, before, design=DESIGN, rng=rng(), draws=200, farthest=1.0)
    wanted = mean_evidence(now, alpha=0.05, draws=200, rng=rng(), farthest=1.0)
    plain = mean_evidence(now, alpha=0.05, draws=200, rng=rng())
    assert got.evidence.over.z(-0.1).tolist() == wanted.over.z(-0.1).tolist() != plain.over.z(-0.1).tolist()
    same = compare_means(now, now, design=replace(DESIGN, margin=0.0), rng=rng(), draws=200, farthest=1.0)
    (result,) = decided([same])
    assert (result.overall, result.lo.tolist(), result.hi.tolist()) == ("pass", [0.0], [0.0])
