"""How far ties decide: the smallest and the largest value of a metric over all orders of images of equal score.

Images above the cut's score are in the top k, and some of those at it. A metric of counts depends on how many of
each group these are, so that the extremes over all tie-breaks are found exactly, group by group, without listing them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.errors import MetricError
from fairgate.metrics import _ranking
from fairgate.metrics._checks import BoolArray, FloatArray, IntArray
from fairgate.metrics._counts import Several, Zero, bias_of_counts, entropy_terms, recall_of_counts, skew_of_counts
from fairgate.metrics._ranking import Desired, Scores, ranked_for_bias, with_positives

CountMetric: TypeAlias = Literal[
    "skew_at_k", "max_skew_at_k", "min_skew_at_k", "bias_at_k", "normalized_entropy_at_k", "ndkl_at_k"
]
Join: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class TieRange:
    """What a metric can be under any order of tied images; lowest equals highest where ties do not matter."""

    lowest: FloatArray  # (queries,), or (queries, groups) for skew_at_k
    highest: FloatArray
    tied: BoolArray  # (queries,): equal scores on both sides of the cut


def tie_range(
    metric: CountMetric,
    scores: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    groups: int,
    desired: Desired = "dataset",
    zero: Zero = "neg_inf",
    first: int = 0,
    second: int = 1,
    defined_first: bool = False,
) -> TieRange:
    """The exact range of `metric` over all tie-breaks; options as in the function of that name.

    Each group of `skew_at_k` has its own range. Raises MetricError for `ndkl_at_k`, whose value hangs on the order
    within every run of equal scores above the cut too.

    >>> tie_range("max_skew_at_k", [[0.9, 0.5, 0.5, 0.1]], np.array([0, 0, 1, 1]), 2, groups=2).lowest
    array([0.])
    """
    values = np.repeat(np.arange(max(k, 0) + 1)[:, None], max(groups, 0), axis=1)
    match metric:
        case "bias_at_k":
            ranked, group = ranked_for_bias(scores, labels, k, groups, first, second, defined_first)
            # Undefined images hold places: they are one more group.
            sure, tied = _at_the_cut(ranked, np.where(group < 0, groups, group), k, groups + 1)
            # Bias rises with n_first and falls with n_second, and the most of one goes with the fewest of the other.
            fewest, most = _limits(sure, tied, k)
            low = bias_of_counts(fewest[:, first], most[:, second])
            high = bias_of_counts(most[:, first], fewest[:, second])
        case "normalized_entropy_at_k":
            table, group = _ranking.gallery(scores, labels, k, groups)
            sure, tied = _at_the_cut(table, group, k, groups)
            low, high = _joined(entropy_terms(values / k) / np.log(groups), sure, tied, k, np.add, 0.0)
        case "skew_at_k" | "max_skew_at_k" | "min_skew_at_k":
            table, group = _ranking.gallery(scores, labels, k, groups)
            sure, tied = _at_the_cut(table, group, k, groups)
            cost = skew_of_counts(values, np.bincount(group, minlength=groups), desired=desired, zero=zero, k=k)
            joined = {"max_skew_at_k": (np.maximum, -np.inf), "min_skew_at_k": (np.minimum, np.inf)}.get(metric)
            if joined is None:
                low, high = _per_group(cost, sure, tied, k)
            else:
                join, nothing = joined
                low, high = _joined(np.where(np.isnan(cost), nothing, cost), sure, tied, k, join, nothing)
        case _:
            raise MetricError(
                f"no range over tie-breaks is known for '{metric}'.",
                where="metric",
                remedy="ask for a metric of counts (skew_at_k, max_skew_at_k, min_skew_at_k, bias_at_k, "
                "normalized_entropy_at_k); ndkl_at_k depends on the order inside every run of equal scores, "
                "so break ties before ranking it",
            )
    return TieRange(low, high, _torn(sure, tied, k))


def recall_tie_range(scores: ArrayLike, positives: ArrayLike, k: int, *, several: Several = "share") -> TieRange:
    """The range of each query's recall over all tie-breaks -> (queries,); a model of one constant score has 0 to 1.

    >>> recall_tie_range([[0.5, 0.5]], np.array([1]), 1).highest
    array([1.])
    """
    table, right = with_positives(scores, positives, k)
    sure, tied = _at_the_cut(table, right.astype(np.int64), k, 2)
    low, high = _limits(sure, tied, k)
    total = right.sum(axis=1)
    return TieRange(
        recall_of_counts(low[:, 1], total, several), recall_of_counts(high[:, 1], total, several), _torn(sure, tied, k)
    )


def _at_the_cut(table: Scores, group: IntArray, k: int, groups: int) -> tuple[IntArray, IntArray]:
    """Images per group above the score of place k, and at it: twice (queries, groups). group: (images,) or as table."""
    queries, images = table.shape
    sure = np.empty((queries, groups), dtype=np.int64)
    tied = np.empty_like(sure)
    for query, row in enumerate(table):
        of_group = group if group.ndim == 1 else group[query]
        edge = np.partition(row, images - k)[images - k]
        sure[query] = np.bincount(of_group[row > edge], minlength=groups)
        tied[query] = np.bincount(of_group[row == edge], minlength=groups)
    return sure, tied


def _torn(sure: IntArray, tied: IntArray, k: int) -> BoolArray:
    return cast(BoolArray, (sure + tied).sum(axis=1) > k)


def _limits(sure: IntArray, tied: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """The fewest and the most images that each group alone can have in the top k: twice (queries, groups)."""
    free = k - sure.sum(axis=1, keepdims=True)
    others = tied.sum(axis=1, keepdims=True) - tied
    return sure + np.maximum(0, free - others), sure + np.minimum(free, tied)


def _per_group(cost: FloatArray, sure: IntArray, tied: IntArray, k: int) -> tuple[FloatArray, FloatArray]:
    fewest, most = _limits(sure, tied, k)
    low, high = np.empty(sure.shape), np.empty(sure.shape)
    for query, group in np.ndindex(sure.shape):
        part = cost[fewest[query, group] : most[query, group] + 1, group]
        low[query, group], high[query, group] = np.fmin.reduce(part), np.fmax.reduce(part)
    return low, high


def _joined(
    cost: FloatArray, sure: IntArray, tied: IntArray, k: int, join: Join, nothing: float
) -> tuple[FloatArray, FloatArray]:
    """Both extremes of join_g cost[count_g, g] over the counts that tie-breaks can give -> twice (queries,)."""
    known: dict[bytes, tuple[float, float]] = {}
    ends = np.empty((2, sure.shape[0]))
    for query, (in_any_case, at_cut) in enumerate(zip(sure, tied, strict=True)):
        key = in_any_case.tobytes() + at_cut.tobytes()
        if key not in known:
            parts = [cost[s : s + t + 1, g] for g, (s, t) in enumerate(zip(in_any_case, at_cut, strict=True))]
            free = int(k - in_any_case.sum())
            known[key] = (_best(parts, free, join, nothing, np.fmin), _best(parts, free, join, nothing, np.fmax))
        ends[:, query] = known[key]
    return ends[0], ends[1]


def _best(parts: list[NDArray[Any]], free: int, join: Join, nothing: float, better: Join) -> float:
    """Hand `free` places to groups, parts[g][x] being the cost of x places, and take the better of all joined costs.

    best[s] is the better cost of handing s places to the groups so far, NaN where they cannot take s.
    """
    best = np.full(free + 1, np.nan)
    best[0] = nothing
    for part in parts:
        following = np.full(free + 1, np.nan)
        for places, value in enumerate(part[: free + 1]):
            following[places:] = better(following[places:], join(best[: free + 1 - places], value))
        best = following
    return float(best[free])
