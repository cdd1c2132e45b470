"""The null of MaxSkew: exact against a full count, against a simulation, and against the published figures."""

from __future__ import annotations

from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import expected_max_skew, skew_of_counts
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream


def counted(k: int, desired: Any, present: list[int]) -> tuple[float, float, float]:
    """Mean, median and 95th percentile over every way to draw k images."""
    tops = [top for top in product(*(range(n + 1) for n in present)) if sum(top) == k]
    ways = np.array([np.prod([comb(n, x) for n, x in zip(present, top, strict=True)]) for top in tops], dtype=float)
    value = skew_of_counts(np.array(tops), present, desired=desired).max(axis=1)
    order = np.argsort(value)
    below = np.cumsum(ways[order]) / ways.sum()
    median, p95 = (value[order][np.flatnonzero(below >= level - 1e-12)[0]] for level in (0.5, 0.95))
    return float(value @ ways / ways.sum()), float(median), float(p95)


@pytest.mark.parametrize("desired", ["dataset", "uniform", [0.5, 0.3, 0.2]])
@pytest.mark.parametrize("present", [[4, 4, 4], [1, 3, 8], [2, 2, 1]])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_exact_null_is_the_mean_over_every_draw(k: int, desired: Any, present: list[int]) -> None:
    null = expected_max_skew(k, desired, present)
    assert (null.mean, null.median, null.p95) == pytest.approx(counted(k, desired, present), abs=1e-9)
    assert null.draws == 0


def test_a_gallery_shown_whole_or_but_for_one_image_is_exact_too() -> None:
    whole = expected_max_skew(12, "dataset", [3, 4, 5])
    assert (whole.mean, whole.median, whole.p95, whole.draws) == (0.0, 0.0, 0.0, 0)
    uneven = expected_max_skew(4, "uniform", [1, 3])
    assert (uneven.mean, uneven.p95) == pytest.approx((np.log(1.5), np.log(1.5)))
    assert expected_max_skew(11, "dataset", [3, 4, 5]).mean == pytest.approx(counted(11, "dataset", [3, 4, 5])[0])


@pytest.mark.parametrize(("groups", "mean", "p95"), [(7, 0.31, 0.48), (14, 0.51, 0.74), (2, 0.075, 0.18)])
def test_a_fair_ranker_is_exactly_as_skewed_at_100_as_the_design_says(groups: int, mean: float, p95: float) -> None:
    null = expected_max_skew(100, "dataset", np.full(groups, 2000))
    assert null.mean == pytest.approx(mean, abs=0.005)
    assert null.p95 == pytest.approx(p95, abs=0.005)
    simulated = expected_max_skew(100, "dataset", np.full(groups, 2000), 20_000, stream(0, "null", groups))
    assert simulated.mean == pytest.approx(null.mean, abs=0.004)
    assert simulated.median == null.median
    assert simulated.draws == 20_000


@pytest.mark.parametrize(("groups", "median", "p95"), [(8, np.log(2), np.log(4)), (12, np.log(3), np.log(4))])
def test_howards_k_leaves_chance_alone_far_from_parity(groups: int, median: float, p95: float) -> None:
    null = expected_max_skew(groups, "uniform", np.full(groups, 100))
    assert null.median == pytest.approx(median)  # 0.69, and 1.10 for twelve groups
    assert null.p95 == pytest.approx(p95)  # 1.39


@pytest.mark.parametrize(("k", "present"), [(100, [60, 900, 300, 4000]), (900, [200, 300, 900, 1500, 2000])])
def test_unequal_and_large_galleries_agree_with_a_simulation(k: int, present: list[int]) -> None:
    null = expected_max_skew(k, "dataset", present)
    simulated = expected_max_skew(k, "dataset", present, 20_000, stream(1, "null", k))
    assert simulated.mean == pytest.approx(null.mean, rel=0.02)
    assert simulated.p95 == pytest.approx(null.p95, rel=0.03)


def test_many_images_or_many_groups_change_nothing_in_the_sum() -> None:
    # Nearly with replacement: two groups of a million, k = 1: always ln 2.
    one = expected_max_skew(1, "dataset", [1_000_000, 1_000_000])
    assert (one.mean, one.median, one.p95) == pytest.approx([np.log(2)] * 3)
    many = expected_max_skew(2, "uniform", np.full(60, 5))
    both_in_one = 4 / 299
    assert many.mean == pytest.approx(np.log(30) + both_in_one * np.log(2))


@pytest.mark.parametrize(
    ("change", "problem", "remedy"),
    [
        ({"draws": 10}, "draws is 10, and rng is missing", "pass neither"),
        ({"rng": np.random.default_rng(0)}, "draws is None, and rng is given", "pass neither"),
        ({"draws": 0, "rng": np.random.default_rng(0)}, "draws is 0", "at least one draw"),
        ({"k": 13}, "k is 13, but 12 images", "between 1 and 12"),
        ({"k": 0}, "k is 0", "between 1 and 12"),
        ({"n_per_group": [12]}, "at least two", "declare every group"),
        ({"n_per_group": [12, 0]}, "have no image", "add images"),
    ],
)
def test_a_null_is_refused_where_there_is_none(change: dict[str, Any], problem: str, remedy: str) -> None:
    with pytest.raises(MetricError, match=problem) as caught:
        expected_max_skew(**{"k": 3, "desired": "dataset", "n_per_group": [4, 8]} | change)
    assert remedy in caught.value.remedy


def test_one_draw_is_a_simulation() -> None:
    null = expected_max_skew(3, "dataset", [4, 8], 1, stream(0, "one"))
    assert null.draws == 1
    assert null.mean == null.median == null.p95


@pytest.mark.parametrize("present", [[6, 1, 2, 3], [1, 6, 3, 2], [3, 2, 1, 6]])
def test_a_value_that_is_reached_in_exactly_half_of_all_draws_is_the_median_whatever_the_processor_rounds_to(present):
    # Of the 66 pairs, 33 (6 of the first group, or one of it and one of the three) stay within ln 2.
    assert expected_max_skew(2, "dataset", present).median == pytest.approx(np.log(2))
