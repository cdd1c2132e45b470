"""The paired verdict: exact where nothing changed, silent where evidence is thin, loud where a group got worse."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, ttest_1samp

from fairgate.formulas.statistics import (
    Design,
    PairedComparison,
    compare_means,
    decided,
    paired_statistic_test,
    paired_test,
    set_counts,
    weighted_median,
)
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream


def two_runs(seed: int, *, sets: int = 300, groups: int = 4, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    rng = stream(seed, "runs")
    baseline = rng.normal(0.0, 0.1, (sets, groups))
    return baseline + rng.normal(0.0, noise, (sets, groups)), baseline


def test_the_same_scores_differ_by_exactly_nothing_and_pass_at_any_margin() -> None:
    _, baseline = two_runs(0)
    for sets in (300, 2):  # even of two sets
        result = paired_test(baseline[:sets], baseline[:sets], margin=0.0, rng=stream(0, "test"))
        assert not result.delta.any()
        assert not result.lo.any()
        assert not result.hi.any()
        assert (result.overall, result.sets_to_settle) == ("pass", None)
        assert result.p == 1.0


def test_no_limit_is_farther_than_a_difference_can_be_and_no_evidence_stays_none() -> None:
    """3 of 40 sets lose 0.8, the rest next to nothing: a twentieth of the resamples lack the three, and are level."""
    noise = stream(0, "noise").normal(0, 1e-4, (40, 2))
    noise[:3, 0], noise[5:, 1] = -0.8, np.nan
    raw = paired_test(noise, 0 * noise, margin=0.05, alpha=0.02, rng=stream(0, "draws"))
    assert raw.delta[0] == pytest.approx(-3 * 0.8 / 40, abs=1e-4)
    assert raw.lo[0] < -50
    result = raw.within(1.0)
    assert result.lo.tolist() == [-1.0, -np.inf]
    assert result.hi.tolist() == raw.hi.tolist()
    assert (result.verdict == raw.verdict).all()
    assert np.isinf(result.margin_decided).all()


def test_one_group_that_gets_worse_fails_alone_while_every_other_improves() -> None:
    candidate, baseline = two_runs(1)
    candidate += np.array([0.03, 0.03, -0.06, 0.03])
    result = paired_test(candidate, baseline, margin=0.02, rng=stream(1, "test"))
    assert result.verdict.tolist() == ["pass", "pass", "fail", "pass"]
    assert (result.overall, result.worst) == ("fail", 2)
    assert result.p == result.p_adjusted[2] <= 0.05
    assert result.lo[2] < -0.06 < result.hi[2] < -0.02


def test_a_difference_within_the_margin_passes() -> None:
    candidate, baseline = two_runs(2)
    result = paired_test(candidate, baseline, margin=0.02, rng=stream(2, "test"))
    assert result.overall == "pass"
    assert (result.lo > -0.02).all()


def test_thin_evidence_is_inconclusive_and_more_of_it_settles() -> None:
    candidate, baseline = two_runs(3, sets=40, noise=0.1)
    result = paired_test(candidate, baseline, margin=0.03, rng=stream(3, "test"))
    assert result.overall == "inconclusive"
    assert 40 < result.sets_to_settle < 4000
    settled = 0
    for seed in range(10):
        candidate, baseline = two_runs(seed, sets=400, noise=0.1)
        settled += paired_test(candidate, baseline, margin=0.03, rng=stream(seed, "more")).overall == "pass"
    assert settled >= 9


def test_the_first_failing_group_sets_how_many_more_are_needed() -> None:
    rng = stream(4, "few")
    difference = rng.normal(0, 0.1, (30, 2))
    difference -= difference.mean(axis=0) - np.array([-0.05, 0.001])
    result = paired_test(difference, np.zeros((30, 2)), margin=0.02, rng=rng)
    assert result.overall == "inconclusive"
    assert 30 < result.sets_to_settle < 500  # of the group at -0.05, not of the one at 0.001


@pytest.mark.parametrize("checks", [3, 60])
def test_what_fails_alone_needs_the_sets_with_which_it_would_fail_in_its_family(checks: int) -> None:
    def comparison(difference: np.ndarray, seed: int) -> PairedComparison:
        rng = stream(seed)
        return compare_means(difference, 0 * difference, design=Design(0.0, 0.05, "lower"), rng=rng, draws=1000)

    def fell(sets: int) -> np.ndarray:
        """A loss of 0.025 in noise of 0.1: a score of 2.5 in 100 sets."""
        noise = norm.ppf((np.arange(sets) + 0.5) / sets)[:, None]
        return 0.1 * noise / noise.std(ddof=1) - 0.025

    others = [comparison(stream(at, "other").normal(0, 0.1, (100, 6)), at) for at in range(6, 6 + checks)]
    alone = decided([comparison(fell(100), 5)])[0]
    assert alone.overall == "fail"
    result = decided([comparison(fell(100), 5), *others])[0]
    assert result.overall == "inconclusive"
    assert result.clear_alone.all()
    needed = result.sets_to_settle
    assert needed is not None
    p, family = alone.p_adjusted[0], result.p_adjusted[0] / alone.p_adjusted[0]
    assert needed == np.ceil(((1.28 + norm.isf(0.05 / family)) / norm.isf(p)) ** 2 * 100)
    assert decided([comparison(fell(needed), 5), *others])[0].overall == "fail"
    assert needed < 500


def test_an_estimate_on_the_margin_is_settled_by_no_number_of_sets() -> None:
    difference = np.tile([0.1, -0.1], 50) - 0.02
    result = paired_test(difference, np.zeros(100), margin=0.02, rng=stream(5, "test"))
    assert (result.overall, result.sets_to_settle) == ("inconclusive", None)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(-0.1, 0.1))
def test_higher_is_worse_is_the_mirror_image(seed: int, shift: float) -> None:
    candidate, baseline = two_runs(seed, sets=30)
    given = {"margin": 0.02, "draws": 400}
    lower = paired_test(candidate + shift, baseline, rng=stream(seed, "mirror"), **given)
    higher = paired_test(-candidate - shift, -baseline, rng=stream(seed, "mirror"), harm="higher", **given)
    assert higher.verdict.tolist() == lower.verdict.tolist()
    np.testing.assert_allclose(higher.delta, -lower.delta, atol=1e-12)
    np.testing.assert_allclose(higher.lo, -lower.hi, atol=1e-12)
    assert higher.worst == lower.worst


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(-0.1, 0.1), sets=st.integers(2, 40))
def test_verdicts_limits_and_p_values_tell_one_story(seed: int, shift: float, sets: int) -> None:
    candidate, baseline = two_runs(seed, sets=sets)
    result = paired_test(candidate + shift, baseline, margin=0.02, rng=stream(seed, "story"), draws=800)
    assert (result.lo <= result.delta).all()
    assert (result.delta <= result.hi).all()
    for group, verdict in enumerate(result.verdict):
        assert (verdict == "fail") == (result.hi[group] <= -0.02) == (result.p_adjusted[group] <= 0.05)
        assert (verdict == "pass") == (result.lo[group] >= -0.02) == (result.p_not_worse[group] <= 0.05)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), margin=st.sampled_from([0.0, 0.01, 0.25]))
def test_no_change_at_no_margin_and_a_fall_to_the_margin_are_one_question(seed: int, margin: float) -> None:
    candidate, baseline = two_runs(seed, sets=30)
    still = paired_test(candidate, baseline, margin=0.0, rng=stream(seed, "moved"), draws=400)
    fell = paired_test(candidate - margin, baseline, margin=margin, rng=stream(seed, "moved"), draws=400)
    assert fell.verdict.tolist() == still.verdict.tolist()
    np.testing.assert_allclose(fell.hi, still.hi - margin, atol=1e-12)
    np.testing.assert_allclose(fell.p_adjusted, still.p_adjusted)


def test_the_order_of_groups_does_not_matter() -> None:
    candidate, baseline = two_runs(6)
    order = [2, 0, 3, 1]
    straight = paired_test(candidate, baseline, margin=0.01, rng=stream(6, "test"))
    turned = paired_test(candidate[:, order], baseline[:, order], margin=0.01, rng=stream(6, "test"))
    np.testing.assert_allclose(turned.lo, straight.lo[order], atol=1e-12)
    np.testing.assert_allclose(turned.p_not_worse, straight.p_not_worse[order])


def test_limits_of_one_plain_group_are_near_students() -> None:
    difference = stream(7, "student").normal(0.0, 1.0, 200)
    result = paired_test(difference, np.zeros(200), margin=0.5, rng=stream(7, "test"), draws=20_000)
    peer = ttest_1samp(difference, 0.0).confidence_interval(0.91)  # 4.5% on each side, a tenth of alpha in reserve
    assert [result.lo[0], result.hi[0]] == pytest.approx([peer.low, peer.high], abs=0.01)


def test_more_groups_in_the_family_widen_the_limits() -> None:
    candidate, baseline = two_runs(8, groups=8)
    one = paired_test(candidate[:, 0], baseline[:, 0], margin=0.02, rng=stream(8, "one"))
    many = paired_test(candidate, baseline, margin=0.02, rng=stream(8, "many"))
    assert many.hi[0] - many.lo[0] > 1.2 * (one.hi[0] - one.lo[0])


def test_fewer_than_six_sets_decide_nothing_at_five_percent() -> None:
    difference = -1.0 - stream(9, "few").random((6, 2)) / 100
    for sets, verdict in ((5, "inconclusive"), (6, "fail")):
        result = paired_test(difference[:sets], np.zeros((sets, 2)), margin=0.02, rng=stream(9, "test"))
        assert result.overall == verdict
    five = paired_test(np.full((5, 2), -1.0), np.zeros((5, 2)), margin=0.02, rng=stream(9, "test"))
    assert five.overall == "inconclusive"
    assert np.isinf(five.lo).all()
    assert five.sets_to_settle is None


def test_a_group_that_moves_alike_in_every_set_needs_no_variance() -> None:
    worse = paired_test(np.full(50, 0.5), np.full(50, 1.0), margin=0.02, rng=stream(10, "test"))
    assert (worse.overall, worse.lo[0], worse.hi[0]) == ("fail", -0.5, -0.5)
    within = paired_test(np.full(50, 0.99), np.full(50, 1.0), margin=0.02, rng=stream(10, "test"))
    assert within.overall == "pass"
    on_it = paired_test(np.full(50, 0.5), np.full(50, 1.0), margin=0.5, rng=stream(10, "test"))
    assert (on_it.overall, on_it.lo[0], on_it.hi[0]) == ("inconclusive", -0.5, -0.5)


def test_one_lost_answer_of_many_is_no_regression_and_of_few_is_no_pass() -> None:
    for sets, verdict in ((1000, "pass"), (50, "inconclusive")):
        candidate = np.ones(sets)
        candidate[3] = 0.0
        result = paired_test(candidate, np.ones(sets), margin=0.02, rng=stream(11, "test"))
        assert result.overall == verdict
        assert result.hi[0] - result.lo[0] > 0


def test_a_group_without_change_may_hide_what_its_neighbours_show() -> None:
    candidate = np.ones((50, 2))
    candidate[::3, 0] = 0.0
    result = paired_test(candidate, np.ones((50, 2)), margin=0.02, rng=stream(12, "test"))
    assert result.verdict.tolist() == ["fail", "inconclusive"]
    assert result.lo[1] < -0.05


def test_sets_that_lack_a_group_are_counted_out_of_it() -> None:
    candidate, baseline = two_runs(13)
    candidate[:200, 1] = baseline[:200, 1] = np.nan
    result = paired_test(candidate, baseline, margin=0.02, rng=stream(13, "test"))
    assert result.n_sets.tolist() == [300, 100, 300, 300]
    assert result.delta[1] == pytest.approx((candidate - baseline)[200:, 1].mean())
    assert result.hi[1] - result.lo[1] > 1.4 * (result.hi[0] - result.lo[0])


def test_a_group_in_two_sets_is_too_thin_even_beside_many() -> None:
    candidate, baseline = two_runs(14)
    candidate[2:, 1] = baseline[2:, 1] = np.nan
    result = paired_test(candidate, baseline, margin=0.02, rng=stream(14, "test"), draws=500)
    assert result.verdict[1] == "inconclusive"


def test_false_alarms_at_the_margin_stay_rare_when_differences_are_skewed() -> None:
    alarms = 0
    for trial in range(150):
        rng = stream(trial, "null")
        difference = rng.lognormal(0.0, 1.0, (50, 4)) - np.exp(0.5) - 0.02
        alarms += paired_test(difference, np.zeros((50, 4)), margin=0.02, rng=rng, draws=500).overall == "fail"
    assert alarms <= 12  # docs/evidence/calibration.md has the rate over many trials


def fairness_draws(candidate: np.ndarray, baseline: np.ndarray, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """Difference of 1 - median spread, in the data and in resamples that both runs share."""
    counts = set_counts(len(candidate), 1000, rng)
    delta = np.median(baseline) - np.median(candidate)
    return float(delta), weighted_median(baseline, counts) - weighted_median(candidate, counts)


@pytest.mark.parametrize(("growth", "verdict"), [(0.0, "pass"), (0.08, "fail"), (0.02, "inconclusive")])
def test_a_statistic_that_is_no_mean_is_judged_by_its_draws(growth: float, verdict: str) -> None:
    rng = stream(15, "spread")
    baseline = rng.gamma(4.0, 0.02, 300)
    candidate = baseline + growth + rng.normal(0, 0.005, 300)
    delta, draws = fairness_draws(candidate, baseline, rng)
    result = paired_statistic_test(delta, draws, n_sets=300, margin=0.02, harm="lower")
    assert result.overall == verdict
    assert result.lo[0] <= delta <= result.hi[0]
    higher = paired_statistic_test(-delta, -draws, n_sets=300, margin=0.02, harm="higher")
    assert higher.overall == verdict
    assert higher.hi[0] == pytest.approx(-result.lo[0])


def test_identical_statistics_pass_and_five_sets_do_not() -> None:
    same = paired_statistic_test(0.0, np.zeros(1000), n_sets=300, margin=0.0)
    assert (same.overall, same.lo[0], same.hi[0]) == ("pass", 0.0, 0.0)
    few = paired_statistic_test(-0.5, np.full(1000, -0.5), n_sets=5, margin=0.0)
    assert few.overall == "inconclusive"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), centre=st.floats(-0.1, 0.1))
def test_statistics_verdicts_limits_and_p_values_tell_one_story(seed: int, centre: float) -> None:
    draws = centre + stream(seed, "draws").gumbel(0, 0.02, (400, 2))
    result = paired_statistic_test([centre, centre], draws, n_sets=100, margin=0.02)
    for group, verdict in enumerate(result.verdict):
        assert (verdict == "fail") == (result.hi[group] <= -0.02) == (result.p_adjusted[group] <= 0.05)
        assert (verdict == "pass") == (result.lo[group] >= -0.02) == (result.p_not_worse[group] <= 0.05)
    if result.verdict[0] == "inconclusive":  # else a step may have moved a limit to the margin
        assert result.hi[0] - result.delta[0] == pytest.approx(result.delta[0] - result.lo[0], rel=0.1)


VALUES = np.linspace(0, 1, 20)
TEST = "paired test"
REFUSALS = {
    "other shape": (
        lambda r: paired_test(VALUES, VALUES[:-1], margin=0.1, rng=r),
        (r"^the candidate's values have shape \(20,\), the baseline's \(19,\)", TEST, "both runs scored"),
    ),
    "empty": (lambda r: paired_test([], [], margin=0.1, rng=r), ("have shape", TEST, "both runs scored")),
    "gap in one run": (
        lambda r: paired_test(np.where(VALUES > 0.9, np.nan, VALUES), VALUES, margin=0.1, rng=r),
        ("^the two runs do not lack the same groups", "paired test: first in set 18", "same images"),
    ),
    "infinite": (
        lambda r: paired_test(VALUES / 0.5, VALUES + np.inf, margin=0.1, rng=r),
        ("or hold infinite values.$", "paired test: first in set 0", "same images"),
    ),
    "one set": (
        lambda r: paired_test([[0.1, 0.2]], [[0.1, 0.2]], margin=0.1, rng=r),
        (r"groups \[0, 1\]", TEST, "min_sets"),
    ),
    "margin below 0": (lambda r: paired_test(VALUES, VALUES, margin=-0.1, rng=r), ("margin -0.1", TEST, "at least 0")),
    "alpha 1": (
        lambda r: paired_test(VALUES, VALUES, margin=0.1, alpha=1.0, rng=r),
        ("alpha 1.0", TEST, "between 0 and 1"),
    ),
    "no such harm": (
        lambda r: paired_test(VALUES, VALUES, margin=0.1, harm="up", rng=r),
        ("harm 'up'", TEST, "or either"),
    ),
    "few draws": (
        lambda r: paired_test(VALUES**2, VALUES, margin=0.1, draws=20, rng=r),
        ("20 draws cannot show a level of 0.045", "draws", "at least 23 draws"),
    ),
    "draws with NaN": (
        lambda _: paired_statistic_test(0.0, [np.nan] * 100, n_sets=9, margin=0.1),
        ("100 of 100 drawn differences", "delta_draws", "shows every group"),
    ),
    "draws of other groups": (
        lambda _: paired_statistic_test([0.0, 0.0], np.zeros((100, 3)), n_sets=9, margin=0.1),
        ("do not fit", "delta_draws", "draws, groups"),
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_paired_is_refused(case: str) -> None:
    call, (problem, place, remedy) = REFUSALS[case]
    with pytest.raises(StatisticsError) as caught:
        call(stream(0, "refused"))
    assert re.search(problem, caught.value.problem)
    assert caught.value.where == place
    assert remedy in caught.value.remedy
