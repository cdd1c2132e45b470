"""The top k of a ranking: rank images, count groups, compute the desired shares."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.formulas.metrics._checks import BoolArray, FloatArray, IntArray, at_least_two, codes, every_group, finite
from fairgate.ground.errors import MetricError

Desired: TypeAlias = Literal["dataset", "uniform"] | ArrayLike
Scores: TypeAlias = NDArray[np.floating[Any]]

CHUNK = 4_000_000
"""Entries of one temporary array: 32 MB of float64."""
CACHED = 400_000
"""Entries that are read again while a processor still holds them close: 3 MB of float64."""


def gallery(scores: ArrayLike, labels: ArrayLike, k: int, groups: int) -> tuple[Scores, IntArray]:
    """The rankable part of a gallery: scores (queries, images) and labels without undefined images, k checked."""
    at_least_two(groups)
    table = finite("scores", scores, ("queries", "images"))
    group = codes("labels", labels, size=table.shape[1], groups=groups)
    defined = group >= 0
    if not defined.all():
        table, group = table[:, defined], group[defined]
    check_k(k, group.size)
    every_group(np.bincount(group, minlength=groups))
    return table, group


def check_k(k: int, images: int) -> None:
    """Refuse a k that no ranking of so many images has."""
    if not 1 <= k <= images:
        raise MetricError(
            f"k is {k}, but {images} images can be ranked.",
            where="k",
            remedy=f"choose k between 1 and {images}; images with an undefined group do not count"
            if images
            else "no image has a defined group; record the attribute, or leave the check out",
        )


def top_k(scores: Scores, k: int) -> IntArray:
    """Positions of the k best images per query, (queries, images) -> (queries, k): score descending, then position.

    One pass, in less time than `np.partition` takes: few images reach a bound that k scores are known to reach, and
    those alone are sorted. The scores are finite, 1 <= k <= images; ties stay in order, however many there are.
    """
    queries, images = scores.shape
    order = np.empty((queries, k), dtype=np.int64)
    step = min(queries, max(1, CACHED // images))
    lanes = np.empty((step, images // 2), dtype=scores.dtype)
    for start in range(0, queries, step):
        part = np.ascontiguousarray(scores[start : start + step])
        for query, (row, bound) in enumerate(zip(part, _bound(part, k, lanes), strict=True), start):
            found = (row >= bound).nonzero()[0]
            if found.size > 4 * k:
                found = _narrowed(found, row[found], k)
            order[query] = found[(-row[found]).argsort(kind="stable")[:k]]
    return order


def _bound(part: Scores, k: int, space: Scores) -> Scores:
    """A score that at least k images of each row reach, and seldom many more: (rows, images) -> (rows,).

    Halves are laid over each other until a few times k lanes of maxima are left; their k-th highest is the bound. Odd
    widths: counterfactual sets repeat their groups at an even period, and no group is to fill lanes of its own.
    `space` (at least the rows, half the images) is written over: fresh memory costs more than the comparisons.
    """
    lanes = part
    while lanes.shape[1] >= 8 * k:
        half = (lanes.shape[1] // 2 - 1) | 1
        lanes = np.maximum(lanes[:, :half], lanes[:, half : 2 * half], out=space[: len(part), :half])
    cut = lanes.shape[1] - k
    bound: Scores = np.partition(lanes, cut, axis=1)[:, cut]
    return bound


def _narrowed(found: IntArray, score: Scores, k: int) -> IntArray:
    """The k best of ascending positions, where ties or an unlucky order let far more than k reach the bound."""
    edge = np.partition(score, score.size - k)[score.size - k]
    above = found[score > edge]
    return np.concatenate((above, found[score == edge][: k - above.size]))


def count_groups(labels: IntArray, groups: int) -> IntArray:
    """Images per group in each row: (rows, k) -> (rows, groups)."""
    rows = labels.shape[0]
    cell = labels + np.arange(rows)[:, None] * groups
    return np.bincount(cell.ravel(), minlength=rows * groups).reshape(rows, groups)


def desired_shares(desired: Desired, present: NDArray[Any]) -> FloatArray:
    """The shares that the top k is compared with, from images per group (..., groups), which may be weighted counts."""
    if isinstance(desired, str):
        if desired == "dataset":
            shares: FloatArray = present / present.sum(axis=-1, keepdims=True)
            return shares
        if desired == "uniform":
            return np.full(present.shape[-1], 1.0 / present.shape[-1])
        raise MetricError(
            f"desired is '{desired}'.", where="desired", remedy="use 'dataset', 'uniform' or one share per group"
        )
    shares = finite("desired", desired, ("groups",)).astype(np.float64)
    if shares.size != present.shape[-1] or shares.min() <= 0 or abs(shares.sum() - 1.0) > 1e-6:
        raise MetricError(
            f"desired holds {shares.size} shares from {shares.min():g}, with sum {shares.sum():g}.",
            where="desired",
            remedy=f"pass {present.shape[-1]} positive shares with sum 1: a share of 0 makes every skew infinite",
        )
    return shares


def ranked_for_bias(
    scores: ArrayLike, labels: ArrayLike, k: int, groups: int, first: int, second: int, defined_first: bool
) -> tuple[Scores, IntArray]:
    """The gallery that Bias@K ranks, checked: with undefined images (-1) in it, or without."""
    two_groups(first, second, groups)
    if defined_first:
        return gallery(scores, labels, k, groups)
    table = finite("scores", scores, ("queries", "images"))
    group = codes("labels", labels, size=table.shape[1], groups=groups)
    check_k(k, group.size)
    every_group(np.bincount(group[group >= 0], minlength=groups))
    return table, group


def two_groups(first: int, second: int, groups: int) -> None:
    """Refuse a bias between other than two declared groups."""
    for name, code in (("first", first), ("second", second)):
        if not 0 <= code < groups or first == second:
            raise MetricError(
                f"bias compares group {first} with group {second}, of {groups} declared.",
                where=name,
                remedy=f"name two different groups between 0 and {groups - 1}",
            )


def with_positives(scores: ArrayLike, positives: ArrayLike, k: int) -> tuple[Scores, BoolArray]:
    """Scores and positives as (queries, images), checked: every query has one, and k images can be ranked."""
    table = finite("scores", scores, ("queries", "images"))
    given = np.asarray(positives)
    queries, images = table.shape
    right = given
    if given.dtype != bool or given.shape != table.shape:
        if given.shape != (queries,) or not np.issubdtype(given.dtype, np.integer):
            raise MetricError(
                f"positives are {given.dtype} of shape {given.shape}.",
                where="positives",
                remedy=f"pass one position per query, shape ({queries},), or bool of shape ({queries}, {images})",
            )
        outside = np.flatnonzero((given < 0) | (given >= images))
        if outside.size:
            raise MetricError(
                f"positives holds the position {int(given[outside[0]])}, outside 0..{images - 1}.",
                where=f"positives: first at query {int(outside[0])}",
                remedy="pass positions in the gallery, and leave out queries whose image is not in it",
            )
        right = np.zeros(table.shape, dtype=bool)
        right[np.arange(queries), given] = True
    check_k(k, images)
    lost = np.flatnonzero(~right.any(axis=1))
    if lost.size:
        raise MetricError(
            f"{lost.size} of {queries} queries have no positive image.",
            where=f"positives: first at query {int(lost[0])}",
            remedy="leave out queries that nothing in the gallery answers: they cannot be found",
        )
    return table, right
