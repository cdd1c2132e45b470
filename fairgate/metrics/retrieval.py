"""Whom a search shows: Skew@K, MaxSkew@K and NDKL under neutral prompts (Geyik et al. 2019; papers 3, 4 and 5).

scores are (queries, images), labels (images,) codes of `groups` declared groups, -1 undefined. Images rank by score
descending, then by position. Undefined images are dropped before ranking. Natural logarithms; 0 is parity.
Every function raises MetricError for scores that are not finite, fewer than two groups, a declared group without an
image, a k beyond the rankable images, and shapes that do not fit. (Other tools answer 0, "perfect", to several.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fairgate.errors import MetricError
from fairgate.metrics import _ranking
from fairgate.metrics._checks import BoolArray, FloatArray, IntArray, at_least_two, every_group
from fairgate.metrics._ranking import Desired

Zero: TypeAlias = Literal["neg_inf", "skip", "clamp_1_over_k", "zero", "laplace"]
"""What a group absent from the top k is given: -inf (the definition); NaN, which MaxSkew and MinSkew pass over; the
share 1/k (Berg's code: under a non-uniform target an absent rare group can become the maximum); a skew of 0
(IntelLabs); or add-one smoothing of both counts (LinkedIn's LiFT)."""


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
    """Whether images of equal score stand on both sides of the cut -> (queries,): there, the order decided.

    >>> tie_at_k([[0.5, 0.5, 0.1]], np.array([0, 1, 0]), 1, groups=2)
    array([ True])
    """
    table, _ = _ranking.gallery(scores, labels, k, groups)
    images = table.shape[1]
    if k == images:
        return np.zeros(table.shape[0], dtype=bool)
    edge = np.partition(table, images - k, axis=1)[:, images - k, None]
    tied: BoolArray = (table >= edge).sum(axis=1) > k
    return tied


def skew_of_counts(
    shown: ArrayLike, present: ArrayLike, *, desired: Desired = "dataset", zero: Zero = "neg_inf"
) -> FloatArray:
    """Skew from images per group: shown (..., groups) in the top k, present (..., groups) in the gallery.

    NaN where `desired="dataset"` and a (resampled) gallery has no image of a group. Shapes broadcast.
    """
    top, gallery = np.asarray(shown), np.asarray(present)
    k, groups = top.sum(axis=-1, keepdims=True), top.shape[-1]
    if zero == "laplace":
        # LiFT adds one to both counts; a share that is given, not counted, has nothing to smooth.
        top, k = top + 1, k + groups
        gallery = gallery + 1
    elif zero == "clamp_1_over_k":
        top = np.maximum(top, 1)
    elif zero not in ("neg_inf", "skip", "zero"):
        raise MetricError(
            f"zero is '{zero}'.", where="zero", remedy="use neg_inf, skip, clamp_1_over_k, zero or laplace"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        skew: FloatArray = np.log(top / k / _ranking.desired_shares(desired, gallery))
    if zero in ("skip", "zero"):
        skew[np.isneginf(skew)] = np.nan if zero == "skip" else 0.0
    return skew


def ndkl_of_ranking(ranked: IntArray, desired: FloatArray) -> FloatArray:
    """NDKL of ranked group codes (rows, k) against desired shares (groups,) or (rows, groups) -> (rows,)."""
    rows, k = ranked.shape
    shares = np.broadcast_to(desired, (rows, desired.shape[-1]))
    groups = shares.shape[1]
    place = np.arange(1, k + 1)
    discount = 1.0 / np.log2(place + 1.0)
    result = np.empty(rows)
    step = max(1, _ranking.CHUNK // (k * groups))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        total = np.zeros(ranked[part].shape)
        for group in range(groups):
            share = np.cumsum(ranked[part] == group, axis=1) / place
            with np.errstate(divide="ignore", invalid="ignore"):
                total += np.where(share > 0, share * np.log(share / shares[part, group, None]), 0.0)
        result[part] = total @ discount / discount.sum()
    return result


@dataclass(frozen=True, slots=True)
class NullSkew:
    """MaxSkew@K of a perfectly fair ranker: what chance alone gives at this k. Print it beside every value."""

    mean: float
    median: float
    p95: float
    draws: int


def expected_max_skew(
    k: int, desired: Desired, n_per_group: ArrayLike, draws: int, rng: np.random.Generator
) -> NullSkew:
    """MaxSkew@K when the top k is a random draw, without replacement, from a gallery of n_per_group (groups,) images.

    A finite k biases MaxSkew upward: with 7 equal groups and k=100 its mean is 0.31. A bound under the null's
    median cannot be met by anyone.
    """
    present = np.asarray(n_per_group, dtype=np.int64)
    at_least_two(present.size)
    every_group(present)
    _ranking.check_k(k, int(present.sum()))
    shown = rng.multivariate_hypergeometric(present, k, size=draws, method="marginals")
    skew = skew_of_counts(shown, present, desired=desired).max(axis=1)
    median, p95 = np.quantile(skew, [0.5, 0.95])
    return NullSkew(mean=float(skew.mean()), median=float(median), p95=float(p95), draws=draws)
