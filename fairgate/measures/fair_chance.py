"""What chance alone gives: a rank metric of perfectly fair rankers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairgate.measures.cell import Floats
from fairgate.metrics import NullSkew

NULL_DRAWS = 2000
"""Rankings of a fair ranker, where its value is drawn."""


class FairRankings:
    """What fair rankers have, drawn once for each composition of a gallery: subjects often have the same one."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[object, ...], tuple[Floats, ...]] = {}

    def of(self, composition: tuple[object, ...], draw: Callable[[], tuple[Floats, ...]]) -> tuple[Floats, ...]:
        """(draws, parts) for every grouping of a gallery, drawn unless its composition is known."""
        if composition not in self._drawn:
            self._drawn[composition] = draw()
        return self._drawn[composition]


def summary(values: Floats, better: str) -> NullSkew:
    """A fair ranker's mean, median and 95% point; that is the 5% quantile where higher is better."""
    median, worse = np.quantile(values, [0.5, 0.95 if better == "lower" else 0.05], method="inverted_cdf")
    return NullSkew(mean=float(values.mean()), median=float(median), p95=float(worse), draws=NULL_DRAWS)
