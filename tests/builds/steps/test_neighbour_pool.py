"""GenSynth's filter against a fixed pool: the exact flags of eq. 5, one candidate at a time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairgate.builds.steps.crop_edit import EditShares, NeighbourPool, NeighbourRule
from fairgate.ground.errors import RecipeError

CASES = json.loads((Path(__file__).parents[2] / "golden" / "knn_filter.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"k{case['K']}")
def test_every_flag_of_the_published_formula_is_met(case):
    expected = case["outputs"]["exclude_self/strict"]
    real = [(case["real"][n], str(group), f"r{n}") for n, group in enumerate(case["real_gender"])]
    made = [(case["synth"][n], str(group), f"s{n}") for n, group in enumerate(case["synth_gender"])]
    pool = NeighbourPool.of(real, made)
    rule = NeighbourRule(case["K"], case["K"], case["tau_R"], case["tau_G"])
    found = [pool.shares(vector, group, owner, rule) for vector, group, owner in made]
    assert [shares.real for shares in found] == pytest.approx(expected["P_R"], abs=1e-12)
    assert [shares.group for shares in found] == pytest.approx(expected["P_G"], abs=1e-12)
    assert [rule.accepts(shares) for shares in found] == expected["accept"]


def test_images_of_its_own_photograph_are_no_neighbours():
    pool = NeighbourPool.of(
        [([0.0], "male", "mine"), ([2.0], "female", "other")], [([0.1], "male", "mine"), ([3.0], "male", "other")]
    )
    assert pool.shares([0.0], "male", "mine", NeighbourRule(1, 2, 0.5, 0.5)) == EditShares(real=1.0, group=0.5)
    assert pool.shares([0.0], "male", "third", NeighbourRule(2, 2, 0.5, 0.5)) == EditShares(real=0.5, group=1.0)


def test_real_and_group_may_look_at_different_numbers_of_neighbours():
    pool = NeighbourPool.of([([9.0], "male", "a")], [([float(n)], "female", "b") for n in range(9)])
    shares = pool.shares([0.0], "female", "c", NeighbourRule(10, 2, 0.0002, 0.4))
    assert (shares.real, shares.group) == (0.1, 1.0)
    assert NeighbourRule(10, 2, 0.0002, 0.4).accepts(shares)


def test_shares_have_to_exceed_their_thresholds():
    rule = NeighbourRule(50, 50, 0.08, 0.5)
    assert rule.accepts(EditShares(0.1, 0.52))
    assert not rule.accepts(EditShares(0.08, 0.52))
    assert not rule.accepts(EditShares(0.1, 0.5))


def test_too_small_a_pool_is_refused():
    pool = NeighbourPool.of([(np.zeros(2), "male", "a")], [])
    with pytest.raises(RecipeError, match="has 0 images of other photographs"):
        pool.shares(np.zeros(2), "male", "a", NeighbourRule(1, 1, 0.5, 0.5))
