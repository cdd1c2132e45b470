"""Two runs whose true change is known: shapes of noise for the calibration of the paired tests.

A shape makes (candidate, baseline), each (sets, groups), where the true change of a group's mean score is exactly what
was asked. Most shapes are plain differences; `saturated` scores are probabilities, near 1 in every other group and
near 0 between; `answers` are right or wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

Floats = NDArray[np.float64]
Runs = tuple[Floats, Floats]
Shape = Callable[[np.random.Generator, int, Floats], Runs]
"""From a generator, the number of sets and the true change per group (groups,)."""

SCALE = 0.1
"""Unit of the plain differences: scores change by about so much from run to run."""

CHURN = 0.01
"""Share of answers that turn right, and wrong, without any change in truth."""

_LOGIT, _SET, _MEMBER, _RUN = 4.0, 1.5, 1.5, 1.0
"""Logits stand at 4 or -4, and vary by set, by member and by run."""


def plain(noise: Callable[[np.random.Generator, tuple[int, int]], Floats]) -> Shape:
    """Independent noise of mean 0 around the true change; baseline 0, for only the difference is tested."""

    def runs(rng: np.random.Generator, sets: int, change: Floats) -> Runs:
        size = (sets, change.size)
        return SCALE * noise(rng, size) + change, np.zeros(size)

    return runs


def skewed(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Lognormal around its mean, its long tail above (skewness 6)."""
    return rng.lognormal(0.0, 1.0, size) - np.exp(0.5)


def saturated(rng: np.random.Generator, sets: int, change: Floats) -> Runs:
    """Probabilities with most of their mass near 0 or 1; both runs vary alike, and the candidate's logits move."""
    centre = np.where(np.arange(change.size) % 2 == 0, _LOGIT, -_LOGIT)
    moved = np.array([_centre_for(float(at), round(float(by), 6)) for at, by in zip(centre, change, strict=True)])
    shared = rng.normal(0.0, _SET, (sets, 1)) + rng.normal(0.0, _MEMBER, (sets, change.size))
    new, old = rng.normal(0.0, _RUN, (2, sets, change.size))
    return expit(moved + shared + new), expit(centre + shared + old)


def answers(rng: np.random.Generator, sets: int, change: Floats, churn: float = CHURN) -> Runs:
    """Right (1) or wrong (0): a few answers turn either way by chance, the rest of the change is lost or won."""
    chance = rng.random((sets, change.size))
    lost, won = churn + np.maximum(-change, 0.0), churn + np.maximum(change, 0.0)
    moved = np.where(chance < lost, -1.0, np.where(chance > 1 - won, 1.0, 0.0))
    baseline = np.where(moved == 0, rng.random(moved.shape) < 0.9, moved < 0).astype(np.float64)
    return baseline + moved, baseline


def answers_lost(rng: np.random.Generator, sets: int, change: Floats) -> Runs:
    """As `answers`, and nothing turns by chance."""
    return answers(rng, sets, change, churn=0.0)


SHAPES: dict[str, Shape] = {
    "normal": plain(lambda rng, size: rng.normal(size=size)),
    "heavy tails": plain(lambda rng, size: rng.standard_t(3, size)),
    "skewed up": plain(skewed),
    "skewed down": plain(lambda rng, size: -skewed(rng, size)),
    "unequal variances": plain(lambda rng, size: rng.normal(size=size) * np.geomspace(0.1, 3.0, size[1])),
    "near 0 and 1": saturated,
    "answers": answers,
    "answers, only lost": answers_lost,
}


@lru_cache(maxsize=4096)
def _centre_for(centre: float, change: float) -> float:
    """The logit around which mean probability lies `change` from that around `centre`."""
    spread = np.sqrt(_SET**2 + _MEMBER**2 + _RUN**2)
    nodes, weights = np.polynomial.hermite_e.hermegauss(201)
    weights = weights / weights.sum()

    def mean(at: float) -> float:
        return float(weights @ expit(at + spread * nodes))

    wanted = mean(centre) + change
    return centre if change == 0 else float(brentq(lambda at: mean(at) - wanted, -60.0, 60.0, xtol=1e-10))
