"""Retrieval metrics under resampled counterfactual sets: ranked once, then re-counted with each draw's multiplicities.

`weights` (draws, images) says how often each image stands in a resampled gallery: the multiplicity of its set. Copies
of an image share its place in the ranking, so that the top k of a draw is read off the cumulative weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fairgate.errors import MetricError
from fairgate.metrics import _ranking
from fairgate.metrics._checks import FloatArray, IntArray, at_least_two, codes
from fairgate.metrics._counts import Zero, ndkl_of_ranking, skew_of_counts
from fairgate.metrics._ranking import Desired


def ranking(scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int) -> IntArray:
    """Positions of all rankable images, best first -> (queries, rankable): what the weighted metrics start from.

    Undefined images are left out; raises MetricError as the metrics of `retrieval` do.
    """
    table, _ = _ranking.gallery(scores, labels, k, groups)
    rankable = np.flatnonzero(np.asarray(labels) >= 0)
    return rankable[_ranking.top_k(table, table.shape[1])]


def weighted_group_counts(labels: ArrayLike, weights: ArrayLike, groups: int) -> FloatArray:
    """Images per group of each resampled gallery: labels (images,), weights (draws, images) -> (draws, groups)."""
    weight = np.asarray(weights)
    group = codes("labels", labels, size=weight.shape[-1], groups=groups)
    one_hot = (group[:, None] == np.arange(groups)).astype(np.float64)
    counts = np.empty((weight.shape[0], groups))
    step = max(1, _ranking.CHUNK // max(1, weight.shape[1]))
    for start in range(0, weight.shape[0], step):
        counts[start : start + step] = weight[start : start + step] @ one_hot
    return counts


def counts_at_k_weighted(order_labels: ArrayLike, weights: ArrayLike, k: int, *, groups: int) -> FloatArray:
    """Images per group in the top k of each resampled gallery -> (draws, groups), for one query.

    order_labels (images,) and the columns of weights (draws, images) stand in ranking order, best first. What every
    metric of counts starts from: `entropy_of_counts`, `bias_of_counts`, `skew_of_counts`. Raises MetricError where a
    resampled gallery is smaller than k.

    >>> counts_at_k_weighted(np.array([0, 1, 1]), np.array([[2, 1, 0], [0, 1, 2]]), 2, groups=2)
    array([[2., 0.],
           [0., 2.]])
    """
    group, weight = _ordered(order_labels, weights, groups)
    return _shown(group, weight, k, groups)


def skew_at_k_weighted(
    order_labels: ArrayLike,
    weights: ArrayLike,
    k: int,
    *,
    groups: int,
    desired: Desired = "dataset",
    zero: Zero = "neg_inf",
    present: FloatArray | None = None,
) -> FloatArray:
    """Skew@K of each resampled gallery -> (draws, groups), for one query; arguments as in `counts_at_k_weighted`.

    `present` (draws, groups), from `weighted_group_counts`, saves recounting where many queries share the draws. NaN
    for a group that a resampled gallery lacks.
    """
    group, weight = _ordered(order_labels, weights, groups)
    counts = weighted_group_counts(group, weight, groups) if present is None else present
    return skew_of_counts(_shown(group, weight, k, groups), counts, desired=desired, zero=zero)


def ndkl_at_k_weighted(
    order_labels: ArrayLike,
    weights: ArrayLike,
    k: int,
    *,
    groups: int,
    desired: Desired = "dataset",
    present: FloatArray | None = None,
) -> FloatArray:
    """NDKL@K of each resampled gallery -> (draws,), for one query; arguments as in `skew_at_k_weighted`."""
    group, weight = _ordered(order_labels, weights, groups)
    counts = weighted_group_counts(group, weight, groups) if present is None else present
    shares = np.broadcast_to(_ranking.desired_shares(desired, counts), counts.shape)
    result = np.empty(weight.shape[0])
    for rows, part, place in _tops(group, weight, k):
        ranked = np.repeat(np.tile(part, place.shape[0]), place.ravel()).reshape(place.shape[0], k)
        result[rows] = ndkl_of_ranking(ranked, shares[rows])
    return result


def _ordered(order_labels: ArrayLike, weights: ArrayLike, groups: int) -> tuple[IntArray, IntArray]:
    at_least_two(groups)
    weight = np.asarray(weights)
    if weight.ndim != 2 or not np.issubdtype(weight.dtype, np.integer) or (weight.size and weight.min() < 0):
        raise MetricError(
            f"weights are {weight.dtype} of shape {weight.shape}, not counts (draws, images).",
            where="weights",
            remedy="pass the multiplicity of each image's set: set_counts(...)[:, set_of_image]",
        )
    group = codes("order_labels", order_labels, size=weight.shape[1], groups=groups, undefined=False)
    return group, weight


def _shown(group: IntArray, weight: IntArray, k: int, groups: int) -> FloatArray:
    shown = np.empty((weight.shape[0], groups))
    for rows, part, place in _tops(group, weight, k):
        shown[rows] = place @ (part[:, None] == np.arange(groups))
    return shown


def _tops(group: IntArray, weight: IntArray, k: int) -> Iterator[tuple[slice, IntArray, IntArray]]:
    """Chunks of draws: (their rows, labels of a prefix that holds every top k, how often each of its images counts).

    Multiplicities average one, so that a prefix little longer than k is nearly always enough.
    """
    draws, images = weight.shape
    step = max(1, _ranking.CHUNK // max(1, images))
    for start in range(0, draws, step):
        rows = slice(start, start + step)
        prefix = min(images, 2 * k + 50)
        reached = np.cumsum(weight[rows, :prefix], axis=1, dtype=np.int64)
        while prefix < images and reached[:, -1].min() < k:
            prefix = min(images, 2 * prefix)
            reached = np.cumsum(weight[rows, :prefix], axis=1, dtype=np.int64)
        _ranking.check_k(k, int(reached[:, -1].min()) if prefix == images else k)
        yield rows, group[:prefix], np.diff(np.minimum(reached, k), axis=1, prepend=0)
