"""Tests for few that differ: of right-or-wrong answers of two runs on the same images, an exact one of the share lost,
at a margin; and of the mean of numbers between known limits, such as shares of views that are right.

Of n images, `lost` were right before and are wrong now, `won` the other way round. The test compares lost - won with
the margin by the score statistic for paired proportions (Tango 1998), and takes its exact probability under the
trinomial at the margin: the largest over the share of images that turn either way, within its exact confidence limits
(Berger and Boos 1994). The score statistic keeps its size at the border of the hypothesis (Sidik 2003), and unlike a
bootstrap it knows what answers no image happened to show.

For means it is Gaffke's statistic (2005; Learned-Miller and Thomas 2020): add one number at the limit, weigh all by a
uniform Dirichlet draw, and take the probability that the weighted mean is not beyond the bound. For right-or-wrong
numbers it is the exact binomial test (Clopper and Pearson 1934). Validity for all bounded numbers is a conjecture,
which simulation supports (docs/evidence/views.md).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import bdtrc, betainc, betaincinv, gammaln, ndtri

from fairgate.formulas.statistics.resampling import FloatArray

_MISSED = 1e-6
"""Probability that the share of turning images lies outside the range that is searched; added to p."""

_SEARCHED = 20
"""Shares searched, half a standard error apart."""

_STEPS = 5

_AHEAD = 16
"""Numbers of lost answers are found by their digits to this base: 15 scores at once cost less than four in turn."""

_RARE = -46.0
"""Logarithm of a probability of 1e-20: numbers of turning images that are rarer add nothing."""


def score(lost: FloatArray, won: FloatArray, images: int, margin: float) -> FloatArray:
    """Tango's score statistic of lost - won over its margin (0 <= margin < 1), any shape; 0 where nothing turned.

    >>> score(np.array([15.0]), np.array([5.0]), 100, 0.0).round(4)  # McNemar's: 10 / sqrt(20)
    array([2.2361])
    """
    turned = lost + won
    # The likelihood at p(lost) - p(won) = margin is greatest at this p(won), the root of a quadratic.
    half = 2 * (images - turned) * margin - turned * (1 - margin) + 2 * won * margin
    share = (np.sqrt(half**2 + 8 * images * won * margin * (1 - margin)) - half) / (4 * images)
    variance = images * np.maximum(2 * share + margin - margin**2, 0.0)
    moved = lost - won - images * margin
    scores: FloatArray = np.divide(moved, np.sqrt(variance), out=np.zeros(moved.shape), where=variance > 0)
    return scores


@lru_cache(maxsize=65_536)
def p_lost_more(lost: int, won: int, images: int, margin: float) -> float:
    """Evidence that the share lost less the share won is above the margin (-1..1).

    >>> round(p_lost_more(6, 0, 50, 0.0), 4)
    0.0069
    """
    return _p(lost, won, images, margin, more=True) if margin >= 0 else _p(won, lost, images, -margin, more=False)


@lru_cache(maxsize=65_536)
def p_lost_less(lost: int, won: int, images: int, margin: float) -> float:
    """Evidence that the share lost less the share won is below the margin (-1..1)."""
    return _p(lost, won, images, margin, more=False) if margin >= 0 else _p(won, lost, images, -margin, more=True)


@lru_cache(maxsize=65_536)
def chance_given_turned(turned: int, images: int, level: float) -> float:
    """Chance that `p_lost_more` at a margin of 0 is at most the level, if each of these answers is lost like a coin.

    >>> chance_given_turned(5, 50, 0.02)  # p is 0.013 if all five are lost, 0.12 if four are
    0.03125
    >>> chance_given_turned(3, 50, 0.02)
    0.0
    """
    few, enough = 0, turned + 1
    level *= 1 + 1e-9  # a p that came from a score and back
    while few < enough:  # the fewest lost that reach the level; p falls with them
        middle = (few + enough) // 2
        if p_lost_more(middle, turned - middle, images, 0.0) <= level:
            enough = middle
        else:
            few = middle + 1
    return float(bdtrc(few - 1, turned, 0.5)) if 0 < few <= turned else float(few == 0)


@lru_cache(maxsize=65_536)
def least_lost(lost: int, won: int, images: int, level: float) -> float:
    """Lower limit, at a one-sided level, of the share lost less the share won: a margin that is rejected.

    In the score -Phi^-1(p), which is nearly linear in the margin, so that a few steps come near it; from there in
    growing steps to a margin on the other side of the level, and back by halves.
    """
    wanted = -ndtri(level)
    unit = math.sqrt(lost + won + wanted**2) / images
    at = _near_limit(lost, won, images, level, wanted, unit)
    above, step = at, 0.005 * unit
    while at > -1 and p_lost_more(lost, won, images, at) > level:
        above, at, step = at, at - step, 2 * step
    at = max(at, -1.0)
    if above == at:  # what the first steps came to is rejected itself
        above = at + step
        while p_lost_more(lost, won, images, above) <= level:
            step *= 2
            at, above = above, above + step
    while above - at > 0.01 * unit:
        middle = (above + at) / 2
        above, at = (above, middle) if p_lost_more(lost, won, images, middle) <= level else (middle, at)
    return at


def _near_limit(lost: int, won: int, images: int, level: float, wanted: float, unit: float) -> float:
    """By secants, in the score; where nothing turned, from the chance that nothing does."""
    if lost + won == 0:
        return float(np.expm1(np.log(level) / images))
    at, slope = (lost - won) / images, 1 / unit
    for _ in range(_STEPS):
        near = _score(lost, won, images, at)
        ahead = at - (wanted - near) / slope
        if not -1 < ahead < 1 or abs(ahead - at) < 0.01 * unit:
            break
        beyond = _score(lost, won, images, ahead)
        slope = max((beyond - near) / (at - ahead), 0.2 / unit)
        at = ahead
    return at


def _score(lost: int, won: int, images: int, margin: float) -> float:
    return -float(ndtri(min(p_lost_more(lost, won, images, margin), 1 - 1e-9)))


def _p(lost: int, won: int, images: int, margin: float, *, more: bool) -> float:
    """Largest probability, over shares of turning images, of a score at least (`more`) or at most as large."""
    if margin >= 1:
        return 1.0 if more else 2.0**-images
    seen = score(np.array([float(lost)]), np.array([float(won)]), images, margin)[0]
    share = _shares(lost + won, images, margin)
    top = min(images, math.ceil(images * share[-1] + 7 * math.sqrt(images * share[-1] + 1)))
    turned = np.arange(top + 1.0)
    within = 1e-9 * max(1.0, abs(seen))
    # Of each number of turning images, the fewest lost whose score is beyond what was seen; the score grows with lost.
    few, step = np.zeros(top + 1), _AHEAD ** ((top + 1).bit_length() // 4)
    while step:
        lost_of = few + step * np.arange(1, _AHEAD)[:, None] - 1
        scores = score(np.minimum(lost_of, turned), np.maximum(turned - lost_of, 0.0), images, margin)
        short = (scores < seen - within if more else scores <= seen + within) & (lost_of <= turned)
        few, step = few + step * short.sum(axis=0), step // _AHEAD
    log = gammaln(images + 1) - gammaln(turned + 1) - gammaln(images - turned + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = (
            log
            + turned * np.log(share[:, None])
            + np.where(turned < images, (images - turned) * np.log1p(-share[:, None]), 0.0)
        )
    chance = (share + margin) / 2 / share  # that a turning image is a lost one
    tail = np.where(np.broadcast_to(few <= 0, log.shape), 1.0, 0.0)
    at, of = np.nonzero((log > _RARE) & (few > 0) & (few <= turned))
    tail[at, of] = betainc(few[of], turned[of] - few[of] + 1, chance[at])
    p = (np.exp(log) * (tail if more else 1 - tail)).sum(axis=1).max()
    return float(min(p + _MISSED, 1.0))


def _shares(turned: int, images: int, margin: float) -> FloatArray:
    """Shares of turning images to search, ascending: from the margin, within exact limits; even in arcsine scale."""
    low = betaincinv(turned, images - turned + 1, _MISSED / 2) if turned else 0.0
    high = betaincinv(turned + 1, images - turned, 1 - _MISSED / 2) if turned < images else 1.0
    first, last = np.arcsin(np.sqrt(np.maximum([low, high], max(margin, 1e-9))))
    shares: FloatArray = np.maximum(np.sin(np.linspace(first, last, _SEARCHED)) ** 2, margin)
    return shares


_POINTS = np.arange(1600) * 0.05
"""Where the integral is taken, in standard deviations of the tilted sum."""


def p_mean_above(sample: FloatArray, bound: float, lowest: float) -> float:
    """Evidence that the mean of numbers (n,), none of which can be below `lowest`, is above a bound.

    >>> round(p_mean_above(np.zeros(50), -0.05, -1.0), 4)  # 0.95^50, as of 50 answers none of which turned
    0.0769
    """
    values, counts = np.unique(np.append(sample, lowest), return_counts=True)
    return _p_of_mean(tuple(values.tolist()), tuple(counts.tolist()), bound)


def least_mean(sample: FloatArray, level: float, lowest: float) -> float:
    """Lower limit of that mean at a one-sided level: a bound that is rejected, near the largest such."""
    below, above = lowest, float(sample.mean())
    while above - below > 1e-4 * (above - lowest + 1e-9):
        middle = (below + above) / 2
        below, above = (middle, above) if p_mean_above(sample, middle, lowest) <= level else (below, middle)
    return below


@lru_cache(maxsize=65_536)
def _p_of_mean(values: tuple[float, ...], counts: tuple[int, ...], bound: float) -> float:
    """The chance that a sum of exponentials, with weights `values` less the bound, is at most 0.

    Its moment generating function is inverted along the line through its saddle point.
    """
    weight, times = np.array(values) - bound, np.array(counts, dtype=np.float64)
    least = np.finfo(np.float64).tiny  # a weight that is less counts as 0: its inverse is no number
    if weight.max() < least:
        return 1.0
    if weight.min() > -least:
        return 0.0
    left, right = 1 / weight.min(), 1 / weight.max()
    low, high = left, right
    for _ in range(100):
        at = (low + high) / 2
        low, high = (low, at) if (times * weight / (1 - at * weight)).sum() > 0 else (at, high)
    at = min(at, 0.02 * left)  # of a large p the pole at 0 is near, or on the other side
    spread = math.sqrt((times * (weight / (1 - at * weight)) ** 2).sum())
    line = at + 1j * _POINTS / spread
    inside = np.exp(-(times[:, None] * np.log(1 - weight[:, None] * line)).sum(axis=0)) / -line
    return float(np.clip(np.trapezoid(inside.real, _POINTS) / spread / np.pi, 0.0, 1.0))
