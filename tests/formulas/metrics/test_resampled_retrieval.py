"""Weighted rankings must give what ranking the repeated images themselves gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.metrics import (
    counts_at_k_weighted,
    ndkl_at_k,
    ndkl_at_k_weighted,
    ranking,
    skew_at_k,
    skew_of_counts,
    weighted_group_counts,
)
from fairgate.formulas.statistics import set_counts
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 60), desired=st.sampled_from(["dataset", "uniform"]))
def test_multiplicities_count_as_repeated_images(seed: int, k: int, desired: str) -> None:
    rng = stream(seed, "weighted")
    sets = np.repeat(np.arange(60), 3)  # each set shows one image of every group
    labels = np.tile(np.arange(3), 60)
    scores = rng.random((1, labels.size))
    order = ranking(scores, labels, k, groups=3)[0]
    weights = set_counts(60, 6, rng)[:, sets]
    given = {"groups": 3, "desired": desired}
    shown = counts_at_k_weighted(labels[order], weights[:, order], k, groups=3)
    skew = skew_of_counts(shown, weighted_group_counts(labels, weights, 3), desired=desired)
    ndkl = ndkl_at_k_weighted(labels[order], weights[:, order], k, **given)
    for draw, weight in enumerate(weights):
        repeated = np.repeat(np.arange(labels.size), weight)
        again = scores[:, repeated], labels[repeated], k
        np.testing.assert_allclose(skew[draw], skew_at_k(*again, **given)[0], atol=1e-12)
        np.testing.assert_allclose(ndkl[draw], ndkl_at_k(*again, **given)[0], atol=1e-12)


def test_the_ranking_leaves_undefined_images_out_and_keeps_positions() -> None:
    assert ranking([[0.1, 0.9, 0.5, 0.7]], np.array([0, -1, 1, 1]), 1, groups=2).tolist() == [[3, 2, 0]]


def test_a_prefix_of_sets_never_drawn_is_looked_past() -> None:
    labels = np.tile([0, 1], 200)
    weights = np.ones((3, 400), dtype=np.int64)
    weights[1, :300] = 0
    np.testing.assert_array_equal(counts_at_k_weighted(labels, weights, 4, groups=2), 2.0)


def test_counts_shared_between_queries_give_the_same_divergence() -> None:
    rng = stream(0, "shared")
    labels = rng.integers(0, 2, 50)
    weights = set_counts(50, 20, rng)
    present = weighted_group_counts(labels, weights, 2)
    assert (present.sum(axis=1) == 50).all()
    np.testing.assert_array_equal(
        ndkl_at_k_weighted(labels, weights, 5, groups=2, present=present),
        ndkl_at_k_weighted(labels, weights, 5, groups=2),
    )


def test_a_group_that_a_draw_lacks_has_no_skew_there() -> None:
    labels, weights = np.array([0, 0, 1]), np.array([[1, 2, 0]])
    shown = counts_at_k_weighted(labels, weights, 2, groups=2)
    skew = skew_of_counts(shown, weighted_group_counts(labels, weights, 2))[0]
    assert skew == pytest.approx([0.0, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("weights", "k", "problem", "remedy"),
    [
        (np.ones((2, 3)), 1, "not counts", "set_counts"),
        (np.ones(3, dtype=int), 1, "not counts", "set_counts"),
        (np.array([[1, -1, 1]]), 1, "not counts", "set_counts"),
        (np.array([[1, 0, 1], [3, 3, 3]]), 3, "top 3 was asked of a resampled gallery with 2", "smaller k"),
        (np.ones((2, 4), dtype=int), 1, "there are 4 images", "one code per image"),
    ],
)
def test_weights_that_are_no_resample_are_refused(weights: np.ndarray, k: int, problem: str, remedy: str) -> None:
    with pytest.raises(MetricError, match=problem) as caught:
        counts_at_k_weighted(np.array([0, 1, 0]), weights, k, groups=2)
    assert remedy in caught.value.remedy
