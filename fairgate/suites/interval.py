"""How sure a check's number is: limits from resampled sets, and in words how they were found or why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairgate.suites.cell import Floats
from fairgate.suites.measure import Drawn


@dataclass(frozen=True, slots=True)
class Limits:
    """`lo` and `hi` of the value, None where no interval would cover; of every group; `how` says either in words."""

    lo: float | None
    hi: float | None
    how: str
    group_lo: Floats | None = None
    group_hi: Floats | None = None


def limits_of(drawn: Drawn, *, alpha: float, unit: str) -> Limits:
    """Limits at confidence 1 - alpha; `unit` is what was resampled, sets or images."""
    lo, hi = percentiles(drawn.value, alpha)
    group_lo, group_hi = percentiles(drawn.groups, alpha) if drawn.groups is not None else (None, None)
    return Limits(float(lo), float(hi), f"{1 - alpha:.0%} bootstrap of {unit}, percentile", group_lo, group_hi)


def percentiles(draws: Floats, alpha: float) -> tuple[Any, Any]:
    """Percentile interval along the draws. A resample whose statistic is infinite (an absent group) stays infinite."""
    lo, hi = np.nanquantile(draws, [alpha / 2, 1 - alpha / 2], axis=0, method="inverted_cdf")
    return lo, hi
