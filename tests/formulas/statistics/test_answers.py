"""The exact test of lost and won answers: every outcome counted, its size held at every share that turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multinomial

from fairgate.formulas.statistics import paired_test
from fairgate.formulas.statistics.answers import _shares, least_lost, p_lost_less, p_lost_more, score
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


def by_enumeration(lost: int, won: int, images: int, margin: float, *, more: bool) -> float:
    all_lost, all_won = outcomes(images)
    seen = score(np.array([float(lost)]), np.array([float(won)]), images, margin)[0]
    every = score(all_lost, all_won, images, margin)
    beyond = every >= seen - 1e-9 if more else every <= seen + 1e-9
    searched = _shares(lost + won, images, margin)
    return min(max(chances(all_lost, all_won, images, one, margin)[beyond].sum() for one in searched) + 1e-6, 1.0)


@pytest.mark.parametrize(
    ("lost", "won", "images", "margin"),
    [(6, 0, 50, 0.0), (4, 1, 50, 0.02), (0, 0, 50, 0.02), (3, 5, 40, 0.1), (0, 0, 30, 0.0), (30, 0, 30, 0.1)],
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


def test_the_score_is_mcnemars_without_a_margin_and_a_plain_binomials_where_nothing_was_won() -> None:
    assert score(np.array([15.0]), np.array([5.0]), 100, 0.0)[0] == pytest.approx(10 / np.sqrt(20))
    assert score(np.array([7.0]), np.array([0.0]), 100, 0.05)[0] == pytest.approx(2 / np.sqrt(100 * 0.05 * 0.95))


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


def test_one_more_lost_answer_is_never_weaker_evidence() -> None:
    for margin in (0.0, 0.02, 0.1):
        found = [p_lost_more(lost, 2, 60, margin) for lost in range(25)]
        assert (np.diff(found) <= 1e-9).all()


def test_six_of_fifty_answers_lost_fail_which_a_bootstrap_could_not_say() -> None:
    lost = np.zeros(50)
    lost[:6] = -1.0
    result = paired_test(lost, np.zeros(50), margin=0.02, rng=stream(0))
    assert result.overall == "fail"
    assert result.p == pytest.approx(p_lost_more(6, 0, 50, 0.02) / 0.9)
    four = paired_test(np.where(np.arange(50) < 3, -1.0, 0.0), np.zeros(50), margin=0.02, rng=stream(0))
    assert four.overall == "inconclusive"
