"""The formulas of the ranking metrics on images per group: what rankings, resamples, ties and nulls share."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics import _ranking
from fairgate.formulas.metrics._checks import FloatArray, IntArray, at_least_two
from fairgate.formulas.metrics._ranking import Desired
from fairgate.ground.errors import MetricError

Zero: TypeAlias = Literal["neg_inf", "skip", "clamp_1_over_k", "zero", "laplace"]
"""What a group absent from the top k is given: -inf (the definition); NaN, which MaxSkew and MinSkew pass over; the
share 1/k (Berg's code: under a non-uniform target an absent rare group can become the maximum); a skew of 0
(IntelLabs); or add-one smoothing of both counts (LinkedIn's LiFT)."""

Several: TypeAlias = Literal["share", "any"]
"""What counts where a query has several positives: the share of them that is found, or whether any of them is."""


def skew_of_counts(
    shown: ArrayLike,
    present: ArrayLike,
    *,
    desired: Desired = "dataset",
    zero: Zero = "neg_inf",
    k: int | None = None,
) -> FloatArray:
    """Skew from images per group: shown (..., groups) in the top k, present (..., groups) in the gallery.

    `k` is the sum of `shown` unless given. NaN where `desired="dataset"` and a (resampled) gallery has no image of a
    group. Shapes broadcast.

    >>> skew_of_counts([3, 1], [50, 50]).round(4)
    array([ 0.4055, -0.6931])
    """
    top, gallery = np.asarray(shown), np.asarray(present)
    total, groups = top.sum(axis=-1, keepdims=True) if k is None else np.asarray(k), top.shape[-1]
    if zero == "laplace":
        # LiFT adds one to both counts; a share that is given, not counted, has nothing to smooth.
        top, total = top + 1, total + groups
        gallery = gallery + 1
    elif zero == "clamp_1_over_k":
        top = np.maximum(top, 1)
    elif zero not in ("neg_inf", "skip", "zero"):
        raise MetricError(
            f"zero is '{zero}'.", where="zero", remedy="use neg_inf, skip, clamp_1_over_k, zero or laplace"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        skew: FloatArray = np.log(top / total / _ranking.desired_shares(desired, gallery))
    if zero in ("skip", "zero"):
        skew[np.isneginf(skew)] = np.nan if zero == "skip" else 0.0
    return skew


def bias_of_counts(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """(first - second) / (first + second) of two counts, in [-1, 1]; 0 where both are 0.

    >>> bias_of_counts([3, 0, 0], [1, 2, 0])
    array([ 0.5, -1. ,  0. ])
    """
    shown, other = np.asarray(first), np.asarray(second)
    total = shown + other
    ratio: FloatArray = np.divide(shown - other, total, out=np.zeros(total.shape), where=total > 0)
    return ratio


def entropy_of_counts(shown: ArrayLike) -> FloatArray:
    """Normalised entropy of counts (..., groups), H / ln(groups): 1 is uniform, 0 is one group alone.

    Raises MetricError where nothing is counted, and for fewer than two groups.

    >>> entropy_of_counts([[5, 5], [4, 0]])
    array([1., 0.])
    """
    counts = np.asarray(shown)
    at_least_two(counts.shape[-1])
    total = counts.sum(axis=-1, keepdims=True)
    if (total <= 0).any():
        raise MetricError(
            "the entropy of no images was asked for.",
            where="shown",
            remedy="leave out rows that count no image: they have no distribution over groups",
        )
    entropy: FloatArray = entropy_terms(counts / total).sum(axis=-1) / np.log(counts.shape[-1])
    return entropy


def entropy_terms(share: FloatArray) -> FloatArray:
    """-p ln p of each share, in nats; 0 at p = 0 and p = 1."""
    # + 0.0 makes the -0.0 of a share of 1 a plain 0.
    return -share * np.log(np.where(share > 0, share, 1.0)) + 0.0


def recall_of_counts(found: ArrayLike, positives: ArrayLike, several: Several) -> FloatArray:
    """Recall of each query from how many of its positives were found -> (queries,)."""
    hits, total = np.asarray(found), np.asarray(positives)
    if several not in ("share", "any"):
        raise MetricError(
            f"several is '{several}'.", where="several", remedy="use 'share' (of the positives) or 'any' (of them)"
        )
    recall: FloatArray = (hits > 0).astype(np.float64) if several == "any" else hits / total
    return recall


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
