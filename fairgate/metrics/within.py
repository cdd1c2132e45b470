"""Marginal skew under a fixed other attribute: gender skew among the images of one race (paper 3, figure 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairgate.errors import MetricError
from fairgate.metrics import _ranking
from fairgate.metrics._checks import FloatArray, at_least_two, codes, finite
from fairgate.metrics._counts import Zero, skew_of_counts
from fairgate.metrics._ranking import Desired

PARITY = 1e-12
"""A mean MaxSkew below this is 0, but for rounding."""


@dataclass(frozen=True, slots=True)
class SkewWithin:
    """MaxSkew@K of one attribute inside every group of another, and how far these groups differ."""

    max_skew: FloatArray  # (queries, fixed_groups)
    relative_difference: float  # of the means over queries


def max_skew_within(
    scores: ArrayLike,
    labels: ArrayLike,
    fixed: ArrayLike,
    k: int,
    *,
    groups: int,
    fixed_groups: int,
    desired: Desired = "dataset",
    zero: Zero = "neg_inf",
) -> SkewWithin:
    """MaxSkew@K over `labels` among the images of each code of `fixed` (images,), each ranked alone.

    Paper 3, figure 2 (right): gender skew among the images of one race, for every race. A model may be at parity
    over all images and skewed within each race. Images undefined in either attribute are left out. Where every
    subject has a gallery of its own, stack the `max_skew` of the subjects and call `relative_difference` on all.

    >>> scores, gender, race = [[0.9, 0.8, 0.7, 0.6]], np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    >>> max_skew_within(scores, gender, race, 1, groups=2, fixed_groups=2).max_skew.round(4)
    array([[0.6931, 0.6931]])
    """
    at_least_two(groups)
    at_least_two(fixed_groups)
    table = finite("scores", scores, ("queries", "images"))
    group = codes("labels", labels, size=table.shape[1], groups=groups)
    other = codes("fixed", fixed, size=table.shape[1], groups=fixed_groups)
    skew = np.empty((table.shape[0], fixed_groups))
    for code in range(fixed_groups):
        inside = (other == code) & (group >= 0)
        present = np.bincount(group[inside], minlength=groups)
        if present.min() == 0 or not 1 <= k <= present.sum():
            raise MetricError(
                f"fixed group {code} has {present.tolist()} images per group, and the top {k} of it were asked for.",
                where=f"fixed: code {code}",
                remedy="choose k within the smallest fixed group, and have an image of every group in each",
            )
        top = group[inside][_ranking.top_k(table[:, inside], k)]
        every = skew_of_counts(_ranking.count_groups(top, groups), present, desired=desired, zero=zero)
        skew[:, code] = np.nanmax(every, axis=1)
    return SkewWithin(skew, relative_difference(skew))


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
