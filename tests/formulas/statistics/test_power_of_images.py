"""What `compare_images` can see: the error of a contrast has a part from every group, and images keep proportions."""

from __future__ import annotations

import numpy as np
import pytest
from regressions import image_regression
from scipy.stats import chi2, kurtosis, norm, ttest_ind

from fairgate.formulas.statistics import image_changes, power_of_images
from fairgate.ground.randomness import stream

CHANGES = [stream(0, "image power", group).normal(0.0, 0.1, size) for group, size in enumerate((400, 200, 50))]


def test_changes_stand_by_group_and_rounding_is_no_change() -> None:
    old = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    new = old + np.array([0.5, 0.0, 0.25, 0.125, 1e-17])
    first, second = image_changes(new, old, np.array([0, 1, 0, -1, 1]), groups=2)
    assert first.tolist() == pytest.approx([0.5, 0.25])
    assert second.tolist() == [0.0, 0.0]


def test_two_groups_have_welchs_error_halved_and_its_reach() -> None:
    wide, narrow = CHANGES[0] * 2, CHANGES[1]
    found = power_of_images([wide, narrow], margin=0.02, rng=stream(0, "welch"), draws=20_000)
    halves = wide.var(ddof=1) / 400 / 4, narrow.var(ddof=1) / 200 / 4
    assert found.standard_error == pytest.approx([np.sqrt(sum(halves))] * 2)
    peer = ttest_ind(wide, narrow, equal_var=False).confidence_interval(0.955)
    assert found.reach == pytest.approx([(peer.high - peer.low) / 4] * 2, rel=0.05)
    own = [2 * one.size / (max(kurtosis(one, fisher=False), 3.0) - 1) for one in (wide, narrow)]
    freedom = sum(halves) ** 2 / sum(half**2 / free for half, free in zip(halves, own, strict=True))
    assert found.caution == pytest.approx([np.sqrt(freedom / chi2.ppf(0.2, freedom))] * 2)
    error = found.reach + norm.ppf(0.8) * found.standard_error
    assert found.detectable == pytest.approx(0.02 + found.caution * error)
    assert (found.margin, found.alpha, found.odds, found.wanted, found.harm) == (0.02, 0.05, 0.8, None, "lower")
    assert found.n_sets.tolist() == [400, 200]


def test_three_groups_have_two_thirds_of_their_own_noise_and_a_third_of_the_others() -> None:
    found = power_of_images(CHANGES, margin=0.02, rng=stream(0, "three"))
    own = np.array([one.var(ddof=1) / one.size for one in CHANGES])
    assert found.standard_error**2 == pytest.approx((own.sum() + 3 * own) / 9)
    assert found.detectable[0] < found.detectable[1] < found.detectable[2]


def test_the_reach_is_that_of_the_test_itself() -> None:
    skewed = [np.exp(8 * one) for one in CHANGES]
    labels, old = np.repeat([0, 1, 2], [400, 200, 50]), np.zeros(650)
    found = {}
    for harm in ("lower", "higher", "either"):
        found[harm] = power_of_images(skewed, margin=0.02, rng=stream(1, "same"), harm=harm).reach
        test = image_regression(
            np.concatenate(skewed), old, labels, groups=3, margin=0.02, rng=stream(1, "same"), harm=harm
        )
        side = {"lower": test.hi - test.delta, "higher": test.delta - test.lo}
        side["either"] = np.maximum(*side.values())  # at half of alpha on each side
        np.testing.assert_allclose(found[harm], side[harm])
    assert (found["lower"] > found["higher"]).all()  # rare large values hide on the right


def test_a_detectable_regression_fails_about_four_times_in_five_and_twice_as_much_always() -> None:
    rng = stream(2, "odds")
    detectable = power_of_images(CHANGES, margin=0.02, rng=rng, draws=1000).detectable[2]
    labels, seen = np.repeat([0, 1, 2], [400, 200, 50]), {1: 0, 2: 0}
    for _ in range(100):
        noise = rng.normal(0.0, 0.1, 650)
        for times in seen:
            candidate = noise - (labels == 2) * times * detectable * 1.5  # of a loss, a third is the mean's own
            result = image_regression(candidate, np.zeros(650), labels, groups=3, margin=0.02, rng=rng, draws=500)
            seen[times] += result.outcome(2) == "fail"
    assert 68 <= seen[1] <= 96
    assert seen[2] == 100


def test_more_draws_odds_and_wishes_are_taken_as_given() -> None:
    asked = {"margin": 0.02, "rng": stream(3, "asked"), "alpha": 0.01, "odds": 0.9, "wanted": 0.1, "draws": 2000}
    found = power_of_images(CHANGES, **asked)
    assert (found.alpha, found.odds, found.wanted) == (0.01, 0.9, 0.1)
    assert (found.detectable > power_of_images(CHANGES, margin=0.02, rng=stream(3, "asked")).detectable).all()
    for group, images in enumerate(found.sets_needed.astype(int)):
        assert found.at(images)[group] <= 0.1 < found.at(images - 1)[group]


def test_a_group_of_five_images_silences_all() -> None:
    found = power_of_images([CHANGES[0], CHANGES[1][:5]], margin=0.02, rng=stream(4, "five"))
    assert np.isinf(found.detectable).all()
    six = power_of_images([CHANGES[0], CHANGES[1][:6]], margin=0.02, rng=stream(4, "five"))
    assert np.isfinite(six.detectable).all()


def test_eight_images_that_moved_are_enough_to_see_noise() -> None:
    eight = np.append(np.zeros(40), np.arange(1.0, 9.0))
    assert np.isfinite(power_of_images([CHANGES[0], eight], margin=0.02, rng=stream(5, "eight")).detectable).all()
