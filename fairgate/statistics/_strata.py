"""Evidence on group means against the mean of all groups, where every group has images of its own.

The same resampled t and the same guard for sparse groups as in `_limits`, with each group resampled by itself: the
groups are independent samples, and a group's contrast carries the noise of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from fairgate.statistics._limits import SKEWED, SPARSE, departures, hidden, is_mute, signs
from fairgate.statistics.draws import FloatArray, weight_pieces
from fairgate.statistics.family import Evidence, Side, normal_score, student_t

_LEVELS = 200
"""p-values next to sparse groups are the smallest of so many levels, 4% apart, at which the limit clears the bound."""


@dataclass(frozen=True, slots=True)
class _Sparse:
    """How far limits of contrasts (groups,) reach next to sparse groups: noise of the dense ones, and unseen change."""

    error: FloatArray
    freedom: FloatArray
    part: float
    """Of the groups, those that are dense; their noise gets this part of a level"""
    departing: NDArray[np.int64]
    n_sparse: NDArray[np.int64]
    leverage: FloatArray
    """(groups, sparse), the largest departure times the weight of each sparse group in each contrast"""

    def at(self, drawn: FloatArray, levels: FloatArray) -> FloatArray:
        """(levels, groups) for one-sided levels (levels,), each group by itself; `drawn` (draws, groups) ascending."""
        far = hidden(self.departing, self.n_sparse, levels[:, None] * (1 - self.part) / self.n_sparse.size)
        reach = far @ self.leverage.T
        if self.part:
            beyond = np.maximum(np.floor(levels * self.part * (len(drawn) + 1) + 1e-9).astype(int) - 1, 0)
            student = stdtrit(self.freedom, 1 - levels[:, None] * self.part)
            reach = reach + np.maximum(drawn[len(drawn) - 1 - beyond], student) * self.error
        return np.asarray(reach)

    def p_value(self, distance: FloatArray, drawn: FloatArray) -> FloatArray:
        """The smallest level at which the limit of a group clears a bound this far away, 1 where none does."""
        levels = np.geomspace(min(1.0 / ((self.part or 1.0) * (len(drawn) + 1)), 1.0), 1.0, _LEVELS)
        clears = distance > self.at(drawn, levels)
        p: FloatArray = np.where(clears, levels[:, None], 1.0).min(axis=0)
        return p


def contrast_evidence(samples: Sequence[FloatArray], *, alpha: float, draws: int, rng: np.random.Generator) -> Evidence:
    """Evidence on each group's mean less the mean of all groups' means, from samples (images of the group,).

    Two images per group at least. Where a group has too few to show alpha, no contrast is judged: each leans on all
    groups.
    """
    groups = len(samples)
    n = np.array([sample.size for sample in samples])
    means = np.array([np.clip(sample.mean(), sample.min(), sample.max()) for sample in samples])
    mean = means - np.clip(means.mean(), means.min(), means.max())
    contrast = np.eye(groups) - 1.0 / groups
    departing, largest = departures(samples)
    sparse = (departing < SPARSE) & (departing < n - 1)
    variance, third, freedom = _moments(samples, contrast, ~sparse)
    error = np.sqrt(variance)
    t = np.empty((draws, 0)) if sparse.all() else _drawn(samples, contrast, ~sparse, draws, rng)
    hides = _Sparse(
        error, freedom, float((~sparse).mean()), departing[sparse], n[sparse], np.abs(contrast[:, sparse]) * largest
    )
    judged = np.full(groups, not (is_mute(n, alpha).any() and any(sample.any() for sample in samples)))

    def side(direction: float) -> Side:
        # As in `_limits`: the squared skewness of a mean is of the order 1 / images.
        skewness = np.divide(third, variance**1.5, out=np.zeros(groups), where=variance > 0)
        stretch = 1 + SKEWED * np.maximum(-direction * skewness, 0.0) ** 2
        own = np.sort(direction * t * stretch, axis=0) if sparse.any() and not sparse.all() else t

        def z(bound: float) -> FloatArray:
            distance = direction * (mean - bound)
            if sparse.any():
                return np.asarray(-ndtri(hides.p_value(distance, own)))
            return normal_score(distance / error / stretch, freedom)

        def reach(critical_z: float) -> FloatArray:
            if sparse.any():
                return np.asarray(hides.at(own, np.array([float(ndtr(-critical_z))]))[0])
            return student_t(critical_z, freedom) * stretch * error

        if sparse.any():
            return Side(z, reach, np.empty((draws, 0)), np.empty(0, dtype=np.intp))
        return Side(z, reach, normal_score(direction * t, freedom), np.arange(groups))

    return Evidence(mean, error, n, judged, under=side(-1.0), over=side(1.0), least=signs(n))


def _moments(
    samples: Sequence[FloatArray], contrast: FloatArray, dense: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variance, third central moment, and Welch and Satterthwaite's degrees of freedom of each contrast (groups,)."""
    squares, cubes, weighed = np.zeros(len(samples)), np.zeros(len(samples)), np.zeros(len(samples))
    for group in np.flatnonzero(dense).tolist():
        sample, weights = samples[group], contrast[:, group]
        own = weights**2 * sample.var(ddof=1) / sample.size
        squares += own
        cubes += weights**3 * ((sample - sample.mean()) ** 3).mean() / sample.size**2
        weighed += own**2 / (sample.size - 1)
    freedom = np.divide(squares**2, weighed, out=np.full(len(samples), np.inf), where=weighed > 0)
    return squares, cubes, freedom


def _drawn(
    samples: Sequence[FloatArray],
    contrast: FloatArray,
    dense: NDArray[np.bool_],
    draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """The t of every contrast in each resample of the images (draws, groups), infinite where it shows no spread."""
    held = np.flatnonzero(dense)
    moved, variance = np.empty((draws, held.size)), np.empty((draws, held.size))
    for column, group in enumerate(held.tolist()):
        sample = samples[group]
        centred = sample - sample.mean()
        columns = np.stack([centred, centred**2], axis=1)
        sums = np.concatenate([weights @ columns for weights in weight_pieces(sample.size, draws, rng)])
        drawn = sums / sample.size
        moved[:, column] = drawn[:, 0]
        variance[:, column] = np.maximum(drawn[:, 1] - drawn[:, 0] ** 2, 0.0) / (sample.size - 1)
    weights = contrast[:, held]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (moved @ weights.T) / np.sqrt(variance @ (weights**2).T)
    t[~np.isfinite(t)] = np.inf
    return t
