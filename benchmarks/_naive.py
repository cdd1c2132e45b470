"""Rules that teams use to call a regression, for their false alarms: True = "some group got worse"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from fairgate.statistics import sign_flip_test

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


def _t(difference: NDArray[np.float64], margin: float, level: float) -> bool:
    error = difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    return bool((difference.mean(axis=0) + margin < -student.ppf(1 - level, len(difference) - 1) * error).any())


RULES: dict[str, Rule] = {
    "mean fell by more than 0.02": fell,
    "t-test per group": t_test,
    "t-test, Bonferroni": bonferroni,
    "max-T sign flips": flips,
}
