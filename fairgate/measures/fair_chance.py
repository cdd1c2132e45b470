"""What chance alone gives: a rank metric of perfectly fair rankers."""

from __future__ import annotations

import numpy as np

from fairgate.measures.cell import Floats
from fairgate.metrics import NullSkew

NULL_DRAWS = 2000
"""Rankings of a fair ranker, where its value is drawn."""


FairRankings = dict[tuple[object, ...], tuple[Floats, ...]]
"""By a gallery's composition, which subjects often share, (draws, parts) of fair rankers for every grouping."""


def summary(values: Floats, better: str) -> NullSkew:
    """A fair ranker's mean, median and 95% point; that is the 5% quantile where higher is better."""
    median, worse = np.quantile(values, [0.5, 0.95 if better == "lower" else 0.05], method="inverted_cdf")
    return NullSkew(mean=float(values.mean()), median=float(median), p95=float(worse), draws=NULL_DRAWS)
