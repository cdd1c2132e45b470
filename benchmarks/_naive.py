"""Rules that teams use to call a regression, for their false alarms: True = "some group got worse"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from fairgate.formulas.statistics.resampling import spans

ALPHA = 0.05
FLIPS = 500

STEP = 0.02
"""The plain rule: a group's mean fell by more than this."""

Rule = Callable[[NDArray[np.float64], float, np.random.Generator], bool]
"""From differences (sets, groups), candidate minus baseline, and the margin."""


def fell(difference: NDArray[np.float64], _: float, __: np.random.Generator) -> bool:
    """No test at all."""
    return bool((difference.mean(axis=0) < -STEP).any())


def t_test(difference: NDArray[np.float64], margin: float, _: np.random.Generator) -> bool:
    """One-sided t per group, as if it were the only one."""
    return _t(difference, margin, ALPHA)


def bonferroni(difference: NDArray[np.float64], margin: float, _: np.random.Generator) -> bool:
    """One-sided t per group at alpha / groups."""
    return _t(difference, margin, ALPHA / difference.shape[1])


def flips(difference: NDArray[np.float64], margin: float, rng: np.random.Generator) -> bool:
    """Max-T over flipped signs: exact where the noise is symmetric."""
    return bool(sign_flip_test(difference, margin=margin, rng=rng, draws=FLIPS).min() <= ALPHA)


_TIE = 1e-9
"""Flips that give the observed t again, up to rounding, count as reaching it."""


def sign_flip_test(
    difference: NDArray[np.float64], *, rng: np.random.Generator, draws: int = 4000, margin: float = 0.0
) -> NDArray[np.float64]:
    """Adjusted p-values (groups,), that a group is worse than the margin, by max-T over flipped signs of whole sets.

    difference: (sets, groups), candidate minus baseline. If a difference is as likely to be x as -x around the margin,
    every pattern of signs is equally likely, and the largest studentised mean under flipped signs has the null's own
    distribution. Where differences are skewed, false alarms reach several times alpha (docs/evidence/calibration.md).
    """
    table = difference + margin
    squares = (table**2).sum(axis=0)
    observed = _flipped_t(-table.sum(axis=0), squares, len(table))
    largest = np.empty(draws)
    for rows in spans(len(table), draws):
        length = -(-len(table) // 8)
        noise = np.frombuffer(rng.bytes((rows.stop - rows.start) * length), dtype=np.uint8).reshape(-1, length)
        signs = np.unpackbits(noise, axis=1, count=len(table)) * 2.0 - 1.0
        largest[rows] = _flipped_t(signs @ table, squares, len(table)).max(axis=1)
    beyond = draws - np.searchsorted(np.sort(largest), observed - _TIE * (1 + np.abs(observed)), side="left")
    return (1 + beyond) / (draws + 1)


def _flipped_t(total: NDArray[np.float64], squares: NDArray[np.float64], sets: int) -> NDArray[np.float64]:
    """Student's t of a sum: flips leave the sum of squares as it is. 0 for all zeros, finite where all agree."""
    aligned = np.divide(total, np.sqrt(squares * sets), out=np.zeros_like(total), where=squares > 0)
    aligned = np.clip(aligned, _TIE - 1, 1 - _TIE)
    return aligned * np.sqrt((sets - 1) / (1 - aligned**2))


def _t(difference: NDArray[np.float64], margin: float, level: float) -> bool:
    error = difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    return bool((difference.mean(axis=0) + margin < -student.ppf(1 - level, len(difference) - 1) * error).any())


RULES: dict[str, Rule] = {
    "mean fell by more than 0.02": fell,
    "t-test per group": t_test,
    "t-test, Bonferroni": bonferroni,
    "max-T sign flips": flips,
}
