"""Simultaneous limits for group means against the mean of all groups, where every group has images of its own.

The same studentised max-T bootstrap and the same guard for sparse groups as in `_limits`, with each group resampled
by itself: the groups are independent samples, and a group's contrast carries the noise of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from fairgate.statistics._limits import SPARSE, Limits, departures, extremes_of, hidden, is_mute, tail
from fairgate.statistics.draws import FloatArray, weight_pieces

_LEVELS = 200
"""p-values of contrasts are the smallest of so many levels, 4% apart, at which their limit clears the bound."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far limits of contrasts (groups,) reach: bootstrap noise of dense groups, unseen change in sparse ones."""

    error: FloatArray
    freedom: FloatArray
    part: float
    """Of the groups, those that are dense; their tails get this part of alpha"""
    departing: NDArray[np.int64]
    n_sparse: NDArray[np.int64]
    leverage: FloatArray
    """(groups, sparse), the largest departure times the weight of each sparse group in each contrast"""

    def at(self, extremes: FloatArray, levels: FloatArray) -> FloatArray:
        """(levels, groups) for two-sided levels (levels,)."""
        far = np.zeros((levels.size, self.error.size))
        if self.part:
            cut = [extremes.size - 1 - tail(level * self.part / 2, extremes.size) for level in levels]
            far += np.maximum(extremes[cut][:, None], stdtrit(self.freedom, 1 - levels[:, None] / 2)) * self.error
        if self.n_sparse.size:
            far += hidden(self.departing, self.n_sparse, levels[:, None] / self.error.size / 2) @ self.leverage.T
        return far

    def p_value(self, distance: FloatArray, extremes: FloatArray, alpha: float) -> FloatArray:
        """The smallest level at which the limit clears a bound this far away, 1 where none does."""
        least = min(2.0 / ((self.part or 1.0) * (extremes.size + 1)), 1.0)
        levels = np.append(np.geomspace(least, 1.0, _LEVELS), alpha)
        clears = distance > self.at(extremes, levels)
        p: FloatArray = np.where(clears, levels[:, None], 1.0).min(axis=0)
        return p


def contrast_limits(samples: Sequence[FloatArray], *, alpha: float, draws: int, rng: np.random.Generator) -> Limits:
    """Limits for each group's mean less the mean of all groups' means, from samples (images of the group,).

    Two images per group at least. Where a group has too few to show alpha, no contrast can: each leans on all groups.
    """
    groups = len(samples)
    n = np.array([sample.size for sample in samples])
    means = np.array([np.clip(sample.mean(), sample.min(), sample.max()) for sample in samples])
    mean = means - np.clip(means.mean(), means.min(), means.max())
    contrast = np.eye(groups) - 1.0 / groups
    departing, largest = departures(samples)
    sparse = (departing < SPARSE) & (departing < n - 1)
    noise = [np.zeros(groups)]
    highest = lowest = np.zeros(draws)
    if not sparse.all():
        dense = [sample for sample, thin in zip(samples, sparse, strict=True) if not thin]
        noise = [
            weights**2 * sample.var(ddof=1) / sample.size
            for weights, sample in zip(contrast[:, ~sparse].T, dense, strict=True)
        ]
        highest, lowest = _extremes(dense, contrast[:, ~sparse], draws, rng)
    variance = np.sum(noise, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # Welch and Satterthwaite
        freedom = variance**2 / sum(part**2 / (size - 1) for part, size in zip(noise, n[~sparse], strict=False))
    reach = _Reach(
        error=np.sqrt(variance),
        freedom=freedom,
        part=float((~sparse).mean()),
        departing=departing[sparse],
        n_sparse=n[sparse],
        leverage=np.abs(contrast[:, sparse]) * largest,
    )
    mute = bool(is_mute(n, alpha).any()) and any(sample.any() for sample in samples)
    at = np.array([alpha])
    return Limits(
        mean=mean,
        error=reach.error,
        n_sets=n,
        below=np.full(groups, np.inf) if mute else reach.at(highest, at)[0],
        above=np.full(groups, np.inf) if mute else reach.at(lowest, at)[0],
        p_under=lambda bound: np.ones(groups) if mute else reach.p_value(bound - mean, lowest, alpha),
        p_over=lambda bound: np.ones(groups) if mute else reach.p_value(mean - bound, highest, alpha),
    )


def _extremes(
    samples: Sequence[FloatArray], contrast: FloatArray, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The largest t, and the largest -t, over contrasts in each resample of the images: both (draws,), ascending."""
    moved, variance = np.empty((draws, len(samples))), np.empty((draws, len(samples)))
    for group, sample in enumerate(samples):
        centred = sample - sample.mean()
        columns = np.stack([centred, centred**2], axis=1)
        sums = np.concatenate([weights @ columns for weights in weight_pieces(sample.size, draws, rng)])
        drawn = sums / sample.size
        moved[:, group] = drawn[:, 0]
        variance[:, group] = np.maximum(drawn[:, 1] - drawn[:, 0] ** 2, 0.0) / (sample.size - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (moved @ contrast.T) / np.sqrt(variance @ (contrast**2).T)
    highest, lowest = extremes_of(t)
    return np.sort(highest), np.sort(lowest)
