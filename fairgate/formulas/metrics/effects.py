"""How far apart two sets of targets are by an association score: WEAT's effect size, and its permutation test."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import FloatArray, finite
from fairgate.ground.errors import MetricError

MOST_PARTITIONS = 200_000
"""Partitions that are all counted; of more, some are drawn."""
_CHUNK = 1 << 14
_ROUNDING = 1e-12


def effect_size(x: ArrayLike, y: ArrayLike) -> float:
    """Cohen's d of association scores of the targets X over those of Y, in standard deviations; 0 is no difference.

    x (targets of X,) and y (targets of Y,) are s(w, A, B): how much nearer a target is to the attributes A than to B,
    mean cosine less mean cosine. (mean x - mean y) / standard deviation of all scores (ddof=1): Caliskan et al. 2017,
    WEAT; Steed and Caliskan 2021, iEAT, with images. Raises MetricError for numbers not finite, and for scores that are
    all the same up to rounding (a deviation below 1e-12 of the largest).

    >>> round(effect_size([0.3, 0.1], [0.1, -0.1]), 4)
    1.2247
    """
    first, second = _scores(x, y)
    every = np.concatenate([first, second])
    spread = float(every.std(ddof=1))
    if spread <= _ROUNDING * np.abs(every).max():
        raise MetricError(
            "all association scores are the same.",
            where="x and y",
            remedy="check the embeddings: targets that no attribute tells apart have no effect size",
        )
    return float((first.mean() - second.mean()) / spread)


def permutation_p(x: ArrayLike, y: ArrayLike, *, rng: np.random.Generator | None = None, draws: int = 100_000) -> float:
    """One-sided p of `effect_size`: the share of partitions of all targets whose difference of means is no smaller.

    A partition that ties with the observed one counts, and so does that one itself: p is never 0, and no smaller than
    that of Caliskan et al., who write Pr[s(Xi, Yi) > s(X, Y)] and count neither.

    Over all partitions into sets of these sizes where there are at most MOST_PARTITIONS (ten targets a side); of more,
    over `draws` random ones from `rng`, with the observed one among them (Phipson and Smyth 2010). Raises MetricError
    for numbers not finite, and where partitions have to be drawn and there is no `rng`.

    >>> permutation_p([3.0, 2.0], [1.0, 0.0])
    0.16666666666666666
    """
    first, second = _scores(x, y)
    every, size = np.concatenate([first, second]), len(first)
    # a sum of X decides the difference of means; one that equals the observed one up to rounding is no smaller
    least = float(first.sum() - _ROUNDING * np.abs(every).sum())
    if comb(len(every), size) <= MOST_PARTITIONS:
        partitions, no_smaller = combinations(every.tolist(), size), 0
        while chunk := list(islice(partitions, _CHUNK)):
            no_smaller += int((np.array(chunk).sum(axis=1) >= least).sum())
        return no_smaller / comb(len(every), size)
    if rng is None or draws < 1:
        raise MetricError(
            f"{comb(len(every), size):,} partitions are too many to count, and there is nothing to draw them from.",
            where="rng",
            remedy="pass rng=np.random.default_rng(seed), and draws=100_000",
        )
    no_smaller = sum(int(rng.permutation(every)[:size].sum() >= least) for _ in range(draws))
    return (1 + no_smaller) / (1 + draws)


def permutation_p_of_groups(
    numbers: ArrayLike, members: ArrayLike, *, rng: np.random.Generator, draws: int = 1999
) -> FloatArray:
    """Two-sided p of every group against everybody else, for all groups at once: (groups,).

    `numbers` (rows,) change places with any other, or, (sets, images), with those of their set; `members` (groups,
    rows) says of all of them, in this order, whether they are of a group. A group's p is the share of `draws` in which
    some group departs as far as it does, by its difference of means in standard errors, with the observed one among
    them (Westfall and Young 1993, in a single step): without a difference the lowest p of all is at most alpha with
    probability alpha. A group of all rows, or of none, has p 1. Raises MetricError for numbers that are not finite.

    >>> permutation_p_of_groups([3.0, 2.0, 1.0, 0.0], [[1, 1, 0, 0]], rng=np.random.default_rng(0)).round(1)
    array([0.3])
    """
    given = np.atleast_2d(np.asarray(numbers, dtype=np.float64))
    value = finite("numbers", given, ("sets", "images")).astype(np.float64)
    value = value - value.mean()
    of_group = np.asarray(members, dtype=np.float64)
    sizes = of_group.sum(axis=1)
    inside, outside = np.maximum(sizes, 1.0), np.maximum(value.size - sizes, 1.0)

    def departures(rows: FloatArray) -> FloatArray:
        sums = rows @ of_group.T
        apart = sums / inside - (rows.sum(axis=1, keepdims=True) - sums) / outside
        return np.asarray(np.abs(apart) / np.sqrt(1 / inside + 1 / outside))

    observed = departures(value.reshape(1, -1))[0] - _ROUNDING * np.abs(value).sum()
    count, step = np.ones(observed.size), max(1, _CHUNK * 64 // value.size)
    for start in range(0, draws, step):
        rows = rng.permuted(np.tile(value, (min(step, draws - start), 1, 1)), axis=2)
        count += (departures(rows.reshape(len(rows), -1)).max(axis=1)[:, None] >= observed).sum(axis=0)
    return np.asarray(count / (1 + draws))


def _scores(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = (finite(name, given, ("targets",)).astype(np.float64) for name, given in (("x", x), ("y", y)))
    return first, second
