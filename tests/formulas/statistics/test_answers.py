"""The exact test of lost and won answers: every outcome counted, its size held at every share that turns."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, multinomial

from fairgate.formulas.statistics import paired_test
from fairgate.formulas.statistics.answers import chance_given_turned, least_lost, p_lost_less, p_lost_more, score
from fairgate.ground.randomness import stream


def outcomes(images: int) -> tuple[np.ndarray, np.ndarray]:
    """Every count of lost and won answers."""
    lost, won = np.meshgrid(np.arange(images + 1.0), np.arange(images + 1.0), indexing="ij")
    possible = lost + won <= images
    return lost[possible], won[possible]


def chances(lost: np.ndarray, won: np.ndarray, images: int, turning: float, margin: float) -> np.ndarray:
    """How likely every outcome is where so many answers turn, and the lost ones exceed the won ones by the margin."""
    shares = [(turning + margin) / 2, max((turning - margin) / 2, 0.0), 1 - turning]
    counts = np.stack([lost, won, images - lost - won], axis=1)
    return np.asarray(multinomial.pmf(counts, images, shares))


def by_bisection(lost: np.ndarray, won: np.ndarray, images: int, margin: float) -> np.ndarray:
    """The scores, at the share won (and the margin more lost) that makes the counts the most likely."""
    low, high = np.zeros(lost.shape), np.full(lost.shape, (1 - margin) / 2)
    for _ in range(60):
        share = (low + high) / 2
        rises = (won / share + lost / (share + margin)) * (1 - 2 * share - margin) > 2 * (images - lost - won)
        low, high = np.where(rises, share, low), np.where(rises, high, share)
    return np.asarray((lost - won - images * margin) / np.sqrt(images * (2 * share + margin - margin**2)))


def shares_searched(turned: int, images: int, margin: float) -> np.ndarray:
    """Twenty shares of turning answers, from the margin, within Clopper and Pearson's limits; even in arcsine scale."""
    low = beta.ppf(5e-7, turned, images - turned + 1) if turned else 1e-9
    high = beta.isf(5e-7, turned + 1, images - turned) if turned < images else 1.0
    return np.asarray(np.sin(np.linspace(*np.arcsin(np.sqrt(np.maximum([low, high], margin))), 20)) ** 2)


def by_enumeration(lost: int, won: int, images: int, margin: float, *, more: bool) -> float:
    all_lost, all_won = outcomes(images)
    every = by_bisection(all_lost, all_won, images, margin)
    (seen,) = every[(all_lost == lost) & (all_won == won)]
    beyond = every >= seen - 1e-9 if more else every <= seen + 1e-9
    searched = shares_searched(lost + won, images, margin)
    return min(max(chances(all_lost, all_won, images, share, margin)[beyond].sum() for share in searched) + 1e-6, 1.0)


@pytest.mark.parametrize(
    ("lost", "won", "images", "margin"),
    [
        *[(6, 0, 50, 0.0), (4, 1, 50, 0.02), (0, 0, 50, 0.02), (3, 5, 40, 0.1), (0, 0, 30, 0.0), (30, 0, 30, 0.1)],
        *[(0, 0, 1, 0.0), (12, 6, 20, 0.5), (9, 9, 20, 0.01)],
    ],
)
def test_p_is_the_chance_of_every_outcome_as_far_beyond_the_margin(
    lost: int, won: int, images: int, margin: float
) -> None:
    assert p_lost_more(lost, won, images, margin) == pytest.approx(
        by_enumeration(lost, won, images, margin, more=True), abs=1e-9
    )
    assert p_lost_less(lost, won, images, margin) == pytest.approx(
        by_enumeration(lost, won, images, margin, more=False), abs=1e-9
    )


def test_many_lost_answers_and_none_won_have_the_plain_binomials_p_at_a_margin_near_1() -> None:
    assert p_lost_more(280, 0, 300, 0.9) == pytest.approx(binom.sf(279, 300, 0.9) + 1e-6, abs=1e-9)


def test_the_score_is_mcnemars_without_a_margin_and_a_plain_binomials_where_nothing_was_won() -> None:
    assert score(np.array([15.0]), np.array([5.0]), 100, 0.0)[0] == pytest.approx(10 / np.sqrt(20))
    assert score(np.array([7.0]), np.array([0.0]), 100, 0.05)[0] == pytest.approx(2 / np.sqrt(100 * 0.05 * 0.95))


