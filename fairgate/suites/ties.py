"""Where images of equal similarity stand on both sides of the cut, their order decided: how much, is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairgate.metrics import TieRange, tie_at_k, tie_range
from fairgate.probes import ProbeScores
from fairgate.suites.catalog import METRICS
from fairgate.suites.cell import Cell
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.queries import Grouping, Query, queries_of


@dataclass(frozen=True, slots=True)
class Ties:
    """Whether ties decided what a check counted, and the range of its value over all orders of the tied images (None
    for NDKL, which depends on every place)."""

    decided: bool
    lowest: float | None = None
    highest: float | None = None


def ties_of(planned: PlannedCheck, cell: Cell, answers: Sequence[ProbeScores]) -> Ties | None:
    """Ties at the cut of any of a check's rankings; None for metrics that count no top k."""
    check = planned.check
    if not METRICS[check.metric].ranks:
        return None
    queries = queries_of(planned, cell, answers)
    if not any(_tied(query, check.k or 0) for query in queries):
        return Ties(decided=False)
    if check.metric == "ndkl_at_k":
        return Ties(decided=True)
    groupings = range(len(cell.groups))
    ranges = [[_range(planned, query, query.groupings[place]) for query in queries] for place in groupings]
    worst = max if METRICS[check.metric].better == "lower" else min
    lowest, highest = (float(worst(np.mean([one[side] for one in ones]) for ones in ranges)) for side in (0, 1))
    return Ties(decided=True, lowest=lowest, highest=highest)


def _tied(query: Query, k: int) -> bool:
    anybody = (np.arange(len(query.joint)) > 0).astype(np.int64)
    return bool(tie_at_k(query.similarity[None, :], anybody, k, groups=2)[0])


def _range(planned: PlannedCheck, query: Query, grouping: Grouping) -> tuple[float, float]:
    check, labels = planned.check, grouping.of[query.joint]
    similarity, k, groups = query.similarity[None, :], check.k or 0, grouping.size
    if check.metric == "bias_at_k":
        first, second = grouping.kept.tolist()
        return _unsigned(tie_range("bias_at_k", similarity, labels, k, groups=groups, first=first, second=second))
    if check.metric == "normalized_entropy_at_k":
        found = tie_range("normalized_entropy_at_k", similarity, labels, k, groups=groups)
    elif check.metric == "max_skew_at_k":
        found = tie_range("max_skew_at_k", similarity, labels, k, groups=groups, desired=check.desired)
    else:
        found = tie_range("min_skew_at_k", similarity, labels, k, groups=groups, desired=check.desired)
    return float(found.lowest[0]), float(found.highest[0])


def _unsigned(signed: TieRange) -> tuple[float, float]:
    """The range of |Bias@K| from that of Bias@K. 0 lies inside where the sign can turn; it need not be reachable."""
    low, high = float(signed.lowest[0]), float(signed.highest[0])
    return 0.0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))
