"""Beside every rank metric stands what a perfectly fair ranker has, and a bound that even it misses is refused."""

from __future__ import annotations

import numpy as np
import pytest
from toy_repository import SUITE, Toy

from fairgate import gate
from fairgate.formulas.metrics import NullSkew, expected_max_skew
from fairgate.ground.errors import SuiteError

K = "k: 60"


def nulls(toy: Toy, *checks: str) -> dict[str, NullSkew]:
    toy.write_suite(SUITE + "".join(f"  - {{id: x{at}, probe: search, {check}}}\n" for at, check in enumerate(checks)))
    found = gate.prepare("jobs", toy.root).null
    return {item: null for item, null in found.items() if item.startswith("x")}


def test_of_one_subject_and_grouping_it_is_the_exact_one(toy: Toy) -> None:
    exact = expected_max_skew(60, "dataset", [80, 80])
    for null in nulls(toy, f"metric: max_skew_at_k, {K}, over: gender, by: subject, at_most: 1").values():
        assert null.median == pytest.approx(exact.median, abs=0.04)
        assert null.p95 == pytest.approx(exact.p95, abs=0.04)
        assert null.mean == pytest.approx(exact.mean, abs=0.01)


def test_of_several_subjects_it_is_the_averages_and_narrower(toy: Toy) -> None:
    one, average = (
        nulls(toy, f"metric: max_skew_at_k, {K}, over: gender,{by} at_most: 1") for by in (" by: subject,", "")
    )
    single, both = one["x0[chef]"], average["x0"]
    exact = expected_max_skew(60, "dataset", [80, 80])
    assert both.mean == pytest.approx(single.mean, abs=0.01)
    assert both.p95 < single.p95
    assert both.p95 > exact.median


def test_of_several_groupings_it_is_the_worst_ones(toy: Toy) -> None:
    alone, worst = nulls(
        toy,
        f"metric: max_skew_at_k, {K}, over: gender, at_most: 1",
        f"metric: max_skew_at_k, {K}, over: each, at_most: 1",
    ).values()
    assert worst.mean > alone.mean + 0.01


def test_every_rank_metric_has_one_on_its_own_side(toy: Toy) -> None:
    found = nulls(
        toy,
        f"metric: min_skew_at_k, {K}, over: crossed, by: subject, at_least: -5",
        f"metric: ndkl_at_k, {K}, over: gender, by: subject, at_most: 5",
        f"metric: bias_at_k, {K}, over: gender, by: subject, at_most: 0.9",
        f"metric: normalized_entropy_at_k, {K}, over: crossed, by: subject, at_least: 0.1",
        f"metric: max_skew_at_k, {K}, over: gender, by: subject, no_worse_than: baseline, margin: 0.1",
    )
    doctor = {item[:2]: null for item, null in found.items() if item.endswith("[doctor]")}
    assert set(doctor) == {"x0", "x1", "x2", "x3", "x4"}
    assert doctor["x0"].p95 < doctor["x0"].median < 0
    assert 0 < doctor["x1"].median < doctor["x1"].p95
    assert 0 <= doctor["x2"].median < doctor["x2"].p95 < 0.5
    assert doctor["x3"].p95 < doctor["x3"].median < 1


def test_the_fair_rankers_bias_is_that_of_a_draw_without_replacement(toy: Toy) -> None:
    (null,) = nulls(toy, f"metric: bias_at_k, {K}, over: [gender], at_most: 0.9").values()
    rng = np.random.default_rng(1)
    first = rng.hypergeometric(80, 80, 60, size=(20_000, 2))
    simulated = np.abs(2 * first - 60).mean(axis=1) / 60
    assert null.mean == pytest.approx(simulated.mean(), abs=0.005)
    assert null.p95 == pytest.approx(np.quantile(simulated, 0.95), abs=0.02)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("metric: max_skew_at_k, k: 60, over: crossed, by: subject, at_most: 0.1", "raise the bound"),
        ("metric: max_skew_at_k, k: 60, over: crossed, at_most: 0.1", "raise the bound"),
        ("metric: min_skew_at_k, k: 60, over: crossed, by: subject, at_least: -0.1", "lower the bound"),
        ("metric: ndkl_at_k, k: 60, over: crossed, by: subject, at_most: 0.05", "raise the bound"),
        ("metric: bias_at_k, k: 60, over: gender, at_most: 0.01", "raise the bound"),
        ("metric: normalized_entropy_at_k, k: 60, over: crossed, at_least: 0.999", "lower the bound"),
    ],
)
def test_a_bound_that_a_fair_ranker_misses_half_of_the_time_is_refused(toy: Toy, check: str, said: str) -> None:
    with pytest.raises(SuiteError, match="a perfectly fair ranker would have") as caught:
        nulls(toy, check)
    assert said in str(caught.value.remedy)
    assert "in 95 of 100 rankings" in caught.value.problem


def test_a_k_beyond_a_subjects_gallery_is_refused(toy: Toy) -> None:
    with pytest.raises(SuiteError, match="ranks the top 161 of 'chef', which has 160 images"):
        nulls(toy, "metric: min_skew_at_k, k: 161, over: crossed, at_least: -9")
