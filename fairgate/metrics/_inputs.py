"""Galleries that are checked otherwise than for Skew: with undefined images kept, or with the right answers marked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.errors import MetricError
from fairgate.metrics import _ranking
from fairgate.metrics._checks import BoolArray, IntArray, codes, every_group, finite
from fairgate.metrics._ranking import Scores


def ranked_for_bias(
    scores: ArrayLike, labels: ArrayLike, k: int, groups: int, first: int, second: int, defined_first: bool
) -> tuple[Scores, IntArray]:
    """The gallery that Bias@K ranks, checked: with undefined images (-1) in it, or without."""
    two_groups(first, second, groups)
    if defined_first:
        return _ranking.gallery(scores, labels, k, groups)
    table = finite("scores", scores, ("queries", "images"))
    group = codes("labels", labels, size=table.shape[1], groups=groups)
    _ranking.check_k(k, group.size)
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
    if given.dtype == bool and given.shape == table.shape:
        right = given
    else:
        place = _one_place(given, queries, images)
        right = np.zeros(table.shape, dtype=bool)
        right[np.arange(queries), place] = True
    _ranking.check_k(k, images)
    lost = np.flatnonzero(~right.any(axis=1))
    if lost.size:
        raise MetricError(
            f"{lost.size} of {queries} queries have no positive image.",
            where=f"positives: first at query {int(lost[0])}",
            remedy="leave out queries that nothing in the gallery answers: they cannot be found",
        )
    return table, right


def _one_place(given: NDArray[Any], queries: int, images: int) -> IntArray:
    """Positions (queries,) of one positive each, checked."""
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
    return given.astype(np.int64, copy=False)
