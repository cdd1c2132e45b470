"""Retrieval metrics under resampled counterfactual sets: ranked once, then re-counted with each draw's multiplicities.

`weights` (draws, images) says how often each image is in a resampled gallery: the multiplicity of its set. With `sets`
(images,), the set of each image, `weights` are the multiplicities themselves, (draws, sets). Copies of an image share
its place in the ranking, so that the top k of a draw is read off the cumulative weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.formulas.metrics import _ranking
from fairgate.formulas.metrics._checks import FloatArray, IntArray, at_least_two, codes
from fairgate.formulas.metrics._counts import ndkl_of_ranking
from fairgate.formulas.metrics._ranking import Desired
from fairgate.ground.errors import MetricError

_BLOCK = 1 << 18
"""Entries that are counted at once: the processor's cache holds them."""


def ranking(scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int, best: int | None = None) -> IntArray:
    """Positions of all rankable images, or of so many, best first -> (queries, rankable): what the weighted metrics
    start from.

    Undefined images are left out; raises MetricError as the metrics of `retrieval` do.
    """
    table, _ = _ranking.gallery(scores, labels, k, groups)
    rankable = np.flatnonzero(np.asarray(labels) >= 0)
    return rankable[_ranking.top_k(table, best or table.shape[1])]


def weighted_group_counts(
    labels: ArrayLike, weights: ArrayLike, groups: int, *, sets: ArrayLike | None = None
) -> FloatArray:
    """Images per group of each resampled gallery: labels (images,), weights (draws, images) -> (draws, groups)."""
    weight = np.asarray(weights)
    member = np.arange(weight.shape[-1]) if sets is None else np.asarray(sets)
    group = codes("labels", labels, size=member.size, groups=groups)
    if not (defined := group >= 0).all():
        group, member = group[defined], member[defined]
    if len(weight) == 1:  # the gallery itself: no table of all its sets
        return np.bincount(group, weight[0, member], minlength=groups)[None].astype(np.float64)
    cell = member * groups + group
    images = np.bincount(cell, minlength=weight.shape[-1] * groups).reshape(-1, groups).astype(np.float64)
    counts = np.empty((weight.shape[0], groups))
    step = max(1, _BLOCK // max(1, weight.shape[1]))
    for start in range(0, weight.shape[0], step):
        counts[start : start + step] = weight[start : start + step] @ images
    return counts


def counts_at_k_weighted(
    order_labels: ArrayLike, weights: ArrayLike, k: int, *, groups: int, sets: ArrayLike | None = None
) -> FloatArray:
    """Images per group in the top k of each resampled gallery -> (draws, groups), for one query.

    order_labels (images,) and the columns of weights (draws, images), or sets (images,), are in ranking order, best
    first. What every metric of counts starts from: `entropy_of_counts`, `bias_of_counts`, `skew_of_counts`. Raises
    MetricError where a resampled gallery is smaller than k.

    >>> counts_at_k_weighted(np.array([0, 1, 1]), np.array([[2, 1, 0], [0, 1, 2]]), 2, groups=2)
    array([[2., 0.],
           [0., 2.]])
    """
    group, weight, member = _ordered(order_labels, weights, groups, sets)
    shown = np.empty((weight.shape[0], groups))
    for rows, part, times in _tops(group, weight, member, k):
        shown[rows] = ((np.arange(groups)[:, None] == part).astype(np.float32) @ times).T
    return shown


def ndkl_at_k_weighted(
    order_labels: ArrayLike,
    weights: ArrayLike,
    k: int,
    *,
    groups: int,
    desired: Desired = "dataset",
    present: FloatArray | None = None,
    sets: ArrayLike | None = None,
) -> FloatArray:
    """NDKL@K of each resampled gallery -> (draws,), for one query; arguments as in `counts_at_k_weighted`.

    `present` (draws, groups), from `weighted_group_counts`, saves recounting where many queries share the draws.
    """
    group, weight, member = _ordered(order_labels, weights, groups, sets)
    counts = weighted_group_counts(group, weight, groups, sets=member) if present is None else present
    shares = np.broadcast_to(_ranking.desired_shares(desired, counts), counts.shape)
    result = np.empty(weight.shape[0])
    for rows, part, times in _tops(group, weight, member, k):
        draws, repeats = times.shape[1], times.T.astype(np.int64)
        ranked = np.repeat(np.tile(part, draws), repeats.ravel()).reshape(draws, k)
        result[rows] = ndkl_of_ranking(ranked, shares[rows])
    return result


def _ordered(
    order_labels: ArrayLike, weights: ArrayLike, groups: int, sets: ArrayLike | None
) -> tuple[IntArray, IntArray, IntArray]:
    at_least_two(groups)
    weight = np.asarray(weights)
    if weight.ndim != 2 or not np.issubdtype(weight.dtype, np.integer) or (weight.size and weight.min() < 0):
        raise MetricError(
            f"weights are {weight.dtype} of shape {weight.shape}, not counts (draws, images).",
            where="weights",
            remedy="pass the multiplicity of each image's set: set_counts(...)[:, set_of_image]",
        )
    member = np.arange(weight.shape[-1]) if sets is None else np.asarray(sets)
    group = codes("order_labels", order_labels, size=member.size, groups=groups, undefined=False)
    return group, weight, member


def _tops(
    group: IntArray, weight: IntArray, member: IntArray, k: int
) -> Iterator[tuple[slice, IntArray, NDArray[np.float32]]]:
    """Chunks of draws: (their rows, labels of a prefix that holds every top k, how often each of its images counts).

    The last is (prefix, rows). Multiplicities average one, so that a prefix little longer than k is nearly always
    enough. Whole numbers below 2^24 are exact in float32, which takes half the memory.
    """
    images = group.size
    step = max(1, _BLOCK // max(1, min(images, 2 * k + 50), weight.shape[1]))
    for start in range(0, weight.shape[0], step):
        rows = slice(start, start + step)
        by_set = np.ascontiguousarray(weight[rows].T, dtype=np.float32)
        prefix = min(images, 2 * k + 50)
        times = by_set[member[:prefix]]
        reached = np.cumsum(times, axis=0)
        while prefix < images and reached[-1].min() < k:
            prefix = min(images, 2 * prefix)
            times = by_set[member[:prefix]]
            reached = np.cumsum(times, axis=0)
        smallest = int(reached[-1].min()) if prefix else 0
        if not 1 <= k <= smallest:
            raise MetricError(
                f"the top {k} was asked of a resampled gallery with {smallest} images.",
                where="resampled sets",
                remedy="choose a smaller k: sets differ in size, and some resamples draw the small ones",
            )
        reached -= times
        np.subtract(k, reached, out=reached)  # places that are left when an image's turn comes
        np.clip(times, 0, np.maximum(reached, 0, out=reached), out=times)
        yield rows, group[:prefix], times
