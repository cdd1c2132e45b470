"""Tie ranges against every tie-break there is, listed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    bias_at_k,
    bias_tie_range,
    entropy_tie_range,
    max_skew_at_k,
    min_skew_at_k,
    normalized_entropy_at_k,
    skew_tie_range,
    tie_at_k,
)
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

METRICS = {
    "max_skew_at_k": max_skew_at_k,
    "min_skew_at_k": min_skew_at_k,
    "bias_at_k": bias_at_k,
    "normalized_entropy_at_k": normalized_entropy_at_k,
}
OPTIONS = [
    *[(name, {"zero": zero}) for name in list(METRICS)[:2] for zero in ("neg_inf", "skip", "clamp_1_over_k", "zero")],
    *[(name, {"zero": "laplace", "desired": "uniform"}) for name in list(METRICS)[:2]],
    ("max_skew_at_k", {"desired": [0.5, 0.3, 0.2]}),
    ("bias_at_k", {}),
    ("bias_at_k", {"first": 2, "second": 0}),
    ("bias_at_k", {"defined_first": True}),
    ("normalized_entropy_at_k", {}),
]
RANGES: dict[str, Any] = {
    "max_skew_at_k": partial(skew_tie_range, extreme="max"),
    "min_skew_at_k": partial(skew_tie_range, extreme="min"),
    "bias_at_k": bias_tie_range,
    "normalized_entropy_at_k": entropy_tie_range,
}


def tie_breaks(scores: np.ndarray, k: int) -> Iterator[np.ndarray]:
    """Scores in which each choice of tied images in turn stands before the others."""
    edge = np.sort(scores)[::-1][k - 1]
    at_edge = np.flatnonzero(scores == edge)
    for chosen in combinations(at_edge, int(k - (scores > edge).sum())):
        broken = scores.astype(float)
        broken[list(chosen)] += 0.25  # scores are integers
        yield broken


def small_gallery(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = stream(seed, "ties")
    labels = rng.permutation(np.concatenate([np.arange(3), rng.integers(-1, 3, 7)]))
    return rng.integers(0, 3, (2, 10)), labels


@pytest.mark.parametrize(("name", "options"), OPTIONS)
@pytest.mark.parametrize("k", [1, 3, 4])
def test_the_range_holds_every_tie_break_and_both_ends_are_reached(name: Any, options: dict[str, Any], k: int) -> None:
    for seed in range(6):
        scores, labels = small_gallery(seed)
        found = RANGES[name](scores, labels, k, groups=3, **options)
        ranked = scores if name == "bias_at_k" and "defined_first" not in options else scores[:, labels >= 0]
        kept = labels if ranked is scores else labels[labels >= 0]
        for query, row in enumerate(ranked):
            values = np.stack([METRICS[name](one[None], kept, k, groups=3, **options)[0] for one in tie_breaks(row, k)])
            np.testing.assert_allclose(found.lowest[query], np.fmin.reduce(values), atol=1e-12)
            np.testing.assert_allclose(found.highest[query], np.fmax.reduce(values), atol=1e-12)
            assert found.tied[query] == (len(values) > 1)


def test_without_ties_at_the_cut_both_ends_are_the_value() -> None:
    scores = np.array([[9.0, 7.0, 7.0, 1.0, 0.0]])  # a tie above the cut decides nothing
    labels = np.array([0, 1, 0, 1, 0])
    for name, metric in METRICS.items():
        found = RANGES[name](scores, labels, 3, groups=2)
        value = metric(scores, labels, 3, groups=2)
        np.testing.assert_allclose(found.lowest, value, atol=1e-12)
        np.testing.assert_allclose(found.highest, value, atol=1e-12)
        assert found.tied.tolist() == tie_at_k(scores, labels, 3, groups=2).tolist() == [False]


def test_a_model_of_one_score_can_be_anything() -> None:
    labels = np.arange(120) % 2
    found = RANGES["max_skew_at_k"](np.zeros((3, 120)), labels, 40, groups=2)
    assert found.lowest == pytest.approx([0.0] * 3)
    assert found.highest == pytest.approx([np.log(2)] * 3)
    assert found.tied.tolist() == [True] * 3
    entropy = entropy_tie_range(np.zeros((1, 120)), labels, 40, groups=2)
    assert (entropy.lowest[0], entropy.highest[0]) == pytest.approx((0.0, 1.0))


def test_the_default_range_takes_an_absent_group_as_minus_infinity_against_the_datasets_shares() -> None:
    ranking = [[1.0, 0.0, 0.0, 0.0]], np.array([0, 0, 1, 1]), 2
    least, most = (skew_tie_range(*ranking, groups=2, extreme=extreme) for extreme in ("min", "max"))
    assert (least.lowest[0], least.highest[0]) == (-np.inf, 0.0)
    assert (most.lowest[0], most.highest[0]) == pytest.approx((0.0, np.log(2)))
    uneven = RANGES["max_skew_at_k"]([[1.0, 0.0, 0.0, 0.0]], np.array([0, 0, 0, 1]), 2, groups=2)
    assert (uneven.lowest[0], uneven.highest[0]) == pytest.approx((np.log(4 / 3), np.log(2)), abs=1e-12)


def test_a_range_is_refused_where_the_value_is() -> None:
    with pytest.raises(MetricError, match="not finite"):
        bias_tie_range([[np.nan, 0.5]], np.array([0, 1]), 1, groups=2)
    with pytest.raises(MetricError, match="k is 3"):
        RANGES["max_skew_at_k"]([[0.1, 0.5]], np.array([0, 1]), 3, groups=2)
