"""Who stands in the top k: score descending, then position, whatever the numbers are and however they lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.metrics import _ranking, ndkl_at_k, ranking, skew_at_k, tie_at_k


def shown(scores: np.ndarray, k: int) -> np.ndarray:
    """Who stands in the top k, (queries, images) bool: every image is a group of its own, and one not shown is -inf."""
    images = scores.shape[1]
    return np.isfinite(skew_at_k(scores, np.arange(images), k, groups=images))


def sorted_order(scores: np.ndarray) -> np.ndarray:
    """The definition: a stable sort of everything."""
    return np.argsort(-scores.astype(np.float64), axis=1, kind="stable")


def assert_top(scores: np.ndarray, k: int) -> None:
    wanted = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(wanted, sorted_order(scores)[:, :k], True, axis=1)
    np.testing.assert_array_equal(shown(scores, k), wanted)


@settings(max_examples=50, deadline=None)
@given(
    images=st.integers(2, 200),
    share=st.floats(0, 1),
    values=st.sampled_from([1, 2, 5, 1000]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
def test_the_top_k_is_the_head_of_a_stable_sort(images, share, values, dtype, seed):
    scores = np.random.default_rng(seed).integers(-values, values, (3, images)).astype(dtype)
    assert_top(scores, max(1, round(share * images)))
    np.testing.assert_array_equal(
        ranking(scores, np.arange(images), 1, groups=images),
        sorted_order(scores),
    )


SCORES = np.random.default_rng(0).normal(size=(5, 3000))
PERIODIC = SCORES + 10 * (np.arange(3000) % 8 == 3)
ORDERS: dict[str, np.ndarray] = {
    "random": SCORES,
    "ascending": np.sort(SCORES, axis=1),
    "descending": -np.sort(-SCORES, axis=1),
    "one group of eight ahead": PERIODIC,
    "one image of sixty-four ahead": SCORES + 10 * (np.arange(3000) % 64 == 0),
    "one occupation ahead": SCORES + 10 * (np.arange(3000) // 100 == 7),
    "the last few ahead": SCORES + 10 * (np.arange(3000) >= 2997),
    "all equal": np.zeros((2, 3000)),
    "all equal but the last": np.r_[np.zeros(2999), 1.0][None],
    "few values": np.round(SCORES),
    "half precision": (0.25 + 0.01 * SCORES).astype(np.float16),
    "single precision": SCORES.astype(np.float32),
    "huge": SCORES * 1e300,
    "tiny": SCORES * 1e-310,
}


@pytest.mark.parametrize("scores", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("k", [1, 2, 10, 99, 700, 2999, 3000])
def test_no_order_of_the_gallery_misleads_the_top_k(scores, k):
    assert_top(scores, k)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "columns first": np.asfortranarray,
    "every second image": lambda scores: np.repeat(scores, 2, axis=1)[:, ::2],
    "backwards": lambda scores: scores[:, ::-1].copy()[:, ::-1],
    "transposed": lambda scores: scores.T.copy().T,
    "read only": lambda scores: np.broadcast_to(scores[0], scores.shape),
}


@pytest.mark.parametrize("lay", LAYOUTS.values(), ids=LAYOUTS)
def test_scores_may_lie_in_memory_as_they_like_and_are_left_as_they_were(lay):
    scores = lay(SCORES)
    before = scores.copy()
    assert_top(scores, 20)
    np.testing.assert_array_equal(scores, before)


def test_memory_mapped_scores_are_ranked(tmp_path: Path):
    path = tmp_path / "scores.npy"
    np.save(path, SCORES.astype(np.float16))
    mapped = np.load(path, mmap_mode="r")
    assert_top(mapped, 20)
    assert_top(mapped[:, 100:1900], 20)


def test_zero_and_minus_zero_are_a_tie():
    scores = np.array([[-0.0, 0.0, -1.0, 0.0]])
    labels = np.arange(4)
    assert ranking(scores, labels, 1, groups=4).tolist() == [[0, 1, 3, 2]]
    assert [tie_at_k(scores, labels, k, groups=4)[0] for k in (1, 2, 3, 4)] == [True, True, False, False]


@pytest.mark.parametrize("scores", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("k", [1, 700, 2999, 3000])
def test_a_tie_is_an_equal_score_on_either_side_of_the_cut(scores, k):
    best = -np.sort(-scores.astype(np.float64), axis=1)
    wanted = best[:, k - 1] == best[:, k] if k < 3000 else np.zeros(len(scores), dtype=bool)
    np.testing.assert_array_equal(tie_at_k(scores, np.arange(3000) % 2, k, groups=2), wanted)


def test_many_queries_are_ranked_in_parts_as_at_once(monkeypatch: pytest.MonkeyPatch):
    at_once = ranking(SCORES, np.zeros(3000, dtype=int) + np.arange(3000) % 2, 1, groups=2)
    for cached in (1, 3000, 6000, 9001):  # one query a part, one, two and three
        monkeypatch.setattr(_ranking, "CACHED", cached)
        np.testing.assert_array_equal(ranking(SCORES, np.arange(3000) % 2, 1, groups=2), at_once)
        assert_top(SCORES, 20)


def test_equal_scores_keep_their_order_inside_the_top_k():
    scores, labels = np.array([[1.0] * 40 + [2.0]]), np.r_[np.tile([0, 1], 20), 2]
    other = np.r_[np.tile([1, 0], 20), 2]
    ranked = [2, 0, 1, 0, 1]
    desired = np.array([0.5, 0.3, 0.2])
    share = [np.bincount(ranked[:i], minlength=3) / i for i in range(1, 6)]
    divergence = [sum(p * np.log(p / q) for p, q in zip(row, desired, strict=True) if p) for row in share]
    discount = 1 / np.log2(np.arange(2, 7))
    found = ndkl_at_k(scores, labels, 5, groups=3, desired=desired)
    np.testing.assert_allclose(found, [divergence @ discount / discount.sum()])
    assert abs(found - ndkl_at_k(scores, other, 5, groups=3, desired=desired))[0] > 1e-3
