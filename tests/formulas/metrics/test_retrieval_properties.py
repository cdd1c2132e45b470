"""Skew and NDKL by hand, planted preferences that they must find, and what they must refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.metrics import (
    expected_max_skew,
    max_skew_at_k,
    min_skew_at_k,
    ndkl_at_k,
    skew_at_k,
    skew_of_counts,
    tie_at_k,
)
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

quick = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10_000)


def test_skew_of_a_ranking_counted_by_hand() -> None:
    scores = np.array([[0.9, 0.8, 0.7, 0.6, 0.1, 0.0]])
    labels = np.array([0, 0, 0, 1, 1, 1])
    assert skew_at_k(scores, labels, 4, groups=2)[0] == pytest.approx(np.log([0.75 / 0.5, 0.25 / 0.5]))
    own = skew_at_k(scores, labels, 4, groups=2, desired=[0.75, 0.25])[0]
    assert own == pytest.approx([0.0, 0.0])
    # Prefixes 0, 00: KL to one half is ln 2 at both places.
    assert ndkl_at_k(scores, labels, 2, groups=2)[0] == pytest.approx(np.log(2))


def test_equal_scores_rank_by_position_however_long_the_gallery() -> None:
    labels = np.array([1] * 10 + [0] * 990)
    scores = np.full((2, 1000), 0.5)
    scores[1, 0] = -1.0
    assert skew_at_k(scores, labels, 10, groups=2, desired="uniform")[0].tolist() == [-np.inf, np.log(2)]
    assert skew_at_k(scores, labels, 10, groups=2, desired="uniform")[1] == pytest.approx(np.log([0.2, 1.8]))
    assert tie_at_k(scores, labels, 10, groups=2).tolist() == [True, True]
    assert tie_at_k(scores, labels, 1000, groups=2).tolist() == [False, False]
    assert tie_at_k([[3.0, 2.0, 2.0, 1.0]], np.array([0, 1, 0, 1]), 3, groups=2).tolist() == [False]


@quick
@given(seed=seeds, k=st.integers(1, 36))
def test_a_long_gallery_is_ranked_as_a_full_sort_ranks_it(seed: int, k: int) -> None:
    rng = stream(seed, "ties")
    scores = rng.integers(0, 6, (4, 400)) / 6
    labels = np.concatenate([np.arange(3), rng.integers(0, 3, 397)])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    shown = np.stack([np.bincount(labels[row], minlength=3) for row in order])
    expected = skew_of_counts(shown, np.bincount(labels))
    np.testing.assert_array_equal(skew_at_k(scores, labels, k, groups=3), expected)


@pytest.mark.parametrize(
    ("zero", "absent"),
    [("neg_inf", -np.inf), ("skip", np.nan), ("clamp_1_over_k", np.log(0.5 / 0.5)), ("zero", 0.0)],
)
def test_each_variant_gives_an_absent_group_its_own_value(zero: str, absent: float) -> None:
    skew = skew_at_k([[4.0, 3.0, 2.0, 1.0]], np.array([0, 0, 1, 1]), 2, groups=2, zero=zero)[0]
    assert skew == pytest.approx([np.log(2), absent], nan_ok=True)


def test_min_skew_passes_over_absent_groups_only_where_asked() -> None:
    ranking = [[4.0, 3.0, 2.0, 1.0]], np.array([0, 0, 1, 1]), 2
    assert min_skew_at_k(*ranking, groups=2)[0] == -np.inf
    assert min_skew_at_k(*ranking, groups=2, zero="skip")[0] == pytest.approx(np.log(2))


def test_a_planted_preference_is_found_and_none_is_silent() -> None:
    rng = stream(0, "planted")
    labels = np.tile(np.arange(4), 500)
    fair = rng.normal(size=(50, labels.size))
    null = expected_max_skew(100, "dataset", np.bincount(labels), 2000, rng)
    found = [
        max_skew_at_k(fair + strength * (labels == 2), labels, 100, groups=4).mean() for strength in (0.0, 0.5, 1.0)
    ]
    assert abs(found[0] - null.mean) < 0.03
    assert found[0] < null.p95 < found[1] < found[2]
    assert (skew_at_k(fair + 1.0 * (labels == 2), labels, 100, groups=4).argmax(axis=1) == 2).all()


@pytest.mark.parametrize(("groups", "mean", "p95"), [(7, 0.31, 0.48), (14, 0.51, 0.74), (2, 0.075, 0.18)])
def test_a_fair_ranker_has_the_known_skew_at_100(groups: int, mean: float, p95: float) -> None:
    null = expected_max_skew(100, "dataset", np.full(groups, 2000), 10_000, stream(0, "null", groups))
    assert null.mean == pytest.approx(mean, abs=0.01)
    assert null.p95 == pytest.approx(p95, abs=0.011)
    assert null.draws == 10_000


@pytest.mark.parametrize(("groups", "median"), [(8, np.log(2)), (12, np.log(3))])
def test_at_k_equal_to_the_number_of_groups_chance_alone_is_far_from_parity(groups: int, median: float) -> None:
    null = expected_max_skew(groups, "uniform", np.full(groups, 100), 4000, stream(0, "howard", groups))
    assert null.median == pytest.approx(median)
    assert null.p95 == pytest.approx(np.log(4))


REFUSALS = {
    "NaN": ({"scores": [[0.1, np.nan, 0.2, 0.3]]}, "1 of 4 scores are not finite", "no number there"),
    "infinite": ({"scores": [[0.1, np.inf, 0.2, 0.3]]}, "not finite", "no number there"),
    "one axis": ({"scores": [0.1, 0.2, 0.3, 0.4]}, "has shape", "axes"),
    "empty": ({"scores": np.zeros((0, 4))}, "has shape", "axes"),
    "labels too few": ({"labels": np.array([0, 1])}, "there are 4 images", "one code per image"),
    "labels not codes": ({"labels": np.array([0.0, 1.0, 0.0, 1.0])}, "not integer codes", "code the groups"),
    "label undeclared": ({"labels": np.array([0, 1, 2, 1])}, "the code 2", "declare more than 2"),
    "k too large": ({"k": 5}, "k is 5, but 4 images", "between 1 and 4"),
    "k is zero": ({"k": 0}, "k is 0", "between 1 and 4"),
    "k beyond the defined": ({"labels": np.array([0, 1, -1, -1]), "k": 3}, "but 2 images", "undefined group"),
    "all undefined": ({"labels": np.full(4, -1)}, "0 images can be ranked", "record the attribute"),
    "one group": ({"groups": 1, "labels": np.zeros(4, int)}, "at least two", "declare every group"),
    "absent group": ({"groups": 3}, r"no image: codes \[2\]", "add images of these groups"),
    "unknown target": ({"desired": "fair"}, "'fair'", "'dataset', 'uniform'"),
    "target too short": ({"desired": [1.0]}, "1 shares", "2 positive shares"),
    "target with zero": ({"desired": [1.0, 0.0]}, "from 0", "infinite"),
    "target off one": ({"desired": [0.6, 0.6]}, "sum 1.2", "with sum 1"),
    "unknown variant": ({"zero": "ignore"}, "'ignore'", "neg_inf, skip"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_carry_an_answer_is_refused(case: str) -> None:
    change, problem, remedy = REFUSALS[case]
    given = {"scores": [[0.1, 0.4, 0.2, 0.3]], "labels": np.array([0, 1, 0, 1]), "k": 2, "groups": 2} | change
    with pytest.raises(MetricError, match=problem) as caught:
        skew_at_k(**given)
    assert caught.value.where
    assert remedy in caught.value.remedy
