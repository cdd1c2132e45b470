"""Who stands in the top k: the one place that ranks, counts groups and works out the desired shares."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.errors import MetricError
from fairgate.metrics._checks import FloatArray, IntArray, at_least_two, codes, every_group, finite

Desired: TypeAlias = Literal["dataset", "uniform"] | ArrayLike
Scores: TypeAlias = NDArray[np.floating[Any]]

CHUNK = 4_000_000
"""Entries of one temporary array: 32 MB of float64."""


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
    """Positions of the k best images per query, (queries, images) -> (queries, k): score descending, then position."""
    queries, images = scores.shape
    order = np.empty((queries, k), dtype=np.int64)
    step = max(1, CHUNK // images)
    for start in range(0, queries, step):
        order[start : start + step] = _top_k(scores[start : start + step], k)
    return order


def _top_k(scores: Scores, k: int) -> IntArray:
    images = scores.shape[1]
    if 4 * k >= images:
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]
    # A partition is five times faster than a sort, but breaks ties at its edge as it likes: those rows are sorted.
    found = np.argpartition(scores, images - k, axis=1)[:, images - k :]
    found.sort(axis=1)
    value = np.take_along_axis(scores, found, axis=1)
    order = np.take_along_axis(found, np.argsort(-value, axis=1, kind="stable"), axis=1)
    edge = value.min(axis=1, keepdims=True)
    torn = np.flatnonzero((scores == edge).sum(axis=1) > (value == edge).sum(axis=1))
    if torn.size:
        order[torn] = np.argsort(-scores[torn], axis=1, kind="stable")[:, :k]
    return order


def count_groups(labels: IntArray, groups: int) -> IntArray:
    """Images per group in each row: (rows, k) -> (rows, groups)."""
    rows = labels.shape[0]
    cell = labels + np.arange(rows)[:, None] * groups
    return np.bincount(cell.ravel(), minlength=rows * groups).reshape(rows, groups)


def desired_shares(desired: Desired, present: NDArray[Any]) -> FloatArray:
    """The shares that the top k is held against, from images per group (..., groups), which may be weighted counts."""
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
