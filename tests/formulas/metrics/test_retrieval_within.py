"""Skew of one attribute inside every group of another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import max_skew_at_k, max_skew_within, relative_difference
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

GENDER = np.array([0, 1, 0, 1, 0, 1, 0, 1])
RACE = np.array([0, 0, 0, 0, 1, 1, 1, 1])
# Race 0 shows one group only, race 1 both; over all images each stands twice in the top four.
SCORES = np.array([[0.9, 0.1, 0.8, 0.2, 0.3, 0.7, 0.2, 0.6]])


def test_skew_hidden_over_all_images_shows_within_the_groups() -> None:
    opposite = np.where(RACE == 0, GENDER == 0, GENDER == 1)[None].astype(float)
    assert max_skew_at_k(opposite, GENDER, 4, groups=2) == pytest.approx([0.0])
    found = max_skew_within(opposite, GENDER, RACE, 2, groups=2, fixed_groups=2)
    assert found.max_skew == pytest.approx(np.full((1, 2), np.log(2)))
    assert found.relative_difference == 0.0


def test_each_fixed_group_is_ranked_alone() -> None:
    rng = stream(0, "within")
    scores, gender, race = rng.random((3, 90)), rng.integers(-1, 2, 90), rng.integers(-1, 3, 90)
    found = max_skew_within(scores, gender, race, 5, groups=2, fixed_groups=3)
    for code in range(3):
        inside = race == code
        expected = max_skew_at_k(scores[:, inside], gender[inside], 5, groups=2)
        assert found.max_skew[:, code] == pytest.approx(expected)
    assert found.relative_difference == relative_difference(found.max_skew)


def test_the_target_and_the_variant_are_passed_on() -> None:
    uneven = np.array([0, 0, 0, 1, 0, 1, 0, 1])
    given: dict[str, Any] = {"groups": 2, "fixed_groups": 2}
    by_dataset = max_skew_within(SCORES, uneven, RACE, 2, **given).max_skew[0, 0]
    assert by_dataset == pytest.approx(np.log(1 / 0.75))
    uniform = max_skew_within(SCORES, uneven, RACE, 2, desired="uniform", **given).max_skew[0, 0]
    assert uniform == pytest.approx(np.log(2))
    clamped = max_skew_within(SCORES, uneven, RACE, 2, zero="clamp_1_over_k", **given).max_skew[0, 0]
    assert clamped == pytest.approx(np.log(0.5 / 0.25))
    assert max_skew_within(SCORES, uneven, RACE, 2, zero="skip", **given).max_skew[0, 0] == by_dataset


def test_the_relative_difference_is_of_the_means_over_queries_and_from_the_least() -> None:
    assert relative_difference([[0.2, 0.5, 0.3], [0.2, 0.3, 0.3]]) == pytest.approx(1.0)
    assert relative_difference([[0.25, 0.41]]) == pytest.approx(0.64)
    assert relative_difference([[0.0, 0.1]]) == float("inf")
    assert relative_difference([[0.0, 0.0]]) == 0.0
    assert relative_difference([[1e-17, 2e-16]]) == 0.0  # parity but for rounding
    with pytest.raises(MetricError, match="not finite"):
        relative_difference([[np.nan, 0.1]])


@pytest.mark.parametrize(
    ("change", "problem", "remedy"),
    [
        ({"k": 5}, r"fixed group 0 has \[2, 2\] images per group, and the top 5", "smallest fixed group"),
        ({"k": 0}, "top 0", "choose k"),
        ({"fixed": np.array([0, 1, 0, 1, 0, 1, 0, 1])}, r"fixed group 0 has \[4, 0\]", "image of every group in each"),
        ({"fixed_groups": 3}, "fixed group 2", "image of every group"),
        ({"fixed_groups": 1, "fixed": np.zeros(8, int)}, "at least two", "declare every group"),
        ({"groups": 1, "labels": np.zeros(8, int)}, "at least two", "declare every group"),
        ({"fixed": RACE[:5]}, "fixed has shape", "one code per image"),
        ({"scores": SCORES * np.nan}, "not finite", "no number there"),
    ],
)
def test_a_fixed_group_that_cannot_be_ranked_is_named(change: dict[str, Any], problem: str, remedy: str) -> None:
    given = {"scores": SCORES, "labels": GENDER, "fixed": RACE, "k": 2, "groups": 2, "fixed_groups": 2} | change
    with pytest.raises(MetricError, match=problem) as caught:
        max_skew_within(**given)
    assert remedy in caught.value.remedy


def test_k_may_be_the_whole_of_a_fixed_group() -> None:
    assert max_skew_within(SCORES, GENDER, RACE, 4, groups=2, fixed_groups=2).max_skew == pytest.approx(
        np.zeros((1, 2))
    )
