"""Every ranking metric and C-ASC at once, from one pass over a gallery: at hand, or in blocks larger than memory.

The numbers are those of the single functions, at a fraction of the time: one ranking serves all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics import _checks, _ranking
from fairgate.formulas.metrics._counts import bias_of_counts, entropy_of_counts, ndkl_of_ranking, skew_of_counts
from fairgate.formulas.metrics._ranking import Desired, Scores, two_groups
from fairgate.formulas.metrics.associations import Moments, moments
from fairgate.ground.errors import MetricError


@dataclass(frozen=True, slots=True)
class RetrievalOverview:
    """What the functions of `retrieval`, and `c_asc`, say of one gallery."""

    skew: _checks.FloatArray
    """(queries, groups), `skew_at_k`."""
    max_skew: _checks.FloatArray
    """(queries,), `max_skew_at_k`."""
    min_skew: _checks.FloatArray
    """(queries,), `min_skew_at_k`."""
    ndkl: _checks.FloatArray
    """(queries,), `ndkl_at_k`."""
    bias: _checks.FloatArray
    """(queries,), `bias_at_k` of the two groups asked for."""
    entropy: _checks.FloatArray
    """(queries,), `normalized_entropy_at_k`."""
    tie_at_k: _checks.BoolArray
    """(queries,), `tie_at_k`: whether the order of equal scores decided."""
    c_asc: _checks.FloatArray
    """(queries, groups), `c_asc`."""


def retrieval_overview(
    scores: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    groups: int,
    desired: Desired = "dataset",
    first: int = 0,
    second: int = 1,
) -> RetrievalOverview:
    """All metrics of scores (queries, images) and labels (images,), as the single functions define them.

    `first` and `second` are the groups that the bias compares. Raises MetricError wherever a single function does.

    >>> found = retrieval_overview([[0.9, 0.8, 0.1, 0.0]], np.array([0, 1, 0, 1]), 2, groups=2)
    >>> found.max_skew, found.bias, found.entropy
    (array([0.]), array([0.]), array([1.]))
    """
    return _overview([("", scores, labels)], k, groups, desired, (first, second))


def streamed_overview(
    blocks: Iterable[tuple[ArrayLike, ArrayLike]],
    k: int,
    *,
    groups: int,
    desired: Desired = "dataset",
    first: int = 0,
    second: int = 1,
) -> RetrievalOverview:
    """The overview of one gallery that arrives in blocks (scores (queries, n), labels (n,)), in the gallery's order.

    Equal to `retrieval_overview` of the joined blocks, in the memory of two blocks: k + 1 scores per query, images per
    group and moments stay. Blocks may differ in n, and n may be 0. None is held longer, so that a generator that maps a
    file anew for each block lets its pages go. Raises MetricError as `retrieval_overview` does, naming the block, and
    for blocks of different queries.

    >>> halves = [([[0.9, 0.8]], np.array([0, 1])), ([[0.1, 0.0]], np.array([0, 1]))]
    >>> streamed_overview(halves, 2, groups=2).max_skew
    array([0.])
    """
    filled = (
        (f" of block {number}", scores, labels)
        for number, (scores, labels) in enumerate(blocks)
        if np.shape(scores)[1:] != (0,) or np.shape(labels) != (0,)
    )
    return _overview(filled, k, groups, desired, (first, second))


@dataclass(frozen=True, slots=True)
class _Top:
    """The best so far: scores and labels (queries, at most k + 1), best first."""

    scores: Scores
    labels: _checks.IntArray

    def extended(self, table: Scores, group: _checks.IntArray, k: int) -> _Top:
        """The best of these and of later images: at equal scores, the earlier come first."""
        keep = max(k, 0) + 1  # one more shows a tie at the cut
        order = _ranking.top_k(table, min(keep, group.size))
        scores = np.concatenate((self.scores, np.take_along_axis(table, order, axis=1)), axis=1)
        labels = np.concatenate((self.labels, group[order]), axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :keep]
        return _Top(np.take_along_axis(scores, best, axis=1), np.take_along_axis(labels, best, axis=1))


def _overview(
    blocks: Iterable[tuple[str, ArrayLike, ArrayLike]],
    k: int,
    groups: int,
    desired: Desired,
    compared: tuple[int, int],
) -> RetrievalOverview:
    """All metrics of one gallery that arrives in blocks: how errors name one, its scores and its labels."""
    _checks.at_least_two(groups)
    two_groups(*compared, groups)
    defined: _Top | None = None
    everyone: _Top | None = None  # only once an image is undefined: until then the two are one
    merged: Moments | None = None
    for of, scores, labels in blocks:
        table = _checks.floating(f"scores{of}", scores, ("queries", "images"))
        group = _checks.codes(f"labels{of}", labels, size=table.shape[1], groups=groups)
        if defined is None:
            none = np.empty((table.shape[0], 0))
            defined = _Top(none.astype(table.dtype), none.astype(np.int64))
        queries = defined.scores.shape[0]
        if table.shape[0] != queries:
            raise MetricError(
                f"scores{of} hold {table.shape[0]} queries, those before it {queries}.",
                where=f"scores{of}",
                remedy="pass blocks of the same queries, in the same order: a block holds some of the images",
            )
        if (group < 0).any():
            _checks.finite(f"scores{of}", table, ("queries", "images"))
            everyone = (everyone or defined).extended(table, group, k)
            table, group = table[:, group >= 0], group[group >= 0]
        elif everyone is not None:
            everyone = everyone.extended(table, group, k)
        if group.size:
            block = moments(table, group, groups)
            if not np.isfinite(block.squares).all():  # as they are where all scores are, unless these overflow
                _checks.finite(f"scores{of}", table, ("queries", "images"))
            merged = block if merged is None else merged.merged(block)
            defined = defined.extended(table, group, k)
        del scores, table  # before the next block is made
    _ranking.check_k(k, 0 if merged is None else int(merged.counts.sum()))
    assert defined is not None
    assert merged is not None
    _checks.every_group(merged.counts)
    ranked = defined.labels[:, :k]
    shown = _ranking.count_groups(ranked, groups)
    skew = skew_of_counts(shown, merged.counts, desired=desired)
    first, second = ((everyone or defined).labels[:, :k] == code for code in compared)
    return RetrievalOverview(
        skew=skew,
        max_skew=skew.max(axis=1),
        min_skew=skew.min(axis=1),
        ndkl=ndkl_of_ranking(ranked, _ranking.desired_shares(desired, merged.counts)),
        bias=bias_of_counts(first.sum(axis=1), second.sum(axis=1)),
        entropy=entropy_of_counts(shown),
        tie_at_k=(defined.scores[:, k - 1 : k] == defined.scores[:, k:]).any(axis=1),
        c_asc=merged.c_asc(ddof=1),
    )
