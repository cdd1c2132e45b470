"""Numbers of studies with the limits of their resamples, and series of figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairgate.metrics import Floats, Limits
from fairgate.records import Estimate, FigureSeries


@dataclass(frozen=True)
class ResampledNumber:
    """A number and its values in resamples of the images, (draws,); `n` images, `why` it is missing."""

    value: float
    draws: Floats
    n: int
    why: str = ""

    def estimate(self, alike: str = "no interval: the resamples do not differ") -> Estimate:
        """With its 95% percentile interval, or the reason for none: `alike` if the resamples never differ."""
        known = self.draws[np.isfinite(self.draws)]
        if not np.isfinite(self.value):
            return Estimate(value=None, n=self.n, why=self.why or "no skin was found in the average face")
        if known.size < len(self.draws) or not known.size:
            return Estimate(value=self.value, n=self.n, why="no interval: some resamples have no number")
        lo, hi = np.quantile(known, [0.025, 0.975])
        if lo == hi:
            return Estimate(value=self.value, n=self.n, why=alike)
        return Estimate(value=self.value, lo=float(lo), hi=float(hi), n=self.n)


def mean_of(parts: Sequence[ResampledNumber]) -> ResampledNumber:
    """The mean of several groups' numbers, each resampled by itself."""
    draws = np.mean([part.draws for part in parts], axis=0)
    missing = next((part.why for part in parts if part.why), "")
    return ResampledNumber(
        float(np.mean([part.value for part in parts])), draws, sum(part.n for part in parts), missing
    )


def estimate_of(value: float, limits: Limits, n: int) -> Estimate:
    """A number with a metric's interval, or the reason for none."""
    why = None if limits.lo is not None else limits.how
    return Estimate(value=value, lo=limits.lo, hi=limits.hi, n=n, why=why)


def series_of(name: str, x: list[str] | list[float], cells: Sequence[Estimate]) -> FigureSeries:
    """A series of a figure, with the limits that its numbers have."""
    y, lo, hi = ([getattr(cell, part) for cell in cells] for part in ("value", "lo", "hi"))
    return FigureSeries(name=name, x=x, y=y, lo=lo, hi=hi)
