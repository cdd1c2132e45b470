"""What a test can see: regressions found with the promised odds, and sets that are enough and no more than enough."""

from __future__ import annotations

import numpy as np
import pytest
from regressions import group_changes, group_regression
from scipy.stats import binom, chi2, kurtosis, norm
from scipy.stats import t as student

from fairgate.formulas.statistics import (
    paired_statistic_test,
    paired_test,
    power,
    power_of_draws,
)
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream

NORMAL = stream(0, "noise").normal(0.0, 0.1, (200, 4))


def test_one_plain_group_sees_what_students_formula_says() -> None:
    difference = NORMAL[:, 0]
    error = difference.std(ddof=1) / np.sqrt(200)
    found = power(difference, margin=0.02, rng=stream(0, "power"), draws=20_000)
    assert found.standard_error[0] == pytest.approx(error)
    assert found.reach[0] == pytest.approx(student.ppf(0.955, 199) * error, rel=0.03)
    freedom = 2 * 200 / (max(kurtosis(difference, fisher=False), 3.0) - 1)
    assert found.caution[0] == pytest.approx(np.sqrt(freedom / chi2.ppf(0.2, freedom)))
    assert found.caution[0] == pytest.approx(1.045, abs=0.02)
    assert found.detectable[0] == pytest.approx(0.02 + found.caution[0] * (found.reach[0] + norm.ppf(0.8) * error))
    assert (found.margin, found.alpha, found.odds, found.wanted, found.harm) == (0.02, 0.05, 0.8, None, "lower")
    assert found.n_sets.tolist() == [200]
    assert np.isnan(found.sets_needed).all()


def test_the_reach_is_that_of_the_test_itself() -> None:
    for harm in ("lower", "higher"):
        found = power(NORMAL**2, margin=0.02, rng=stream(1, "same"), harm=harm)
        result = paired_test(NORMAL**2, np.zeros_like(NORMAL), margin=0.02, rng=stream(1, "same"), harm=harm)
        side = result.hi - result.delta if harm == "lower" else result.delta - result.lo
        np.testing.assert_allclose(found.reach, side)
    both = power(NORMAL**2, margin=0.02, rng=stream(1, "same"), harm="either")
    sides = [
        power(NORMAL**2, margin=0.02, rng=stream(1, "same"), harm=harm, alpha=0.025).reach
        for harm in ("lower", "higher")
    ]
    np.testing.assert_allclose(both.reach, np.maximum(*sides))


def test_a_detectable_regression_fails_four_times_in_five_and_twice_as_much_always() -> None:
    rng = stream(2, "odds")
    detectable = power(NORMAL, margin=0.02, rng=rng, draws=1000).detectable[1]
    seen = {1: 0, 2: 0}
    for _ in range(150):
        noise = rng.normal(0.0, 0.1, (200, 4))
        for times in seen:
            candidate = noise - np.array([0.0, times * detectable, 0.0, 0.0])
            result = paired_test(candidate, np.zeros((200, 4)), margin=0.02, rng=rng, draws=500)
            seen[times] += result.outcome(1) == "fail"
    assert 100 <= seen[1] <= 142
    assert seen[2] == 150


def test_group_regressions_are_seen_through_their_group_changes() -> None:
    baseline = stream(3, "base").normal(0.8, 0.1, (100, 4))
    changes = group_changes(baseline + NORMAL[:100], baseline)
    found = power(changes, margin=0.01, rng=stream(3, "power"), wanted=0.05)
    behind = baseline + NORMAL[100:] - np.array([2 * found.detectable[0] * 4 / 3, 0.0, 0.0, 0.0])
    assert group_regression(behind, baseline, margin=0.01, rng=stream(3, "test")).outcome(0) == "fail"


def test_the_sets_needed_are_the_fewest_that_see_the_wanted_regression() -> None:
    found = power(NORMAL, margin=0.02, wanted=0.04, rng=stream(4, "needed"))
    assert found.wanted == 0.04
    for group, sets in enumerate(found.sets_needed.astype(int)):
        assert found.at(sets)[group] <= 0.04 < found.at(sets - 1)[group]
    assert power(NORMAL, margin=0.02, wanted=0.02, rng=stream(4)).sets_needed.tolist() == [np.inf] * 4
    much = power(NORMAL, margin=0.02, wanted=50.0, rng=stream(4)).sets_needed
    assert much.tolist() == [6.0] * 4  # fewer cannot fail at all


def test_curves_fall_with_the_root_of_the_sets_and_meet_the_present() -> None:
    found = power(NORMAL, margin=0.02, rng=stream(5, "curve"))
    np.testing.assert_allclose(found.at(200), found.detectable)
    curve = found.at([5, 6, 50, 200, 800, 80_000])
    assert curve.shape == (6, 4)
    assert np.isinf(curve[0]).all()
    assert np.isfinite(curve[1]).all()
    assert (np.diff(curve[1:], axis=0) < 0).all()
    np.testing.assert_allclose((curve[3] - 0.02) / (curve[4] - 0.02), 2.0, rtol=0.02)
    np.testing.assert_allclose((curve[3] - 0.02) / (curve[5] - 0.02), 20.0, rtol=0.02)


def test_fewer_sets_of_a_group_see_less_of_it() -> None:
    difference = NORMAL.copy()
    difference[50:, 2] = np.nan
    found = power(difference, margin=0.02, rng=stream(6, "gaps"))
    assert found.n_sets.tolist() == [200, 200, 50, 200]
    assert found.detectable[2] - 0.02 > 1.6 * (found.detectable[0] - 0.02)
    five = np.where(np.arange(200)[:, None] < 5, NORMAL, np.nan)
    five[:, 0] = NORMAL[:, 0]
    assert np.isinf(power(five, margin=0.02, rng=stream(6)).detectable[1:]).all()


