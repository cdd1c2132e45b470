"""One family of all comparisons: what a step-down over shared resamples must hold, whatever is compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.statistics import Design, PairedComparison, Resamples, holm, paired_test
from fairgate.formulas.statistics.family import tail
from fairgate.formulas.statistics.paired import compare_draws, compare_means, decided
from fairgate.ground.randomness import stream

DRAWS = 600
DESIGN = Design(0.02, 0.05, "lower")
SETS = Resamples(80, DRAWS, stream(0, "sets"))


def noise(seed: int, groups: int = 3, *, shift: float = 0.0, sets: int = 80) -> np.ndarray:
    return stream(seed, "noise").normal(shift, 0.1, (sets, groups))


def comparison(difference: np.ndarray) -> PairedComparison:
    return compare_means(difference, np.zeros_like(difference), design=DESIGN, rng=SETS, draws=DRAWS)


def answers(lost: int, sets: int = 80) -> PairedComparison:
    difference = np.where(np.arange(sets) < lost, -1.0, 0.0)[:, None]
    return compare_means(difference, np.zeros_like(difference), design=DESIGN, rng=SETS, draws=DRAWS)


def p_of(parts: list[PairedComparison], *, steps: bool = True) -> list[np.ndarray]:
    return [one.p_adjusted for one in decided(parts, steps=steps)]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 500), shift=st.floats(-0.12, 0.05), more=st.floats(-0.2, 0.1), lost=st.integers(0, 12))
def test_a_further_hypothesis_never_sharpens_the_others(seed: int, shift: float, more: float, lost: int) -> None:
    first = comparison(noise(seed, shift=shift))
    alone = p_of([first])[0]
    for other in (comparison(noise(seed + 1, 2, shift=more)), answers(lost)):
        assert (p_of([first, other])[0] >= alone - 1e-12).all()


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 500), shift=st.floats(-0.12, 0.05))
def test_the_order_of_groups_and_of_comparisons_does_not_matter(seed: int, shift: float) -> None:
    one, other, third = noise(seed, shift=shift), noise(seed + 1, 2, shift=shift), answers(6)
    straight = p_of([comparison(one), comparison(other), third])
    turned = p_of([third, comparison(other[:, ::-1]), comparison(one[:, [2, 0, 1]])])
    np.testing.assert_allclose(turned[2], straight[0][[2, 0, 1]])
    np.testing.assert_allclose(turned[1], straight[1][::-1])
    np.testing.assert_allclose(turned[0], straight[2])


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 500), shift=st.floats(-0.12, 0.05))
def test_steps_are_never_less_sharp_than_a_single_step_and_both_agree_on_the_clearest(seed: int, shift: float) -> None:
    parts = [comparison(noise(seed, shift=shift)), comparison(noise(seed + 1, 2)), answers(5)]
    stepped, single = np.concatenate(p_of(parts)), np.concatenate(p_of(parts, steps=False))
    assert (stepped <= single + 1e-12).all()
    assert stepped.min() == pytest.approx(single.min())


def test_what_fails_first_makes_room_for_what_comes_next() -> None:
    found = noise(3, 14)
    found -= found.mean(axis=0) - np.array([-0.2] * 13 + [-0.0435])
    result = decided([comparison(found)])[0]
    single = decided([comparison(found)], steps=False)[0]
    assert result.verdict.tolist() == ["fail"] * 14
    assert single.verdict.tolist() == ["fail"] * 13 + ["inconclusive"]
    assert result.hi[13] == -0.02  # the margin, beyond which the step has shown it to lie


def test_a_comparison_that_says_the_same_costs_nothing() -> None:
    first = noise(4, shift=-0.05)
    alone = p_of([comparison(first)])[0]
    twice = p_of([comparison(first), comparison(3 * first + 2 * 0.02)])  # the same t at the margin, in another unit
    np.testing.assert_allclose(twice[0], alone)
    np.testing.assert_allclose(twice[1], alone)


def test_families_without_resamples_are_corrected_as_holm_does() -> None:
    parts = [answers(lost) for lost in (2, 5, 7, 9)]
    alone = np.array([p[0] for part in parts for p in p_of([part])])
    np.testing.assert_allclose(np.concatenate(p_of(parts)), holm(np.minimum(alone, 1.0)), rtol=1e-9)


def test_independent_comparisons_are_corrected_like_sidak() -> None:
    parts = []
    for seed in range(10):
        sets = Resamples(80, 4000, stream(seed, "own sets"))
        difference = noise(seed, 1)
        difference -= difference.mean() + 0.02 + 2.9 * difference.std(ddof=1) / np.sqrt(80)
        parts.append(compare_means(difference, np.zeros_like(difference), design=DESIGN, rng=sets, draws=4000))
    p = np.concatenate(p_of(parts))
    alone = 0.0024  # of t = 2.9 with 79 degrees of freedom
    assert p.max() == pytest.approx((1 - (1 - alone) ** 10) / 0.9, rel=0.35)


def test_the_same_checkpoint_has_exactly_no_difference_and_passes_beside_anything() -> None:
    still, failing = np.zeros((80, 3)), noise(5, shift=-0.3)
    result, other = decided([comparison(still), comparison(failing)])
    assert not result.delta.any()
    assert not result.lo.any()
    assert not result.hi.any()
    assert result.overall == "pass"
    assert other.overall == "fail"


def test_statistics_that_are_no_means_are_in_the_family() -> None:
    drawn = stream(6, "drawn").normal(0.0, 0.02, DRAWS)
    statistic = compare_draws(-0.075, drawn - 0.075, n_sets=80, design=DESIGN)
    alone = p_of([statistic])[0]
    among = p_of([statistic, *(comparison(noise(seed)) for seed in range(4))])[0]
    assert alone[0] <= 0.05
    assert 4 * alone[0] < among[0]


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 200), shift=st.floats(-0.1, 0.05))
def test_a_family_of_one_comparison_is_the_paired_test(seed: int, shift: float) -> None:
    difference = noise(seed, shift=shift)
    one = decided([comparison(difference)])[0]
    same = paired_test(difference, np.zeros_like(difference), margin=0.02, rng=SETS, draws=DRAWS)
    np.testing.assert_array_equal(one.p_adjusted, same.p_adjusted)
    np.testing.assert_array_equal(one.verdict, same.verdict)


@pytest.mark.parametrize("steps", [True, False])
def test_a_group_fails_exactly_where_its_p_in_the_family_is_at_most_alpha(steps: bool) -> None:
    for seed in range(12):
        parts = [comparison(noise(seed, shift=-0.045)), comparison(noise(seed + 50, 2, shift=-0.05)), answers(6)]
        for result in decided(parts, steps=steps):
            assert ((result.verdict == "fail") == (result.p_adjusted <= 0.05)).all()


def test_a_level_that_so_many_draws_show_exactly_is_shown() -> None:
    assert [tail(0.1, draws) for draws in (9, 99, 98)] == [0, 9, 8]


def test_no_comparison_is_no_family() -> None:
    assert decided([]) == []
