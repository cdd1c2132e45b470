"""The mean of bounded numbers, few of which differ: exact for answers, and no order or unit decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta

from fairgate.formulas.statistics._limits import mean_evidence
from fairgate.formulas.statistics.answers import least_mean, p_mean_above
from fairgate.formulas.statistics.paired import compare_means, decided
from fairgate.formulas.statistics.paired_result import Design

sixteenths = st.lists(st.integers(-16, 16), min_size=2, max_size=40).map(lambda values: np.array(values) / 16)


def drawn(lost: int, images: int, by: float = 1.0) -> NDArray[np.float64]:
    sample = np.zeros(images)
    sample[:lost] = -by
    return sample


@pytest.mark.parametrize(("lost", "images"), [(0, 20), (3, 40), (7, 100)])
def test_of_right_or_wrong_numbers_the_limit_is_clopper_and_pearsons(lost: int, images: int) -> None:
    limit = least_mean(drawn(lost, images), 0.05, -1.0)
    assert -limit == pytest.approx(beta.ppf(0.95, lost + 1, images - lost), abs=1e-3)


@pytest.mark.parametrize("unit", [2.0**-10, 2.0**10])
def test_the_limit_is_as_close_in_every_unit(unit: float) -> None:
    sample = drawn(3, 40, 0.5)
    limit = least_mean(sample, 0.05, -1.0)
    assert least_mean(unit * sample, 0.05, -unit) == pytest.approx(unit * limit, abs=unit * 1e-4)


def test_of_numbers_that_cannot_be_lower_the_limit_is_their_mean() -> None:
    assert least_mean(np.full(5, -1.0), 0.05, -1.0) == -1.0


def test_it_is_the_share_of_dirichlet_weights_that_bring_the_mean_below_the_bound() -> None:
    sample = np.array([-1 / 2, -1 / 16, 3 / 16, *[0.0] * 27])
    weights = np.random.default_rng(0).exponential(size=(400_000, 31))
    means = weights @ np.append(sample, -1.0) / weights.sum(axis=1)
    for bound in (-0.05, -0.1, -0.2):
        assert p_mean_above(sample, bound, -1.0) == pytest.approx((means <= bound).mean(), rel=0.05)


def test_a_bound_nearer_to_0_than_any_number_with_an_inverse_is_0() -> None:
    for bound in (-5e-324, 5e-324):
        assert p_mean_above(np.zeros(5), bound, -1.0) == p_mean_above(np.zeros(5), 0.0, -1.0) == 1.0
    assert p_mean_above(np.ones(5), -5e-324, 0.0) == p_mean_above(np.ones(5), 0.0, 0.0) == 0.0


@given(sample=sixteenths, order=st.randoms(use_true_random=False), bound=st.floats(-0.9, 0.9))
def test_order_does_not_matter_and_less_is_never_evidence_for_more(
    sample: NDArray[np.float64], order: object, bound: float
) -> None:
    turned = sample.copy()
    order.shuffle(turned)  # type: ignore[attr-defined]
    p = p_mean_above(sample, bound, -1.0)
    assert p == p_mean_above(turned, bound, -1.0)
    lower = np.maximum(sample - 1 / 16, -1.0)
    assert p_mean_above(lower, bound, -1.0) >= p - 1e-6
    assert p_mean_above(sample, bound + 0.05, -1.0) >= p - 1e-6


def test_means_over_views_are_no_answers_even_where_their_differences_look_like_them() -> None:
    column = np.array([-1.0] * 6 + [1.0] * 2 + [0.0] * 42)[:, None]

    def p(farthest: float | None) -> float:
        evidence = mean_evidence(column, alpha=0.05, draws=500, rng=np.random.default_rng(0), farthest=farthest)
        return float(evidence.under.z(-0.02)[0])

    assert p(1.0) < p(None)


def test_a_large_loss_of_few_images_fails_and_a_loss_that_few_images_may_hide_does_not_pass() -> None:
    def outcome(sample: NDArray[np.float64]) -> str:
        design = Design(0.05, 0.05, "lower")
        zeros, rng = np.zeros(sample.size), np.random.default_rng(0)
        return decided([compare_means(sample, zeros, design=design, rng=rng, draws=500, farthest=1.0)])[0].outcome(0)

    assert outcome(drawn(7, 20)) == "fail"
    assert outcome(drawn(2, 30, 1 / 16)) == "inconclusive"
    assert outcome(drawn(2, 200, 1 / 16)) == "pass"


@pytest.mark.parametrize("gap", [False, True])
def test_the_same_means_over_views_give_exactly_0_and_pass(gap: bool) -> None:
    same = np.full((20, 2), [0.75, -0.25])
    design, rng = Design(0.0, 0.05, "lower"), np.random.default_rng(0)
    result = decided([compare_means(same, same, design=design, rng=rng, draws=500, gap=gap, farthest=1.0)])[0]
    assert result.overall == "pass"
    assert (result.lo.tolist(), result.hi.tolist()) == ([0.0, 0.0], [0.0, 0.0])
    worse = same - np.r_[0.5, np.zeros(19)][:, None] * [1.0, 0.0]
    result = decided([compare_means(worse, same, design=design, rng=rng, draws=500, gap=gap, farthest=1.0)])[0]
    assert result.verdict.tolist() != ["pass", "pass"]
