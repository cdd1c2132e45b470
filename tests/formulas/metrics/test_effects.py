"""WEAT's effect size and permutation test: by hand, against scipy, and drawn partitions against all of them."""

from __future__ import annotations

from itertools import permutations, product
from math import comb
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import effect_size, effects, permutation_p, permutation_p_of_groups
from fairgate.ground.errors import MetricError


def test_effect_sizes_by_hand() -> None:
    # means 2 and 1, deviations from 1.5 of +-0.5 and +-1.5: variance (0.25 + 2.25 + 2.25 + 0.25) / 3
    assert effect_size([1.0, 3.0], [0.0, 2.0]) == pytest.approx(1 / (5 / 3) ** 0.5, rel=1e-15)
    assert effect_size([1.0], [0.0]) == pytest.approx(2**0.5, rel=1e-15)  # 1 over the deviation of 0 and 1


def test_ps_by_hand() -> None:
    assert permutation_p([3.0, 2.0], [1.0, 0.0]) == 1 / 6  # of six pairs one has the largest sum
    assert permutation_p([3.0, 1.0], [2.0, 0.0]) == 2 / 6
    assert permutation_p([0.0], [1.0, 1.0]) == 1.0
    assert permutation_p([1.0, 0.0], [1.0, 0.0]) == 5 / 6  # four ties and one larger; with > it would be 1 / 6


def test_targets_that_tie_but_for_rounding_are_no_smaller_at_any_scale() -> None:
    x, y = np.array([0.1, 0.2]), np.array([0.3, 0.0])  # 0.1 + 0.2 is a little more than 0.3
    for scale in (2.0**-30, 1.0, 2.0**30):
        assert permutation_p(scale * x, scale * y) == 4 / 6  # 0.3 twice, 0.4 and 0.5
        with pytest.raises(MetricError, match="all association scores are the same"):
            effect_size(scale * x.sum(keepdims=True), scale * y[:1])
    assert permutation_p([0.0, 0.0], [0.0]) == 1.0
    with pytest.raises(MetricError, match="all association scores are the same"):
        effect_size([0.0, 0.0], [0.0])


def test_of_many_thousand_partitions_the_most_extreme_one_has_its_share() -> None:
    assert permutation_p(np.arange(9.0, 17.0), np.arange(9.0)) == 1 / comb(17, 8)


def test_ps_are_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for sizes in ((4, 4), (3, 5)):
        x, y = (rng.normal(size=size) for size in sizes)
        expected = stats.permutation_test(
            (x, y), lambda a, b: a.mean() - b.mean(), alternative="greater", n_resamples=np.inf, vectorized=False
        )
        assert permutation_p(x, y) == pytest.approx(expected.pvalue, abs=1e-12)


def test_drawn_partitions_estimate_what_all_of_them_say(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.5, 1, 6), rng.normal(0, 1, 6)
    exact = permutation_p(x, y)
    monkeypatch.setattr(effects, "MOST_PARTITIONS", 10)
    drawn = permutation_p(x, y, rng=np.random.default_rng(2), draws=4000)
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * (0.25 / 4000) ** 0.5)


def test_partitions_are_counted_up_to_the_limit_and_drawn_from_a_generator_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effects, "MOST_PARTITIONS", 6)
    assert permutation_p([3.0, 2.0], [1.0, 0.0]) == 1 / 6
    more = [0.0, 0.0, 0.0]
    for wrong in ({}, {"rng": np.random.default_rng(0), "draws": 0}):
        with pytest.raises(MetricError, match="10 partitions are too many to count"):
            permutation_p(more, [0.0, 0.0], **wrong)
    for draws in (1, 7):
        assert permutation_p(more, [0.0, 0.0], rng=np.random.default_rng(0), draws=draws) == 1.0


NUMBERS = [3.0, 2.5, 1.0, 0.5, -1.0, 0.0]
MEMBERS = [[0, 0, 0, 0, 1, 0], [0, 1, 1, 1, 1, 1], [0, 0, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0], [1] * 6, [0] * 6]


def _departures(numbers: Any) -> list[float]:
    """Difference of means over its standard error, but for the deviation that all orders share."""
    sides = [([], []) for _ in MEMBERS]
    for group, side in zip(MEMBERS, sides, strict=True):
        for number, inside in zip(numbers, group, strict=True):
            side[inside].append(number)
    return [
        abs(np.mean(ins) - np.mean(out)) / (1 / len(ins) + 1 / len(out)) ** 0.5 if ins and out else 0.0
        for out, ins in sides
    ]


@pytest.mark.parametrize("sets", [1, 2])
def test_ps_of_groups_estimate_those_over_all_orders_within_sets(sets: int) -> None:
    rows = np.array(NUMBERS).reshape(sets, -1)
    orders = [sum(order, ()) for order in product(*(permutations(row) for row in rows))]
    highest = np.array([max(_departures(order)) for order in orders])
    exact = [(highest >= departure - 1e-9).mean() for departure in _departures(NUMBERS)]
    found = permutation_p_of_groups(rows, MEMBERS, rng=np.random.default_rng(0), draws=4000)
    assert found == pytest.approx(exact, abs=4 * (0.25 / 4000) ** 0.5)
    assert found[4:].tolist() == [1.0, 1.0]


def test_ps_of_groups_are_the_same_however_far_from_zero_numbers_lie() -> None:
    near = permutation_p_of_groups([1, 3, 4, 4, 7, 9], MEMBERS, rng=np.random.default_rng(0))
    far = permutation_p_of_groups(2**50 + np.array([1, 3, 4, 4, 7, 9]), MEMBERS, rng=np.random.default_rng(0))
    assert near.tolist() == far.tolist()
    assert near.min() < 0.5


def test_the_lowest_p_of_groups_is_that_of_the_observed_order_alone() -> None:
    numbers, members = np.arange(30.0), [np.arange(30) < 15]
    assert permutation_p_of_groups(numbers, members, rng=np.random.default_rng(0)).tolist() == [1 / 2000]
    assert permutation_p_of_groups(numbers, members, rng=np.random.default_rng(0), draws=9).tolist() == [1 / 10]


def test_of_many_rows_as_many_orders_are_drawn_as_were_asked_for() -> None:
    """They are drawn in pieces: of equal numbers every order departs as far as the observed one, and p is 1."""
    members = [np.arange(700) < 300]
    assert permutation_p_of_groups(np.zeros(700), members, rng=np.random.default_rng(0)).tolist() == [1.0]
