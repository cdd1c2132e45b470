"""What chance alone gives: MaxSkew@K of a perfectly fair ranker, exactly, and its draws for other metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics import _ranking
from fairgate.formulas.metrics._checks import FloatArray, IntArray, at_least_two, every_group
from fairgate.formulas.metrics._counts import skew_of_counts
from fairgate.formulas.metrics._ranking import Desired
from fairgate.ground.errors import MetricError

LOST = 1e-12
"""Probability of a count, or of a MaxSkew, that is left out of the mean."""
EXACT = 1e-9
"""How far a probability may be off by rounding: ten times the error of the sums."""
UNLIKELY = 1e-20
"""Probability of a count so far from its mean that it is left out of the sum."""


@dataclass(frozen=True, slots=True)
class NullSkew:
    """MaxSkew@K of a perfectly fair ranker: what chance alone gives at this k. Print it next to every value.

    `draws` is how many rankings were simulated; 0 says that the numbers are exact.
    """

    mean: float
    median: float
    p95: float
    draws: int


def expected_max_skew(
    k: int,
    desired: Desired,
    n_per_group: ArrayLike,
    draws: int | None = None,
    rng: np.random.Generator | None = None,
) -> NullSkew:
    """MaxSkew@K when the top k is a random draw, without replacement, from a gallery of n_per_group (groups,) images.

    A finite k biases MaxSkew upward: with 7 equal groups and k=100 its mean is 0.31. A bound under the null's
    median cannot be met by anyone. Exact, to about 1e-10, unless `draws` and `rng` are given for a simulation.

    >>> null = expected_max_skew(100, "uniform", [10_000] * 7)
    >>> round(null.mean, 2), round(null.p95, 2)
    (0.31, 0.48)
    """
    present = np.asarray(n_per_group, dtype=np.int64)
    at_least_two(present.size)
    every_group(present)
    _ranking.check_k(k, int(present.sum()))
    if (draws is None) != (rng is None) or (draws is not None and draws < 1):
        raise MetricError(
            f"draws is {draws}, and rng is {'missing' if rng is None else 'given'}.",
            where="draws",
            remedy="pass neither for the exact null, or at least one draw and a generator to simulate it",
        )
    if draws is None or rng is None:
        values, chance = _distribution(k, desired, present)
        below = np.cumsum(chance)
        # A value that is reached with a probability of exactly 0.5 is the median, whatever the sum is rounded to.
        median, p95 = values[np.searchsorted(below, (np.array([0.5, 0.95]) - EXACT) * below[-1])]
        return NullSkew(mean=float(values @ chance / below[-1]), median=float(median), p95=float(p95), draws=0)
    shown = fair_counts(present, k, draws, rng)
    skew = skew_of_counts(shown, present, desired=desired).max(axis=1)
    median, p95 = np.quantile(skew, [0.5, 0.95])
    return NullSkew(mean=float(skew.mean()), median=float(median), p95=float(p95), draws=draws)


def fair_counts(n_per_group: ArrayLike, k: int, draws: int, rng: np.random.Generator) -> IntArray:
    """Images per group in the top k of a perfectly fair ranker, (draws, groups): a draw without replacement."""
    return rng.multivariate_hypergeometric(np.asarray(n_per_group), k, size=draws, method="marginals")


def fair_rankings(shown: IntArray, rng: np.random.Generator) -> IntArray:
    """Group codes of a fair ranker's top k in the order of places, (draws, k), from `fair_counts`."""
    draws, groups = shown.shape
    placed = np.repeat(np.tile(np.arange(groups), draws), shown.ravel()).reshape(draws, -1)
    return rng.permuted(placed, axis=1)


def _distribution(k: int, desired: Desired, present: IntArray) -> tuple[FloatArray, FloatArray]:
    """The values that MaxSkew can take, ascending, and their probabilities.

    A draw without replacement is a row of independent binomials X_g ~ B(n_g, k/N), given that they sum to k. So
    P(MaxSkew <= t) = P(X_g <= u_g(t) for all g, sum X = k) / P(sum X = k), u_g(t) the largest count within t.
    """
    images = int(present.sum())
    if k == images:
        return skew_of_counts(present, present, desired=desired).max(keepdims=True), np.ones(1)
    counts = np.arange(k + 1)
    skew = skew_of_counts(np.repeat(counts[:, None], present.size, axis=1), present, desired=desired, k=k)
    chance = np.stack([_binomial(int(n), k / images, k) for n in present], axis=1)
    # MaxSkew is the skew of a count, and only of counts that may well happen.
    values = np.unique(skew[1:][chance[1:] > LOST])
    most = np.stack([np.searchsorted(skew[:, g], values, side="right") - 1 for g in range(present.size)], axis=1)
    every_group_within = np.cumsum(chance, axis=0)[most, np.arange(present.size)].min(axis=1)
    first = int(np.argmax(every_group_within > LOST))
    values, most = values[first:], most[first:]
    within = _sums_to_k(chance, most, k)
    return values, np.maximum(np.diff(within, prepend=0.0), 0.0)


def _binomial(n: int, p: float, k: int) -> FloatArray:
    """P(X = 0..k) of X ~ B(n, p)."""
    place = np.arange(1, min(n, k) + 1)
    logs = np.cumsum(np.log((n - place + 1) / place * (p / (1.0 - p))))
    chance = np.zeros(k + 1)
    chance[: place.size + 1] = np.exp(n * np.log1p(-p) + np.concatenate([[0.0], logs]))
    return chance


def _sums_to_k(chance: FloatArray, most: IntArray, k: int) -> FloatArray:
    """P(X_g <= most[i, g] for all g, sum X = k) for each row i of most, up to one common factor.

    A coefficient of a product of polynomials, read off its values on a circle. Sums that differ from k by a whole
    turn are mistaken for k; the turn is so long (8 standard deviations and more) that they have no weight.
    """
    turn = int(8 * np.sqrt(k)) + 30
    half = np.arange(turn // 2 + 1)
    root = np.exp(2j * np.pi * np.arange(turn) / turn)
    # Equal groups, the common case, share one factor.
    alike: dict[bytes, list[int]] = {}
    for group in range(chance.shape[1]):
        alike.setdefault(chance[:, group].tobytes() + most[:, group].tobytes(), []).append(group)
    result = np.zeros(most.shape[0])
    step = max(1, _ranking.CHUNK // (4 * max(most.shape[0], k + 1)))
    for start in range(0, half.size, step):
        angle = half[start : start + step]
        product = np.repeat(root[-angle * k % turn][None], most.shape[0], axis=0)
        for group, *others in alike.values():
            likely = np.flatnonzero(chance[:, group] > UNLIKELY)
            place = np.arange(likely[0], likely[-1] + 1)
            upto = np.zeros((place.size + 1, angle.size), dtype=complex)
            np.cumsum(chance[place, group, None] * root[place[:, None] * angle % turn], axis=0, out=upto[1:])
            if others:
                upto **= 1 + len(others)
            product *= upto[np.clip(most[:, group] - place[0] + 1, 0, place.size)]
        # Angles come in conjugate pairs, except 0 and, of an even turn, the half turn.
        twice = np.where((angle == 0) | (2 * angle == turn), 1.0, 2.0)
        result += (product.real * twice).sum(axis=1)
    return result
