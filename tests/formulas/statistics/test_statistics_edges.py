"""Edges of the statistics: what is counted where draws lie on a bound, thin evidence, inputs of other kinds."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
from regressions import group_changes, group_regression, image_regression
from scipy.stats import norm

from fairgate.formulas.statistics import (
    Design,
    Interval,
    bonferroni,
    bootstrap,
    cluster_ols,
    compare_draws,
    divergence_interval,
    extreme_interval,
    holm,
    moods_median_test,
    paired_statistic_test,
    paired_test,
    set_counts,
    weighted_median,
)
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream

DRAWS = np.linspace(-0.3, 0.1, 401)[:, None] + np.array([0.0, 0.1])  # steps of 0.001 around -0.1 and 0


# Statistics that are no means


def p_by_hand(draws: np.ndarray, estimate: float, margin: float) -> float:
    """That the truth lies at or above -margin: the larger share of draws, or of mirrored draws, that do; not under what
    a normal estimate with their spread would have, and with a tenth of alpha in reserve."""
    beyond = max((draws >= -margin).sum(), (2 * estimate - draws >= -margin).sum())
    normal = norm.sf((-margin - estimate) / draws.std(ddof=1))
    return float(min(max((1 + int(beyond)) / (draws.size + 1), normal) / 0.9, 1.0))


def test_p_values_count_the_draws_and_their_mirror_images_on_the_bound_and_beyond() -> None:
    table = np.array([-4.0] * 96 + [-2.0, -1.0, -1.0, 3.0])
    for estimate, margin in ((-3.5, 1.0), (-3.5, 2.0), (-3.5, 3.0), (-2.0, 1.0), (-3.0, 2.0), (0.0, 0.0)):
        result = paired_statistic_test(estimate, table, n_sets=50, margin=margin)
        assert result.p_adjusted[0] == pytest.approx(p_by_hand(table, estimate, margin))
        mirror = paired_statistic_test(-estimate, -table, n_sets=50, margin=margin, harm="higher")
        assert mirror.p_adjusted[0] == result.p_adjusted[0]
        # not worse: the same evidence looked at from the other side of the margin
        better = paired_statistic_test(-estimate - 2 * margin, -table - 2 * margin, n_sets=50, margin=margin)
        assert better.p_not_worse[0] == pytest.approx(result.p_adjusted[0])


def test_two_groups_of_the_same_draws_cost_no_more_than_one_and_are_counted_apart() -> None:
    estimate = np.array([-0.1, 0.0])
    one = paired_statistic_test(estimate[0], DRAWS[:, 0], n_sets=50, margin=0.05)
    result = paired_statistic_test(estimate, DRAWS, n_sets=50, margin=0.05)  # both groups move together, 0.1 apart
    assert result.p_adjusted[0] == one.p_adjusted[0] == pytest.approx(p_by_hand(DRAWS[:, 0], -0.1, 0.05))
    assert result.p_adjusted[1] == pytest.approx(p_by_hand(DRAWS[:, 1], 0.0, 0.05))
    # alpha less a tenth, of 402, is 18.09: seventeen draws may lie beyond, where they lie farther than a normal's 4.5%
    reach = max(0.2 - 17 * 0.001, norm.isf(0.045) * DRAWS[:, 0].std(ddof=1))
    assert result.hi - estimate == pytest.approx([reach, reach])
    assert estimate - result.lo == pytest.approx([reach, reach])
    assert (result.method, result.draws) == ("percentile and basic bootstrap", 401)
    skewed = paired_statistic_test(0.0, np.concatenate([np.zeros(376), np.arange(25.0)]), n_sets=50, margin=0.0)
    assert skewed.hi == pytest.approx([7.0])  # seventeen draws may lie beyond: the eighteenth is 7
    assert skewed.lo == pytest.approx([-7.0])


def test_equal_draws_are_widened_in_the_order_in_which_they_were_drawn() -> None:
    draws = np.random.default_rng(0).integers(0, 3, 200).astype(np.float64)
    drawn = compare_draws(1.0, draws, n_sets=50, design=Design(0.1, 0.05, "lower")).evidence.over.drawn[:, 0]
    score = ((draws - 1.0) / draws.std(ddof=1)).tolist()
    order = sorted(range(200), key=score.__getitem__)
    wider = {order[at]: max(score[order[at]], -score[order[-1 - at]]) for at in range(200)}
    assert drawn.tolist() == pytest.approx([wider[at] for at in range(200)])


@pytest.mark.parametrize("estimate", [-5.0, 0.5, 5.0])
def test_a_statistic_that_every_resample_repeats_is_known_exactly(estimate: float) -> None:
    result = paired_statistic_test(estimate, np.full(401, estimate), n_sets=50, margin=0.02)
    assert result.overall == ("fail" if estimate < 0 else "pass")
    assert (result.lo[0], result.delta[0], result.hi[0]) == (estimate,) * 3


def test_where_resamples_agree_on_another_value_their_distance_is_the_error() -> None:
    result = paired_statistic_test(0.1, np.full(401, 0.3), n_sets=50, margin=0.02)
    reach = 0.2 * norm.isf(0.045)
    assert [result.lo[0], result.hi[0]] == pytest.approx([0.1 - reach, 0.1 + reach])


def test_sets_needed_follow_from_the_spread_of_the_groups_own_draws() -> None:
    draws = np.stack([DRAWS[:, 0] + 0.1, (DRAWS[:, 0] + 0.1) / 2], axis=1)
    result = paired_statistic_test([0.0, 0.0], draws, n_sets=50, margin=0.05)
    assert result.verdict.tolist() == ["inconclusive"] * 2
    error = draws.std(axis=0, ddof=1)
    reach = np.maximum(np.array([0.183, 0.0915]), norm.isf(0.045) * error)
    assert result.sets_needed.tolist() == np.ceil(((reach + 1.28 * error) / 0.05) ** 2 * 50).tolist()
    assert result.margin_to_settle == pytest.approx(reach.max())
    tiny = paired_statistic_test(0.0, [-1.0, 1.0] * 20, n_sets=10**6, margin=0.5)  # few draws: ddof shows
    spread = np.sqrt(40 / 39)
    assert tiny.sets_needed.tolist() == [np.ceil(((norm.isf(0.045) * spread + 1.28 * spread) / 0.5) ** 2 * 10**6)]


@pytest.mark.parametrize(("harm", "gap"), [("lower", False), ("higher", False), ("either", False), ("lower", True)])
def test_the_margin_that_an_open_comparison_names_is_one_at_which_the_same_sets_pass(
    harm: Literal["lower", "higher", "either"], gap: bool
) -> None:
    rng = np.random.default_rng(5)  # answers are no gaps
    answers = (rng.random((64, 2)) > [0.14, 0.08]).astype(float), (rng.random((64, 2)) > 0.08).astype(float)
    noise = np.random.default_rng(8).normal(-0.03, 0.5, (64, 2)), np.zeros((64, 2))
    for pair in (noise,) if gap else (answers, noise):
        now, before = pair[::-1] if harm == "higher" else pair
        at = partial(paired_test, now, before, harm=harm, gap=gap, draws=1000)
        open_ = at(margin=0.05, rng=stream(1, "test"))
        named = open_.margin_to_settle
        assert open_.overall == "inconclusive"
        assert named is not None
        assert named > 0.05
        for margin in (named, named * 1.1):
            assert at(margin=margin, rng=stream(1, "test")).overall == "pass"


def test_few_sets_say_nothing_unless_nothing_changed_at_all() -> None:
    zero, moved = np.zeros(401), DRAWS[:, 0]
    for estimate, draws in ((0.0, moved), (-0.1, zero), (-0.1, moved)):
        result = paired_statistic_test(estimate, draws, n_sets=5, margin=0.01)
        assert (result.overall, result.p, result.p_not_worse[0]) == ("inconclusive", 1.0, 1.0)
        assert (result.lo[0], result.hi[0]) == (-np.inf, np.inf)
        assert np.isfinite(paired_statistic_test(estimate, draws, n_sets=6, margin=0.01).lo).all()
    assert paired_statistic_test(1.0, moved + 1.0, n_sets=5, margin=0.01).p_not_worse[0] == 1.0
    assert paired_statistic_test(-1.0, moved - 1.0, n_sets=5, margin=0.01).p_adjusted[0] == 1.0
    assert paired_statistic_test(1.0, moved + 1.0, n_sets=6, margin=0.01).p_not_worse[0] < 0.01
    same = paired_statistic_test([0.0, 0.0], np.stack([zero, moved], axis=1), n_sets=5, margin=0.01)
    assert same.verdict.tolist() == ["pass", "inconclusive"]
    assert (same.lo[0], same.hi[0]) == (0.0, 0.0)


# Regressions


def test_two_sets_and_two_groups_are_the_fewest_and_the_method_is_said() -> None:
    candidate, baseline = np.array([[0.5, 0.7], [0.9, 0.9]]), np.array([[0.6, 0.6], [0.7, 0.9]])
    np.testing.assert_allclose(group_changes(candidate, baseline), [[-0.1, 0.1], [0.1, -0.1]])
    methods = []
    for result in (
        group_regression(candidate, baseline, margin=0.05, rng=stream(0, "two"), draws=100),
        image_regression(
            candidate.ravel(), baseline.ravel(), [0, 1, 0, 1], groups=2, margin=0.05, rng=stream(0, "two"), draws=100
        ),
    ):
        assert (result.draws, result.overall) == (100, "inconclusive")
        methods.append(result.method)
    assert methods == ["max-t bootstrap", "max-t bootstrap within groups"]


# Power


# Sign flips


# Intervals by resampling


def test_means_and_percentiles_of_ten_thousand_draws_are_usual() -> None:
    usual = bootstrap([1.0, 2.0, 6.0], 3, stream(0, "usual"))
    assert (usual.estimate, usual.method, usual.draws) == (3.0, "percentile", 10_000)
    assert usual == bootstrap([1.0, 2.0, 6.0], 3, stream(0, "usual"), n=10_000, alpha=0.05)
    means = set_counts(3, 10_000, stream(0, "usual")) @ np.array([1.0, 2.0, 6.0]) / 3
    assert [usual.lo, usual.hi] == pytest.approx(np.quantile(means, [0.025, 0.975]).tolist())
    with pytest.raises(StatisticsError, match=r"^0 set cannot be resampled"):
        bootstrap([], 0, stream(0))


# Comparisons


def test_two_clusters_are_enough_for_an_error() -> None:
    found = cluster_ols([1.0, 2.0, 2.0, 4.0], list("abab"), [0, 0, 1, 1], reference="a")
    assert found.coefficient.tolist() == pytest.approx([1.5, 1.5])
    assert found.clusters == 2
    assert found.error[1] > 0


def test_group_means_are_exactly_the_value_where_all_agree() -> None:
    for value in (0.1, 0.7, 1.1, 5.3):  # sums of three of these, over 3, miss them upwards or downwards
        outcome = [value, 0.0, value, 1.0, value, 3.0]
        assert cluster_ols(outcome, list("ababab"), [0, 0, 1, 1, 2, 2], reference="a").coefficient[0] == value


def test_small_units_have_the_same_evidence() -> None:
    outcome = np.array([1.0, 2, 2, 2, 3, 5])
    usual = cluster_ols(outcome, list("ababab"), [7, 7, 8, 8, 9, 9], reference="a")
    for unit in (1e-9, 1e9):
        scaled = cluster_ols(outcome * unit, list("ababab"), [7, 7, 8, 8, 9, 9], reference="a")
        assert scaled.p.tolist() == pytest.approx(usual.p.tolist())


def test_right_and_wrong_are_outcomes() -> None:
    right = [True, False, True, True, False, True]
    found = cluster_ols(right, list("ababab"), [7, 7, 8, 8, 9, 9], reference="a")
    assert found.coefficient.tolist() == pytest.approx([2 / 3, 0.0])


def single(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def test_single_precision_is_worked_on_in_double() -> None:
    p = single([0.1, 0.3])
    for adjust in (bonferroni, holm):
        assert adjust(p).dtype == np.float64
    step = np.float32(1) + np.finfo(np.float32).eps
    assert moods_median_test(single([1.0, 1.0]), single([step, step])).grand_median == 1 + 2.0**-24
    assert weighted_median(single([1.0, step]), np.ones((1, 2), dtype=np.int32)).tolist() == [1 + 2.0**-24]
    result = paired_statistic_test(single([0.1]), single(DRAWS[:, :1]), n_sets=50, margin=0.1)
    assert (result.delta.dtype, result.lo.dtype, result.hi.dtype) == (np.float64,) * 3
    draws = single(DRAWS)
    of_single = extreme_interval([0.1, 0.2], draws, n_sets=50)
    assert of_single == extreme_interval([0.1, 0.2], draws.astype(np.float64), n_sets=50)
    double = paired_statistic_test(single([0.1]), single(DRAWS[:, :1]).astype(np.float64), n_sets=50, margin=0.1)
    assert (result.lo[0], result.hi[0]) == (double.lo[0], double.hi[0])
    divergence = divergence_interval(single(0.1), single([0.1, 0.3]), k=20, shown=[10, 10], images=[40, 40])
    assert isinstance(divergence, Interval)
    value, low, high = (float(np.float32(number)) for number in (0.1, 0.1, 0.3))
    high -= 0.025 * (high - low)
    assert divergence.hi == pytest.approx(value + (high - value), rel=1e-12)