@pytest.mark.parametrize("margin", [0.0, 0.01, 0.1, 0.5, 0.9])
def test_the_score_takes_the_shares_that_are_most_likely_at_the_margin(margin: float) -> None:
    lost, won = outcomes(12)
    assert score(lost, won, 12, margin) == pytest.approx(by_bisection(lost, won, 12, margin), abs=1e-7)


@pytest.mark.parametrize(("lost", "won"), [(0, 0), (5, 2), (9, 0), (0, 9)])
def test_no_share_is_above_a_margin_of_1_or_below_minus_1_however_the_answers_turned(lost: int, won: int) -> None:
    """The evidence that it is within is as strong as nine answers can be."""
    assert (p_lost_more(lost, won, 9, 1.0), p_lost_less(lost, won, 9, -1.0)) == (1.0, 1.0)
    assert (p_lost_less(lost, won, 9, 1.0), p_lost_more(lost, won, 9, -1.0)) == (2.0**-9, 2.0**-9)


@pytest.mark.parametrize("margin", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("level", [0.045, 0.045 / 14])
def test_no_share_of_turning_answers_rejects_more_often_than_the_level(margin: float, level: float) -> None:
    images = 30
    lost, won = outcomes(images)
    for test in (p_lost_more, p_lost_less):
        rejected = np.array([test(int(a), int(b), images, margin) <= level for a, b in zip(lost, won, strict=True)])
        for turning in np.linspace(max(margin, 0.001), 1.0, 60):
            # The search steps between shares, which costs little: at most a hundredth of the level.
            assert chances(lost, won, images, float(turning), margin)[rejected].sum() <= 1.01 * level


@settings(deadline=None, max_examples=30)
@given(
    lost=st.integers(0, 12),
    won=st.integers(0, 12),
    images=st.sampled_from([30, 60, 400]),
    margin=st.floats(-0.3, 0.3),
)
def test_lost_and_won_are_mirror_images(lost: int, won: int, images: int, margin: float) -> None:
    assert p_lost_more(lost, won, images, margin) == pytest.approx(p_lost_less(won, lost, images, -margin))


@settings(deadline=None, max_examples=40)
@given(
    lost=st.integers(0, 20),
    won=st.integers(0, 20),
    images=st.sampled_from([40, 50, 300, 2000]),
    level=st.sampled_from([0.045, 0.01, 0.001]),
)
def test_the_limit_is_a_margin_that_is_rejected_and_close_to_one_that_is_not(
    lost: int, won: int, images: int, level: float
) -> None:
    limit = least_lost(lost, won, images, level)
    assert limit <= (lost - won) / images
    if limit > -1:
        assert p_lost_more(lost, won, images, limit) <= level + 1e-9
        reach = (lost - won) / images - limit  # counts are whole: p may fall again behind a margin not rejected
        close = limit + np.linspace(0, 1, 9) * (0.02 * reach + 1e-4)
        assert max(p_lost_more(lost, won, images, margin) for margin in close) > level


def test_a_limit_that_the_first_steps_left_too_low_is_raised() -> None:
    assert least_lost(20, 2, 40, 0.045) == pytest.approx(0.2655, abs=0.0015)  # p: 0.0444 at 0.2653, 0.0476 at 0.2678


def test_a_limit_takes_six_p_values_on_average_and_seven_at_most() -> None:
    turned = [(1, 0), (0, 1), (3, 1), (8, 8), (2, 15)]
    searches = [(*each, images, level) for images in (40, 300, 2000) for each in turned for level in (0.045, 0.001)]
    searches += [(0, 0, images, 0.045) for images in (40, 300, 2000)] + [(20, 2, 300, 0.045), (20, 2, 40, 0.001)]
    taken = []
    for search in searches:
        least_lost.cache_clear()
        p_lost_more.cache_clear()
        least_lost(*search)
        taken.append(p_lost_more.cache_info().misses)
    assert max(taken) <= 7
    assert np.mean(taken) <= 6


def test_one_more_lost_answer_is_never_weaker_evidence() -> None:
    for margin in (0.0, 0.02, 0.1):
        found = [p_lost_more(lost, 2, 60, margin) for lost in range(25)]
        assert (np.diff(found) <= 1e-9).all()


def test_six_of_fifty_answers_lost_fail_which_a_bootstrap_could_not_say() -> None:
    lost = np.zeros(50)
    lost[:6] = -1.0
    result = paired_test(lost, np.zeros(50), margin=0.02, rng=stream(0))
    assert result.overall == "fail"
    assert result.p == pytest.approx(p_lost_more(6, 0, 50, 0.02))
    four = paired_test(np.where(np.arange(50) < 3, -1.0, 0.0), np.zeros(50), margin=0.02, rng=stream(0))
    assert four.overall == "inconclusive"


def own_images(*turned: tuple[int, int], images: int = 50) -> np.ndarray:
    """Differences of groups that share no image, from how many answers each lost and won."""
    table = np.full((len(turned), images, len(turned)), np.nan)
    for group, (lost, won) in enumerate(turned):
        table[group, :, group] = np.repeat([-1.0, 1.0, 0.0], [lost, won, images - lost - won])
    return table.reshape(-1, len(turned))


def p_of(difference: np.ndarray, margin: float = 0.0) -> np.ndarray:
    base = np.where(np.isnan(difference), np.nan, 0.0)
    return paired_test(difference, base, margin=margin, rng=stream(0), draws=200).p_adjusted


@pytest.mark.parametrize(
    ("turned", "level", "chance"),
    [
        (5, 0.02, 1 / 32),  # p is 0.0127 of 5 lost, 0.12 of 4 lost and 1 won
        (6, 0.07, (1 + 6) / 64),  # 0.0069 of 6, 0.065 of 5 and 1
        (3, 0.02, 0.0),  # 0.049 of 3: no outcome of three turned answers is so clear
        (0, 0.999, 0.0),
        (4, 1.0, 1.0),
    ],
)
def test_the_chance_of_a_p_given_turned_answers_is_that_of_coins(turned: int, level: float, chance: float) -> None:
    assert chance_given_turned(turned, 50, level) == pytest.approx(chance)


def test_groups_with_too_few_turned_answers_to_reach_a_p_leave_its_family() -> None:
    clear = p_lost_more(6, 0, 50, 0.0)  # 0.0069; of 5 lost 0.013
    assert p_of(own_images((6, 0)))[0] == pytest.approx(clear)
    assert p_of(own_images((6, 0), (2, 1), (1, 0), (0, 5)))[0] == pytest.approx(clear)
    assert p_of(own_images((6, 0), (3, 3), (2, 1)))[0] == pytest.approx(clear + 1 / 64)  # six turned: all lost
    # Seven turned: 7 lost have 0.0038, 6 lost and 1 won 0.035.
    assert p_of(own_images((6, 0), (3, 3), (4, 3)))[0] == pytest.approx(clear + 1 / 64 + 1 / 128)


def test_sets_that_groups_share_and_margins_above_0_keep_every_group_in_the_family() -> None:
    sets = np.stack([np.repeat([-1.0, 0.0], [lost, 50 - lost]) for lost in (6, 2, 1)], axis=1)
    assert p_of(sets)[0] == pytest.approx(3 * p_lost_more(6, 0, 50, 0.0))
    own = own_images((6, 0), (2, 0), (1, 0))
    assert p_of(own, margin=0.02)[0] == pytest.approx(3 * p_lost_more(6, 0, 50, 0.02))


@settings(deadline=None, max_examples=25)
@given(
    turned=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=2, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_groups_with_their_own_images_does_not_matter(
    turned: list[tuple[int, int]], order: Random
) -> None:
    shuffled = order.sample(range(len(turned)), len(turned))
    np.testing.assert_allclose(p_of(own_images(*(turned[at] for at in shuffled))), p_of(own_images(*turned))[shuffled])


@settings(deadline=None, max_examples=25)
@given(
    turned=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=2, max_size=4),
    more=st.tuples(st.integers(0, 8), st.integers(0, 4)),
)
def test_a_further_group_never_sharpens_the_others(turned: list[tuple[int, int]], more: tuple[int, int]) -> None:
    assert (p_of(own_images(*turned, more))[:-1] >= p_of(own_images(*turned)) - 1e-12).all()
