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

from fairgate.formulas.metrics import _ranking
from fairgate.formulas.metrics._checks import BoolArray, FloatArray, IntArray
from fairgate.formulas.metrics._counts import Zero, bias_of_counts, entropy_terms, skew_of_counts
from fairgate.formulas.metrics._ranking import Desired, Scores, ranked_for_bias

Cost: TypeAlias = Callable[[IntArray, IntArray], FloatArray]
"""What each number of images in the top k is worth to each group: counts (k + 1, groups) and images per group in the
gallery (groups,) -> (k + 1, groups)."""
Join: TypeAlias = Callable[[Any, Any], Any]
_JOINS: dict[str, tuple[Join, float]] = {
    "sum": (np.add, 0.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}


@dataclass(frozen=True, slots=True)
class TieRange:
    """What a metric can be under any order of tied images; lowest equals highest where ties do not matter."""

    lowest: FloatArray  # (queries,)
    highest: FloatArray
    tied: BoolArray  # (queries,): equal scores on both sides of the cut


def tie_range(
    cost: Cost,
    scores: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    groups: int,
    join: Literal["sum", "max", "min"],
) -> TieRange:
    """The exact range over all tie-breaks of a metric of counts: the sum or extreme of what each group's count costs.

    There is none for a metric that depends on the order inside every run of equal scores, as `ndkl_at_k` does. NaN is
    passed over. Raises MetricError as the metrics of `retrieval` do.

    >>> table = [[0.9, 0.5, 0.5, 0.1]], np.array([0, 0, 1, 1]), 2
    >>> shown = tie_range(lambda counts, _: counts / 2, *table, groups=2, join="max")
    >>> shown.lowest, shown.highest
    (array([0.5]), array([1.]))
    """
    table, group = _ranking.gallery(scores, labels, k, groups)
    sure, tied = _at_the_cut(table, group, k, groups)
    counts = np.repeat(np.arange(k + 1)[:, None], groups, axis=1)
    worth = cost(counts, np.bincount(group, minlength=groups))
    of_two, nothing = _JOINS[join]
    low, high = _joined(np.where(np.isnan(worth), nothing, worth), sure, tied, k, of_two, nothing)
    return TieRange(low, high, _torn(sure, tied, k))


def skew_tie_range(
    scores: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    groups: int,
    extreme: Literal["max", "min"],
    desired: Desired = "dataset",
    zero: Zero = "neg_inf",
) -> TieRange:
    """The range of `max_skew_at_k` or, by `extreme`, of `min_skew_at_k`; options as there.

    >>> skew_tie_range([[0.9, 0.5, 0.5, 0.1]], np.array([0, 0, 1, 1]), 2, groups=2, extreme="max").lowest
    array([0.])
    """

    def skew(shown: IntArray, present: IntArray) -> FloatArray:
        return skew_of_counts(shown, present, desired=desired, zero=zero, k=k)

    return tie_range(skew, scores, labels, k, groups=groups, join=extreme)


def entropy_tie_range(scores: ArrayLike, labels: ArrayLike, k: int, *, groups: int) -> TieRange:
    """The range of `normalized_entropy_at_k`.

    >>> entropy_tie_range([[0.5, 0.5, 0.5, 0.5]], np.array([0, 0, 1, 1]), 2, groups=2).highest
    array([1.])
    """
    return tie_range(
        lambda shown, _: entropy_terms(shown / k) / np.log(groups), scores, labels, k, groups=groups, join="sum"
    )


def bias_tie_range(
    scores: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    groups: int = 2,
    first: int = 0,
    second: int = 1,
    defined_first: bool = False,
) -> TieRange:
    """The range of `bias_at_k`; options as there.

    >>> bias_tie_range([[0.5, 0.5, 0.5, 0.5]], np.array([0, 0, 1, 1]), 2).lowest
    array([-1.])
    """
    ranked, group = ranked_for_bias(scores, labels, k, groups, first, second, defined_first)
    # Undefined images hold places: they are one more group.
    sure, tied = _at_the_cut(ranked, np.where(group < 0, groups, group), k, groups + 1)
    # The fewest and the most images of each group alone in the top k. Bias rises with n_first and falls with n_second,
    # and the most of one goes with the fewest of the other.
    free = k - sure.sum(axis=1, keepdims=True)
    others = tied.sum(axis=1, keepdims=True) - tied
    fewest, most = sure + np.maximum(0, free - others), sure + np.minimum(free, tied)
    low = bias_of_counts(fewest[:, first], most[:, second])
    high = bias_of_counts(most[:, first], fewest[:, second])
    return TieRange(low, high, _torn(sure, tied, k))


def _at_the_cut(table: Scores, group: IntArray, k: int, groups: int) -> tuple[IntArray, IntArray]:
    """Images per group above the score of place k, and at it: twice (queries, groups). group: (images,)."""
    queries, images = table.shape
    sure = np.empty((queries, groups), dtype=np.int64)
    tied = np.empty_like(sure)
    for query, row in enumerate(table):
        edge = np.partition(row, images - k)[images - k]
        sure[query] = np.bincount(group[row > edge], minlength=groups)
        tied[query] = np.bincount(group[row == edge], minlength=groups)
    return sure, tied


def _torn(sure: IntArray, tied: IntArray, k: int) -> BoolArray:
    return cast(BoolArray, (sure + tied).sum(axis=1) > k)


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
