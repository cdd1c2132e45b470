"""Closing a gap is no regression: a group is harmed if its gap fell by more than the margin and it is behind now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from regressions import image_regression
from scipy.stats import t as student

from fairgate.formulas.metrics import set_deviation
from fairgate.formulas.statistics import Design, PairedResult, compare_draws, compare_means, decided, paired_test
from fairgate.ground.randomness import stream

MARGIN = 0.03


def sets(gaps: list[float], *, sets: int = 200, seed: int = 0) -> np.ndarray:
    """Scores (sets, groups) whose groups stand so far from 0.5, with noise of 0.05."""
    return 0.5 + np.array(gaps) + stream(seed, "sets").normal(0.0, 0.05, (sets, len(gaps)))


def both(before: list[float], now: list[float], **test: object) -> list[PairedResult]:
    """The rule inside sets, and on images that form none."""
    old, new = sets(before, seed=1), sets(now, seed=2)
    inside = paired_test(
        set_deviation(new),
        set_deviation(old),
        margin=MARGIN,
        rng=stream(0, "t"),
        gap=True,
        **test,  # type: ignore[arg-type]
    )
    labels = np.tile(np.arange(len(now)), 200)
    images = image_regression(
        new.ravel(), old.ravel(), labels, groups=len(now), margin=MARGIN, rng=stream(0, "t"), **test
    )
    return [inside, images]


@pytest.mark.parametrize(
    ("before", "now", "verdicts"),
    [
        ([-0.07, 0.07], [0.0, 0.0], ["pass", "pass"]),  # the first gains and the second loses its lead alone
        ([-0.07, 0.07], [-0.01, 0.01], ["pass", "pass"]),
        ([0.07, -0.07], [-0.07, 0.07], ["fail", "pass"]),  # a lead that becomes a lag
        ([0.0, 0.0], [-0.08, 0.08], ["fail", "pass"]),
        ([-0.08, 0.08], [-0.08, 0.08], ["pass", "pass"]),  # behind as before
        ([-0.08, 0.08], [-0.16, 0.16], ["fail", "pass"]),
        ([0.2, -0.1, -0.1], [0.1, -0.05, -0.05], ["pass", "pass", "pass"]),
    ],
)
def test_a_group_fails_if_it_fell_and_is_behind_and_passes_if_either_is_refuted(
    before: list[float], now: list[float], verdicts: list[str]
) -> None:
    for result in both(before, now):
        assert result.verdict.tolist() == verdicts
        np.testing.assert_allclose(result.gap, np.array(now) - np.mean(now), atol=0.02)


def test_where_higher_is_worse_the_rule_is_turned_over() -> None:
    for result in both([-0.07, 0.07], [0.07, -0.07], harm="higher"):
        assert result.verdict.tolist() == ["fail", "pass"]
        assert result.worst == 0
    for result in both([0.07, -0.07], [0.0, 0.0], harm="higher"):
        assert result.verdict.tolist() == ["pass", "pass"]


@pytest.mark.parametrize("harm", ["lower", "higher"])
def test_a_gap_of_0_has_no_sign(harm: Any) -> None:
    for gap in (0.0, -0.0):
        result = paired_test([gap] * 9, [0.5] * 9, margin=MARGIN, rng=stream(0), harm=harm, gap=True, draws=200)
        assert result.gap[0] == 0.0
        assert not np.signbit(result.gap[0])


def test_where_either_direction_is_harm_there_is_no_rule_for_gaps() -> None:
    for result in both([-0.07, 0.07], [0.0, 0.0], harm="either"):
        assert result.verdict.tolist() == ["fail", "fail"]
        assert np.isnan(result.gap).all()


def test_the_p_of_a_failure_is_the_larger_of_two_and_no_smaller_than_students() -> None:
    """By hand: the t of the fall and of the gap at the margin, of which the smaller counts."""
    old, new = set_deviation(sets([0.0, 0.0], seed=1, sets=40)), set_deviation(sets([-0.05, 0.05], seed=2, sets=40))
    result = paired_test(new, old, margin=MARGIN, rng=stream(0, "t"), gap=True)
    at = [(column.mean() + MARGIN) / (column.std(ddof=1) / 40**0.5) for column in ((new - old)[:, 0], new[:, 0])]
    by_hand = max(student.cdf(score, 39) for score in at)
    assert by_hand <= result.p_adjusted[0] < 6 * by_hand + 0.01


def test_harm_is_the_smaller_of_how_far_a_group_fell_and_how_far_it_is_behind() -> None:
    result = both([0.1, -0.1], [0.02, -0.02])[0]
    assert result.harmful[0] == pytest.approx(-result.gap[0])  # fell by 0.08, and is still ahead by 0.02
    result = both([0.0, 0.0], [-0.08, 0.08])[0]
    assert result.harmful[0] == pytest.approx(min(-result.delta[0], -result.gap[0]))


def test_a_group_that_cannot_be_settled_needs_as_many_sets_as_the_harder_of_both_questions() -> None:
    noise = stream(3, "noise").normal(0.0, 0.2, (30, 2))
    old = noise - noise.mean(axis=0)
    fell = np.array([-0.06, 0.06])
    by_change = paired_test(old + fell, 0 * old, margin=MARGIN, rng=stream(0, "t")).sets_needed[0]
    both_ends = paired_test(old + fell, 0 * old, margin=MARGIN, rng=stream(0, "t"), gap=True)
    assert both_ends.verdict[0] == "inconclusive"
    assert both_ends.sets_needed[0] == by_change  # the change from 0 is the gap itself
    far = paired_test(old + fell, 0 * old + 10 * np.array([1, -1]), margin=MARGIN, rng=stream(0, "t"), gap=True)
    assert far.sets_needed[0] == pytest.approx(by_change, rel=0.1)  # that it fell is plain, that it is behind is not


def test_gaps_of_resampled_statistics_follow_the_rule_too() -> None:
    design, rng = Design(MARGIN, 0.05, "lower"), stream(4, "draws")
    delta, gap = np.array([-0.10]), np.array([0.02])
    change = compare_draws(delta, delta + 0.01 * rng.normal(size=(2000, 1)), n_sets=100, design=design)
    own = compare_draws(gap, gap + 0.01 * rng.normal(size=(2000, 1)), n_sets=100, design=design)
    assert decided([change])[0].overall == "fail"
    assert decided([replace(change, gap=own.evidence)])[0].overall == "pass"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), fall=st.floats(-0.2, 0.2), behind=st.floats(-0.2, 0.2))
def test_no_group_that_fails_by_both_passes_by_its_change_alone_and_limits_agree(
    seed: int, fall: float, behind: float
) -> None:
    rng = stream(seed, "story")
    new = behind * np.array([1.0, -1.0]) + rng.normal(0.0, 0.1, (40, 2))
    old = new - fall * np.array([1.0, -1.0]) + rng.normal(0.0, 0.1, (40, 2))
    design, test = Design(MARGIN, 0.05, "lower"), {"draws": 300}
    part = compare_means(new, old, design=design, rng=stream(seed, "t"), gap=True, **test)
    (result,) = decided([part])
    (alone,) = decided([compare_means(new, old, design=design, rng=stream(seed, "t"), **test)])
    for group in range(2):
        if result.verdict[group] == "fail":
            assert alone.verdict[group] == "fail"
            assert result.hi[group] <= -MARGIN
            assert result.gap[group] < -MARGIN
        if result.delta[group] > -MARGIN and result.lo[group] > -MARGIN and result.p_adjusted[group] > 0.05:
            assert result.verdict[group] != "fail"
        assert result.lo[group] <= result.delta[group] <= result.hi[group]
    np.testing.assert_array_equal(result.delta, alone.delta)