@pytest.mark.parametrize("sets", [50, 600])
def test_answers_that_hardly_change_bring_their_noise_with_them(sets: int) -> None:
    rng = stream(7, "answers", sets)
    difference = np.zeros((sets, 2))
    difference[0] = -1.0
    found = power(difference, margin=0.02, rng=rng, wanted=0.06)
    lost = found.detectable[0]
    assert lost < 0.3
    least = {50: 6, 600: 20}[sets]  # 6 of 50 reject a loss of 2% at 4.5% / 2 groups, 20 of 600
    assert binom.sf(least - 1, sets, lost) >= 0.8 - 1e-6
    seen = 0
    for _ in range(60):
        answers = -(rng.random((sets, 2)) < lost).astype(float)
        seen += paired_test(answers, np.zeros((sets, 2)), margin=0.02, rng=rng, draws=400).outcome(0) == "fail"
    assert seen >= 45
    assert 50 < found.sets_needed[0] < 2000
    assert found.at(int(found.sets_needed[0]))[0] <= 0.06


def test_a_margin_as_large_as_any_change_cannot_be_crossed() -> None:
    difference = np.zeros((50, 2))
    difference[0] = -0.5
    assert np.isinf(power(difference, margin=0.5, rng=stream(8)).detectable).all()
    assert np.isfinite(power(difference, margin=0.4, rng=stream(8)).detectable).all()


def test_statistics_that_are_no_means_have_power_from_their_draws() -> None:
    draws = stream(9, "draws").normal(0.01, 0.02, 4000)
    found = power_of_draws(0.01, draws, n_sets=300, margin=0.02, wanted=0.1)
    result = paired_statistic_test(0.01, draws, n_sets=300, margin=0.02)
    assert found.standard_error[0] == pytest.approx(draws.std(ddof=1))
    assert found.reach[0] == pytest.approx(result.hi[0] - 0.01)
    assert found.caution[0] == pytest.approx(np.sqrt(299 / chi2.ppf(0.2, 299)))
    reach = found.reach[0] + norm.ppf(0.8) * found.standard_error[0]
    assert found.detectable[0] == pytest.approx(0.02 + found.caution[0] * reach)
    assert found.detectable[0] == pytest.approx(0.02 + 1.035 * 2.54 * 0.02, rel=0.04)
    assert 100 < found.sets_needed[0] < 300
    assert (found.alpha, found.odds, found.margin, found.harm) == (0.05, 0.8, 0.02, "lower")
    assert found.n_sets.tolist() == [300]
    assert np.isinf(power_of_draws(0.01, draws, n_sets=5, margin=0.02).detectable).all()
    nan = power_of_draws(0.01, draws, n_sets=300, margin=0.02, odds=0.9)
    assert np.isnan(nan.sets_needed).all()
    assert nan.detectable[0] > found.detectable[0]


def test_noise_with_heavy_tails_is_met_with_caution() -> None:
    rng = stream(11, "tails")
    plain, heavy = (power(x, margin=0.0, rng=stream(11)) for x in (rng.normal(size=50), rng.lognormal(size=50)))
    assert 1.0 < plain.caution[0] < 1.2 < heavy.caution[0]
    assert power(rng.normal(size=50), margin=0.0, odds=0.5, rng=stream(11)).caution[0] == pytest.approx(1.0, abs=0.02)


def test_more_checks_in_a_suite_see_less() -> None:
    alone = power(NORMAL, margin=0.02, rng=stream(10, "checks"))
    among = power(NORMAL, margin=0.02, alpha=0.05 / 10, rng=stream(10, "checks"))
    assert (among.detectable > alone.detectable).all()


REFUSALS = {
    "no variation": (lambda: power(np.zeros((50, 2)), margin=0.1, rng=stream(0)), "do not vary", "two seeds"),
    "one constant": (lambda: power(np.full(50, 0.1), margin=0.1, rng=stream(0)), "do not vary", "two different"),
    "draws that stand still": (
        lambda: power_of_draws(0.0, np.zeros(500), n_sets=50, margin=0.1),
        "do not vary",
        "two different checkpoints",
    ),
    "odds of a coin": (lambda: power(NORMAL, margin=0.1, odds=0.49, rng=stream(0)), "odds 0.49", "from 0.5"),
    "certainty": (lambda: power(NORMAL, margin=0.1, odds=1.0, rng=stream(0)), "odds 1.0", "under 1"),
    "nothing wanted": (lambda: power(NORMAL, margin=0.1, wanted=0.0, rng=stream(0)), "wanted regression", "above 0"),
    "everything wanted": (
        lambda: power_of_draws(0.0, NORMAL[:, 0], n_sets=9, margin=0.1, wanted=np.inf),
        "regression of inf",
        "above 0",
    ),
    "margin": (lambda: power(NORMAL, margin=-0.1, rng=stream(0)), "margin -0.1", "at least 0"),
    "one set": (lambda: power(NORMAL, margin=0.1, rng=stream(0)).at(1), "1", "from 2"),
    "half sets": (lambda: power(NORMAL, margin=0.1, rng=stream(0)).at(20.5), "20.5", "whole numbers"),
    "a table of sets": (lambda: power(NORMAL, margin=0.1, rng=stream(0)).at([[20]]), "numbers of sets", "whole"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_asked_is_refused(case: str) -> None:
    call, problem, remedy = REFUSALS[case]
    with pytest.raises(StatisticsError, match=problem) as caught:
        call()
    assert caught.value.where
    assert remedy in caught.value.remedy
