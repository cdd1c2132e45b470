"""The interval of the worst group: it covers where the bootstrap's percentiles do not, or says why there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm
from scipy.stats import t as student

from fairgate.formulas.metrics import counts_at_k_weighted, skew_of_counts
from fairgate.formulas.statistics import (
    Interval,
    Unavailable,
    divergence_interval,
    extreme_interval,
    set_counts,
    skew_interval,
)
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream


def given(interval: Interval | Unavailable) -> Interval:
    assert isinstance(interval, Interval)
    return interval


def symmetric(error: Any, centre: Any = 0.0) -> np.ndarray:
    """Draws (400, ...) without skewness, with exactly this standard deviation (ddof=1) around the centre."""
    error = np.asarray(error, dtype=float)
    sign = np.tile([1.0, -1.0], 200).reshape(-1, *([1] * error.ndim))
    return np.asarray(centre) + sign * error * np.sqrt(399 / 400)


def sidak(level: float, many: int) -> float:
    return 1 - (1 - level) ** (1 / many)


# Means


def test_the_largest_of_three_means_by_hand() -> None:
    means, error = np.array([0.1, 0.4, 0.3]), np.array([0.05, 0.02, 0.1])
    interval = given(extreme_interval(means, symmetric(error, means), n_sets=10))
    wide = error * np.sqrt(10 / 9)  # the bootstrap's spread lacks the sample's degree of freedom
    assert interval.estimate == 0.4
    assert interval.lo == pytest.approx((means - student.ppf(1 - sidak(0.025, 3), 9) * wide).max())
    assert interval.hi == pytest.approx((means + student.ppf(0.975, 9) * wide).max())
    assert interval.hi == pytest.approx(0.3 + student.ppf(0.975, 9) * wide[2])  # another group could be the largest
    assert (interval.method, interval.draws) == ("extreme", 400)


def test_the_smallest_is_the_largest_turned_over() -> None:
    means = np.array([0.1, 0.4, 0.3])
    draws = stream(0, "draws").gamma(2.0, 1.0, (500, 3)) + means
    largest = given(extreme_interval(means, draws, n_sets=30, alpha=0.1))
    smallest = given(extreme_interval(-means, -draws, n_sets=30, which="min", alpha=0.1))
    assert smallest.estimate == -largest.estimate
    assert smallest.lo == pytest.approx(-largest.hi)
    assert smallest.hi == pytest.approx(-largest.lo)


def test_the_interval_is_for_95_percent_unless_told_otherwise() -> None:
    means, draws = np.zeros(2), symmetric([1.0, 1.0])
    usual = extreme_interval(means, draws, n_sets=10)
    assert usual == extreme_interval(means, draws, n_sets=10, alpha=0.05)
    assert given(extreme_interval(means, draws, n_sets=10, alpha=0.2)).hi < given(usual).hi


def test_one_skewed_group_widens_the_side_of_its_tail_for_all_groups() -> None:
    steady = np.tile([1.0, -1.0], 200)
    tailed = np.tile([1.5, -0.5, -0.5, -0.5], 100)  # skewness 2 / sqrt(3)
    means = np.array([0.0, -5.0])
    interval = given(extreme_interval(means, np.stack([steady, tailed - 5], axis=1), n_sets=1000))
    error = np.std(steady, ddof=1) * np.sqrt(1000 / 999)
    t = student.ppf(0.975, 999)
    assert interval.hi == pytest.approx((t + 2 / np.sqrt(3) * (2 * t**2 + 1) / 6) * error)
    assert interval.lo == pytest.approx(-student.ppf(1 - sidak(0.025, 2), 999) * error)
    mirrored = given(extreme_interval(means, np.stack([steady, -tailed - 5], axis=1), n_sets=1000))
    fine = student.ppf(1 - sidak(0.025, 2), 999)
    assert mirrored.hi == pytest.approx(t * error)
    assert mirrored.lo == pytest.approx(-(fine + 2 / np.sqrt(3) * (2 * fine**2 + 1) / 6) * error)


def test_the_mean_over_subjects_takes_off_the_bias_of_every_extreme() -> None:
    means = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, -9.0]])
    error = np.array([[1.0, 1.0, 1.0], [0.5, 0.5, 0.5]])
    interval = given(extreme_interval(means, symmetric(error, means), n_sets=[20, 30]))
    wide = error * np.sqrt(np.array([[20 / 19], [30 / 29]]))

    def low(level: float) -> np.ndarray:
        reach = student.ppf(1 - sidak(level, 3), [[19], [29]]) * wide
        return np.asarray((means - reach).max(axis=1))

    high = (means + student.ppf(0.975, [[19], [29]]) * wide).max(axis=1)
    assert interval.estimate == 0.5
    assert interval.lo == pytest.approx(low(0.5).mean() - np.sqrt(((low(0.025) - low(0.5)) ** 2).sum()) / 2)
    assert interval.hi == pytest.approx(0.5 + np.sqrt(((high - [0.0, 1.0]) ** 2).sum()) / 2)
    one = given(extreme_interval(means[:1], symmetric(error, means)[:, :1], n_sets=20))
    assert one == extreme_interval(means[0], symmetric(error, means)[:, 0], n_sets=[20])


def test_attributes_are_averaged_apart_and_the_worst_is_the_answer() -> None:
    # Within: the first attribute has 1 and 3 (mean 2), the second 4 and 0.5 (mean 2.25); mixed it would be 3.5.
    means = np.array([[1.0, 0.0, 4.0], [3.0, 0.0, 0.5]])
    draws = symmetric(np.full(means.shape, 0.1), means)
    interval = given(extreme_interval(means, draws, n_sets=50, attribute=[7, 7, 2]))
    assert interval.estimate == 2.25
    error = 0.1 * np.sqrt(50 / 49)
    reach = student.ppf(1 - sidak(0.025, 2), 49) * error  # alone in its attribute, one of two attributes
    assert interval.lo == pytest.approx(2.25 - np.sqrt(2) * reach / 2)
    assert interval.hi == pytest.approx(2.25 + np.sqrt(2) * student.ppf(0.975, 49) * error / 2)


@pytest.mark.parametrize("sets", [5, [5, 40]])
def test_few_sets_get_a_reason(sets: Any) -> None:
    means = np.zeros((2, 2))
    draws = symmetric(np.ones((2, 2)))
    assert extreme_interval(means, draws, n_sets=sets) == Unavailable("5 sets are too few")
    assert isinstance(extreme_interval(means, draws, n_sets=6), Interval)


def test_a_group_without_spread_or_lost_in_resamples_gets_a_reason() -> None:
    draws = symmetric([1.0, 0.0], [0.0, 0.7])
    still = extreme_interval([0.0, 0.7], draws, n_sets=50, names=("old", "young"))
    assert still == Unavailable("all sets agree on young: its spread is unseen")
    draws[17, 0] = np.nan
    lost = extreme_interval([0.0, 0.7], draws, n_sets=50)
    assert lost == Unavailable("group 0 stands in so few sets that resamples lose it")


def test_two_draws_are_enough_to_show_a_spread() -> None:
    assert isinstance(extreme_interval([0.0, 1.0], [[0.1, 1.1], [-0.1, 0.9]], n_sets=10), Interval)


# Shares


def test_worst_group_accuracy_by_clopper_and_pearson() -> None:
    share = np.array([0.9, 0.8])
    draws = symmetric(np.sqrt(share * (1 - share) / 50), share)  # as 50 independent answers spread
    interval = given(extreme_interval(share, draws, n_sets=50, which="min", trials=[50, 50]))
    assert interval.estimate == 0.8
    assert interval.lo == pytest.approx(beta.ppf(0.025, 40, 11))
    assert interval.hi == pytest.approx(beta.ppf(1 - sidak(0.025, 2), 41, 10))


def test_answers_that_move_together_count_as_fewer() -> None:
    share = np.array([0.9, 0.8])
    draws = symmetric(np.sqrt(share * (1 - share) / 25), share)
    interval = given(extreme_interval(share, draws, n_sets=50, which="min", trials=[50, 50]))
    assert interval.lo == pytest.approx(beta.ppf(0.025, 20, 6))


def test_where_every_answer_was_right_the_trials_bound_the_truth() -> None:
    share = np.array([1.0, 1.0])
    interval = given(extreme_interval(share, symmetric([0.0, 0.0], share), n_sets=40, which="min", trials=[40, 60]))
    assert (interval.estimate, interval.hi) == (1.0, 1.0)
    assert interval.lo == pytest.approx(0.025 ** (1 / 40))
    none = given(extreme_interval(1 - share, symmetric([0.0, 0.0]), n_sets=40, trials=[40, 60]))
    assert (none.estimate, none.lo) == (0.0, 0.0)
    assert none.hi == pytest.approx(1 - 0.025 ** (1 / 40))


def test_shares_that_no_resample_moves_count_their_trials() -> None:
    interval = given(extreme_interval([0.5], symmetric([0.0], [0.5]), n_sets=40, trials=40))
    assert interval.lo == pytest.approx(beta.ppf(0.025, 20, 21))


# Skew


def test_max_skew_is_a_share_of_the_places_a_group_could_take() -> None:
    # A gallery of 300 and 700 images, the top 200 of which show 100 and 100.
    images, k = np.array([300, 700]), 200
    share = np.array([0.5, 0.5])  # of the 200 places
    desired = images / 1000
    draws = np.log(symmetric(np.sqrt(share * (1 - share) / 200), share) / desired)
    skew = np.log(share / desired)
    interval = given(skew_interval(skew, draws, k=k, images=images, n_sets=1000))
    assert interval.estimate == pytest.approx(np.log(5 / 3))
    assert interval.hi == pytest.approx(np.log(beta.ppf(0.975, 101, 100) / 0.3))
    assert interval.lo == pytest.approx(np.log(beta.ppf(sidak(0.025, 2), 100, 101) / 0.3))
    lowest = given(skew_interval(skew, draws, k=k, images=images, n_sets=1000, which="min"))
    assert lowest.estimate == pytest.approx(np.log(5 / 7))
    assert lowest.lo == pytest.approx(np.log(beta.ppf(0.025, 100, 101) / 0.7))
    assert lowest.hi == pytest.approx(np.log(beta.ppf(1 - sidak(0.025, 2), 101, 100) / 0.7))


@pytest.mark.parametrize("share", [0.7, 0.75, 0.8, 0.9])
def test_a_share_that_no_draw_moves_has_the_limits_of_its_places(share: float) -> None:
    skew = np.log([[share, 1 - share]]) + np.log(2)
    gallery = {"k": 100, "images": np.full((1, 2), 160.0), "n_sets": 80}
    found = given(skew_interval(skew, np.tile(skew, (500, 1, 1)), **gallery))
    assert 0.05 < skew.max() - found.lo < 0.4, "as wide as binomial limits of 100 places"
    assert 0.03 < found.hi - skew.max() < 0.2


def test_a_share_that_draws_move_by_little_has_limits_as_near() -> None:
    shares = np.array([0.5, 0.25])
    found = given(extreme_interval(shares, symmetric([1e-7, 1e-7], shares), n_sets=10, trials=20))
    assert [found.hi, found.lo] == pytest.approx([0.5 + 1.96e-7, 0.5 - norm.isf(sidak(0.025, 2)) * 1e-7], abs=1e-9)


def test_no_largest_skew_lies_below_0_and_no_smallest_above() -> None:
    draws = np.log(symmetric([0.1, 0.1], [0.5, 0.5]) * 2)
    how: dict[str, Any] = {"k": 20, "images": [50, 50], "n_sets": 50}
    assert given(skew_interval([0.0, 0.0], draws, **how)).lo == 0.0
    assert given(skew_interval([0.0, 0.0], draws, **how)).hi > 0.3
    assert given(skew_interval([0.0, 0.0], draws, which="min", **how)).hi == 0.0
    assert given(skew_interval([0.0, 0.0], draws, which="min", **how)).lo < -0.3


def test_a_group_with_fewer_images_than_places_is_held_against_its_images() -> None:
    images, k = np.array([8, 92]), 20
    shown = np.array([8, 12])
    skew = np.log(shown / k / (images / 100))
    draws = np.log(symmetric([0.0, 0.02], shown / k) / (images / 100))
    interval = given(skew_interval(skew, draws, k=k, images=images, n_sets=100))
    assert interval.estimate == interval.hi == pytest.approx(np.log(5))  # all eight are shown: no skew is higher
    assert interval.lo == pytest.approx(np.log(5 * sidak(0.025, 2) ** (1 / 8)))


@pytest.mark.parametrize(("desired", "shares"), [("uniform", [0.5, 0.5]), ([0.8, 0.2], [0.8, 0.2])])
def test_skew_against_other_targets(desired: Any, shares: list[float]) -> None:
    share = np.array([0.5, 0.5])
    draws = np.log(symmetric(np.sqrt([0.0125, 0.0125]), share) / shares)
    interval = given(skew_interval(np.log(share / shares), draws, k=20, images=[30, 70], n_sets=100, desired=desired))
    assert interval.hi == pytest.approx(np.log(beta.ppf(0.975, 11, 10) / min(shares)))


def test_shares_are_desired_within_each_attribute() -> None:
    images = np.array([50, 50, 20, 80])
    desired = np.array([0.5, 0.5, 0.2, 0.8])
    skew = np.log(0.5 / desired)
    draws = np.log(symmetric(np.full(4, 0.05), 0.5) / desired)
    how: dict[str, Any] = {"k": 20, "n_sets": 100, "attribute": [0, 0, 1, 1]}
    both = given(skew_interval(skew, draws, images=images, **how))
    alone = given(skew_interval(skew[2:], draws[:, 2:], k=20, images=images[2:], n_sets=100))
    assert both.estimate == alone.estimate == pytest.approx(np.log(2.5))
    assert both.hi == pytest.approx(alone.hi)
    assert 0 < both.lo < alone.lo  # one attribute more that could have been the worst by chance


def test_an_absent_group_bounds_the_largest_skew_and_has_no_smallest() -> None:
    with np.errstate(divide="ignore"):
        skew = np.log(np.array([0.4, 0.6, 0.0]) / [0.45, 0.45, 0.1])
        draws = np.log(symmetric([0.1, 0.1, 0.0], [0.4, 0.6, 0.0]) / [0.45, 0.45, 0.1])
    how: dict[str, Any] = {"k": 10, "images": [45, 45, 10], "n_sets": 50, "names": ("red", "green", "blue")}
    largest = given(skew_interval(skew, draws, **how))
    assert largest.hi == pytest.approx(np.log((1 - 0.025 ** (1 / 10)) / 0.1))  # blue may take 31% of the places
    assert skew_interval(skew, draws, which="min", **how) == Unavailable(
        "no image of blue is in the top 10: its share is unseen"
    )


# NDKL


def test_the_limits_of_ndkl_reach_as_far_as_the_farther_quantile() -> None:
    draws = np.linspace(0.4, 0.8, 1001)  # resamples lie above the estimate
    how: dict[str, Any] = {"k": 20, "shown": [11, 9], "images": [50, 50]}
    interval = given(divergence_interval(0.45, draws, **how))
    assert (interval.estimate, interval.method, interval.draws) == (0.45, "reflected", 1001)
    assert interval.hi == pytest.approx(0.79)
    assert interval.lo == pytest.approx(0.11)
    assert given(divergence_interval(0.2, draws, **how)).lo == 0.0  # NDKL is never negative
    left = given(divergence_interval(0.75, draws, alpha=0.1, **how))
    assert (left.lo, left.hi) == (pytest.approx(0.42), pytest.approx(1.08))


def test_the_larger_ndkl_of_two_attributes_is_the_answer() -> None:
    draws = np.stack([np.linspace(0.4, 0.8, 1001), np.linspace(0.3, 0.5, 1001)], axis=1)
    interval = given(divergence_interval([0.6, 0.4], draws, k=20, shown=[11, 9], images=[50, 50]))
    assert interval.estimate == 0.6
    assert interval.hi == pytest.approx(0.79)
    assert interval.lo == pytest.approx(0.6 - np.quantile(np.linspace(-0.2, 0.2, 1001), 1 - sidak(0.025, 2)))


def test_a_top_k_of_one_group_has_no_interval_of_ndkl() -> None:
    draws = np.linspace(0.4, 0.8, 101)
    of_places = divergence_interval(0.6, draws, k=20, shown=[13, 7], images=[50, 50])
    assert of_places == Unavailable("a group takes all but 7 of its places in the top 20: NDKL is near its limit")
    assert isinstance(divergence_interval(0.6, draws, k=20, shown=[12, 8], images=[50, 50]), Interval)
    of_images = divergence_interval(0.6, draws, k=20, shown=[12, 8], images=[50, 15])
    assert of_images == Unavailable("a group takes all but 7 of its places in the top 20: NDKL is near its limit")


# What it is for


def fair_galleries(sets: int, groups: int, k: int, many: int) -> Any:
    """Fair galleries: skew, its draws, and what a gallery holds."""
    label, of_set = np.tile(np.arange(groups), sets), np.repeat(np.arange(sets), groups)
    held = np.full((400, groups), float(sets))
    for index in range(many):
        rng = stream(1, "gallery", sets, groups, k, index)
        scores = rng.normal(size=(sets, 1)) + rng.normal(size=(sets, groups))
        order = np.argsort(-scores.ravel(), kind="stable")[: 4 * k + 100]
        weights = set_counts(sets, 400, rng)[:, of_set[order]]
        shown = np.bincount(label[order[:k]], minlength=groups)
        draws = skew_of_counts(counts_at_k_weighted(label[order], weights, k, groups=groups), held)
        with np.errstate(divide="ignore"):
            yield np.log(shown / k * groups), draws, held[0]


@pytest.mark.parametrize(("sets", "groups", "k"), [(50, 4, 25), (50, 14, 100), (300, 8, 100)])
def test_max_skew_of_a_fair_ranker_is_covered_where_percentiles_miss_it_always(sets: int, groups: int, k: int) -> None:
    covered = naive = 0
    for skew, draws, held in fair_galleries(sets, groups, k, 80):
        interval = given(skew_interval(skew, draws, k=k, images=held, n_sets=sets))
        covered += interval.lo <= 0 <= interval.hi
        naive += np.quantile(draws.max(axis=1), 0.025) <= 0
    assert covered >= 74
    assert naive <= 8


def test_the_lowest_gap_is_covered_when_groups_are_alike_and_when_one_falls_behind() -> None:
    for shift in (0.0, -0.5):
        covered = naive = 0
        truth = shift * 0.75
        for index in range(200):
            rng = stream(1, "gap", index)
            gaps = rng.normal(size=(50, 4)) + np.array([shift, 0, 0, 0])
            gaps -= gaps.mean(axis=1, keepdims=True)
            draws = set_counts(50, 400, rng) @ gaps / 50
            interval = given(extreme_interval(gaps.mean(axis=0), draws, n_sets=50, which="min"))
            covered += interval.lo <= truth <= interval.hi
            naive += np.quantile(draws.min(axis=1), 0.975) >= truth
        assert covered >= 186
        assert shift or naive <= 20


def test_a_planted_shift_is_seen_and_a_fair_ranker_is_not_accused() -> None:
    accused = sum(
        given(skew_interval(s, d, k=100, images=h, n_sets=50)).lo > 0 for s, d, h in fair_galleries(50, 4, 100, 60)
    )
    assert accused <= 3
    rng = stream(2, "planted")
    scores = (rng.normal(size=(300, 1)) + rng.normal(size=(300, 4)) + np.array([1.5, 0, 0, 0])).ravel()
    order = np.argsort(-scores, kind="stable")
    label, of_set = order % 4, order // 4
    shown = counts_at_k_weighted(label, set_counts(300, 400, rng)[:, of_set], 100, groups=4)
    draws = skew_of_counts(shown, np.full(4, 300))
    skew = np.log(np.bincount(label[:100], minlength=4) / 25)
    interval = given(skew_interval(skew, draws, k=100, images=[300] * 4, n_sets=300))
    assert 0.5 < interval.lo < interval.estimate < interval.hi


# Refusals


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"estimates": []}, r"estimates \(0,\)"),
        ({"estimates": [[[0.1, 0.2]]]}, r"^estimates \(1, 1, 2\), .* attribute \(0,\), 0 names "),
        ({"estimates": 0.1}, r"estimates \(\)"),
        ({"draws": np.zeros((9, 3))}, r"draws \(9, 3\)"),
        ({"draws": np.zeros((1, 2))}, r"draws \(1, 2\)"),
        ({"n_sets": [10, 10]}, r"n_sets \(2,\)"),
        ({"attribute": [0]}, r"attribute \(1,\)"),
        ({"names": ["a"]}, "1 names"),
        ({"which": "most"}, "which='most'"),
        ({"alpha": 0.0}, "alpha is 0"),
        ({"alpha": 1.0}, "alpha is 1"),
        ({"estimates": [0.1, np.nan]}, r"^estimates are not all finite\."),
        ({"estimates": [0.1, -np.inf], "trials": [5, 5]}, r"^estimates are not all finite\."),
        ({"estimates": [0.1, 1.2], "trials": [5, 5]}, r"^estimates are not shares 0\.\.1 of one trial or more\."),
        ({"estimates": [-0.1, 1.0], "trials": [5, 5]}, r"^estimates are not shares 0\.\.1 of one trial or more\."),
        ({"trials": [5, 0]}, r"^estimates are not shares 0\.\.1 of one trial or more\."),
    ],
)
def test_numbers_that_are_no_groups_are_refused(change: dict[str, Any], problem: str) -> None:
    call: dict[str, Any] = {"estimates": [0.1, 0.2], "draws": symmetric([0.1, 0.1]), "n_sets": 10, **change}
    with pytest.raises(StatisticsError, match=problem) as error:
        extreme_interval(call.pop("estimates"), call.pop("draws"), **call)
    assert error.value.where == "interval of an extreme"
    assert error.value.remedy


@pytest.mark.parametrize("skew", [[1.0, -0.2], [np.nan, 0.1]])
def test_skews_that_cannot_come_from_the_gallery_are_refused(skew: list[float]) -> None:
    with pytest.raises(StatisticsError, match="above those of a top 20"):
        skew_interval(skew, symmetric([0.1, 0.1]), k=20, images=[50, 50], n_sets=50)
    highest = [np.log(2), -np.inf]
    assert isinstance(skew_interval(highest, symmetric([0.1, 0.1]), k=20, images=[50, 50], n_sets=50), Interval)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"estimates": np.nan}, "not finite"),
        ({"draws": [0.1, np.inf]}, "not finite"),
        ({"draws": np.zeros((5, 2))}, r"draws \(5, 2\) do not fit estimates \(1,\)"),
        ({"estimates": [[0.1]]}, r"estimates \(1, 1\)"),
        ({"alpha": 1.0}, "alpha is 1"),
    ],
)
def test_ndkl_that_is_no_number_is_refused(change: dict[str, Any], problem: str) -> None:
    call: dict[str, Any] = {"estimates": 0.1, "draws": [0.1, 0.2], **change}
    with pytest.raises(StatisticsError, match=problem):
        divergence_interval(call.pop("estimates"), call.pop("draws"), k=20, shown=[10, 10], images=[50, 50], **call)
