"""Shares with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from scipy.special import ndtri

from fairgate.errors import StatisticsError

ALPHA: Final = 0.05
ABSENT: Final = "–"


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`, with Wilson's limits. `value`, `lo` and `hi` are None where nothing was looked at."""

    count: int
    of: int
    value: float | None
    lo: float | None
    hi: float | None


def share(count: int, of: int, *, alpha: float = ALPHA) -> Share:
    """A share with the score interval of Wilson (1927), which holds near 0 and 1 too, at 1 - alpha.

    >>> share(9, 10)
    Share(count=9, of=10, value=0.9, lo=0.5958499732047615, hi=0.9821237869049271)
    """
    if not 0 <= count <= of or not 0 < alpha < 1:
        raise StatisticsError(
            f"{count} of {of} at alpha {alpha} is no share.",
            where="share",
            remedy="count among what was looked at, alpha between 0 and 1",
        )
    if not of:
        return Share(0, 0, None, None, None)
    z = float(ndtri(1 - alpha / 2))
    p = count / of
    middle = (p + z * z / (2 * of)) / (1 + z * z / of)
    reach = z / (1 + z * z / of) * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    # At the ends the limits are 0 and 1 exactly; floating point would miss them by an ulp.
    return Share(count, of, p, 0.0 if count == 0 else middle - reach, 1.0 if count == of else middle + reach)


def percent(found: Share) -> str:
    """`90.8% (89.1 to 92.3)`; a dash where nothing was looked at."""
    if found.value is None or found.lo is None or found.hi is None:
        return ABSENT
    return f"{100 * found.value:.1f}% ({100 * found.lo:.1f} to {100 * found.hi:.1f})"
