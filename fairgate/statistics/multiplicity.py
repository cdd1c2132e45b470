"""p-values adjusted for multiple tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.errors import StatisticsError


def bonferroni(p: ArrayLike) -> NDArray[np.float64]:
    """p (tests,) times the number of tests, at most 1. Holds under any dependence.

    >>> bonferroni([0.01, 0.6])
    array([0.02, 1.  ])
    """
    values = _checked(p)
    return np.minimum(values * values.size, 1.0)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjustment of p (tests,), in the given order (Holm 1979): as safe as Bonferroni, never weaker.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = _checked(p)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.maximum.accumulate(values[order] * np.arange(values.size, 0, -1))
    return np.minimum(adjusted, 1.0)


def benjamini_hochberg(p: ArrayLike) -> NDArray[np.float64]:
    """Benjamini and Hochberg's step-up adjustment of p (tests,), in the given order: the share of false discoveries.

    Under independence or positive dependence. For exploration; verdicts use `holm`.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    array([0.03, 0.04, 0.04])
    """
    values = _checked(p)
    order = np.argsort(values, kind="stable")[::-1]
    adjusted = np.empty_like(values)
    scaled = values[order] * (values.size / np.arange(values.size, 0, -1))
    adjusted[order] = np.minimum.accumulate(scaled)
    return np.minimum(adjusted, 1.0)


def _checked(p: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise StatisticsError(
            f"p-values of shape {values.shape} are not all numbers from 0 to 1.",
            where="p",
            remedy="pass (tests,); a test without a p-value is an error and must not be left out of its family",
        )
    return values
