"""Whom a search shows: Skew@K, NDKL, Bias@K and entropy under neutral prompts, and R@K, a search's utility.

Geyik et al. 2019; Wang et al. 2021; papers 3 (Howard), 4 (So-B-IT) and 5 (GenSynth).

scores are (queries, images), labels (images,) codes of `groups` declared groups, -1 undefined. Images rank by score
descending, then by position. Undefined images are dropped before ranking (Bias@K keeps them in the ranking and out of
the count). Natural logarithms; 0 is parity, for entropy 1. Every function raises MetricError for scores that are not
finite, fewer than two groups, a declared group without an image, a k beyond the rankable images, and shapes that do
not fit. (Other tools answer 0, "perfect", to several.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics import _ranking
from fairgate.formulas.metrics._checks import BoolArray, FloatArray, finite
from fairgate.formulas.metrics._counts import (
    Several,
    Zero,
    bias_of_counts,
    entropy_of_counts,
    ndkl_of_ranking,
    recall_of_counts,
    skew_of_counts,
)
from fairgate.formulas.metrics._ranking import Desired, ranked_for_bias, with_positives


def skew_at_k(
    scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int, desired: Desired = "dataset", zero: Zero = "neg_inf"
) -> FloatArray:
    """ln(share in the top k / desired share) -> (queries, groups): above 0 is shown too often, below 0 too rarely.

    `desired` is the share in the gallery ("dataset"), 1/groups ("uniform"), or positive shares (groups,) with sum 1.

    >>> skew_at_k([[0.9, 0.8, 0.1, 0.0]], np.array([0, 1, 0, 1]), 2, groups=2)
    array([[0., 0.]])
    """
    table, group = _ranking.gallery(scores, labels, k, groups)
    shown = _ranking.count_groups(group[_ranking.top_k(table, k)], groups)
    return skew_of_counts(shown, np.bincount(group, minlength=groups), desired=desired, zero=zero)


def max_skew_at_k(
    scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int, desired: Desired = "dataset", zero: Zero = "neg_inf"
) -> FloatArray:
    """The largest Skew@K over groups -> (queries,): how far the most favoured group is favoured; 0 is parity.

    >>> max_skew_at_k([[0.9, 0.8, 0.1, 0.0]], np.array([0, 0, 1, 1]), 2, groups=2).round(4)
    array([0.6931])
    """
    skew = skew_at_k(scores, labels, k, groups=groups, desired=desired, zero=zero)
    most: FloatArray = np.nanmax(skew, axis=1)
    return most


def min_skew_at_k(
    scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int, desired: Desired = "dataset", zero: Zero = "neg_inf"
) -> FloatArray:
    """The smallest Skew@K over groups -> (queries,): how far the least favoured group is missing; -inf if wholly.

    >>> min_skew_at_k([[0.9, 0.8, 0.1, 0.0]], np.array([0, 0, 1, 1]), 2, groups=2)
    array([-inf])
    """
    skew = skew_at_k(scores, labels, k, groups=groups, desired=desired, zero=zero)
    least: FloatArray = np.nanmin(skew, axis=1)
    return least


def ndkl_at_k(scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int, desired: Desired = "dataset") -> FloatArray:
    """Normalised discounted KL divergence of every prefix of the top k -> (queries,), in nats, at least 0.

    sum_i KL(p_i || desired) / log2(i + 1) / sum_i 1 / log2(i + 1), i = 1..k. Never 0 for a finite k: the first place
    has room for one group only.

    >>> ndkl_at_k([[0.9, 0.1]], np.array([0, 1]), 1, groups=2).round(4)
    array([0.6931])
    """
    table, group = _ranking.gallery(scores, labels, k, groups)
    shares = _ranking.desired_shares(desired, np.bincount(group, minlength=groups))
    return ndkl_of_ranking(group[_ranking.top_k(table, k)], shares)


def tie_at_k(scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int) -> BoolArray:
    """Whether images of equal score are on both sides of the cut -> (queries,): there, the order decided.

    >>> tie_at_k([[0.5, 0.5, 0.1]], np.array([0, 1, 0]), 1, groups=2)
    array([ True])
    """
    table, _ = _ranking.gallery(scores, labels, k, groups)
    order = _ranking.top_k(table, min(k + 1, table.shape[1]))
    score = np.take_along_axis(table, order, axis=1)
    equal: BoolArray = (score[:, k - 1 : k] == score[:, k:]).any(axis=1)
    return equal


def bias_at_k(
    scores: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    groups: int = 2,
    first: int = 0,
    second: int = 1,
    defined_first: bool = False,
) -> FloatArray:
    """(n_first - n_second) / (n_first + n_second) in the top k -> (queries,), in [-1, 1]; 0 where both are 0.

    Undefined images take places in the top k and are not counted, as in Wang's and GenSynth's code;
    `defined_first=True` drops them before ranking. Signed: opposite biases cancel in a mean over queries, and an
    imbalanced gallery shifts it (Smith et al. 2023), so that it describes a search rather than judges a model.

    >>> bias_at_k([[0.9, 0.8, 0.7, 0.1]], np.array([0, -1, 0, 1]), 4)
    array([0.33333333])
    """
    table, group = ranked_for_bias(scores, labels, k, groups, first, second, defined_first)
    top = group[_ranking.top_k(table, k)]
    return bias_of_counts((top == first).sum(axis=1), (top == second).sum(axis=1))


def normalized_entropy_at_k(scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int) -> FloatArray:
    """Entropy of the groups in the top k over its largest value, ln(groups) -> (queries,): 1 uniform, 0 one group.

    So-B-IT's measure. It compares the top k with equal shares, so that it fits a balanced gallery, as FairFace is. A
    category of words is scored by the mean over its words.

    >>> normalized_entropy_at_k([[0.9, 0.8, 0.1, 0.0]], np.array([0, 1, 0, 1]), 2, groups=2)
    array([1.])
    """
    table, group = _ranking.gallery(scores, labels, k, groups)
    return entropy_of_counts(_ranking.count_groups(group[_ranking.top_k(table, k)], groups))


def recall_at_k(scores: ArrayLike, positives: ArrayLike, k: int, *, several: Several = "share") -> float:
    """R@K: the mean over queries of what the top k holds of a query's positives, in [0, 1]; 1 is the best.

    positives are (queries,) positions of the one right image, or (queries, images) bool. `several="share"` is
    CLIP_benchmark's `recall_at_k`, `"any"` what it and Wang's code report for images with five captions; with one
    positive a query (GenSynth) they agree. Raises MetricError for a query without a positive.

    >>> recall_at_k([[0.9, 0.1, 0.0], [0.8, 0.7, 0.0]], np.array([0, 1]), 1)
    0.5
    """
    table, right = with_positives(scores, positives, k)
    hits = np.take_along_axis(right, _ranking.top_k(table, k), axis=1).sum(axis=1)
    wanted = np.array([np.count_nonzero(row) for row in right])  # eight times as fast as over an axis
    return float(recall_of_counts(hits, wanted, several).mean())


def found_at_k(rank: ArrayLike, k: int) -> FloatArray:
    """1 where the one right answer is among the k first, from its place (1 is the first), else 0: as `rank`.

    The mean is `recall_at_k` with one positive a query, where places are known and scores no longer are.

    >>> found_at_k([1, 3, 2], 2)
    array([1., 0., 1.])
    """
    right: FloatArray = (np.asarray(rank) <= k).astype(np.float64)
    return right


PARITY = 1e-12
"""A mean MaxSkew below this is 0, but for rounding."""


def relative_difference(max_skew: ArrayLike) -> float:
    """(largest - smallest) / smallest of the means over queries of (queries, fixed_groups): 0.64 is "64% more".

    The paper does not print its denominator; this one answers "how much more skewed is the most skewed group". 0 where
    no group is skewed, and infinite where only the smallest is at 0.

    >>> relative_difference([[0.2, 0.5], [0.2, 0.3]])
    1.0
    """
    means = finite("max_skew", max_skew, ("queries", "fixed_groups")).mean(axis=0)
    least, most = float(means.min()), float(means.max())
    if most - least < PARITY:
        return 0.0
    return float("inf") if least < PARITY else (most - least) / least
