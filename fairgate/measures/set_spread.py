"""Fairness: do all members of a counterfactual set get the same P(true label)? (Lui et al. 2023)."""

from __future__ import annotations

from dataclasses import replace

from fairgate.measures.cell import Cell
from fairgate.measures.contract import CLASSIFIED, Answers, Drawn, Limits, Measure, Metric, MetricRequest, limits_of
from fairgate.measures.registry import register
from fairgate.metrics import fairness, set_std
from fairgate.records import MetricSpec
from fairgate.statistics import Unavailable, median_interval, weighted_median


@register
class SetFairness(Metric):
    """1 less the median of the sets' spreads."""

    spec = MetricSpec(
        name="fairness",
        meaning="1 minus the median, over sets, of the spread of P(true label) inside a set",
        probes=CLASSIFIED,
        better="higher",
        lowest=1 - 2**-0.5,
        highest=1,
        per_group="no",
        counterfactual=True,
        tempered=True,
        alias="fairness",
    )

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """A plain statistic of all sets."""
        p_true = cell.sets_by_members(answers[0].value[cell.rows])
        spread = set_std(p_true)
        return Measure(
            value=fairness(p_true),
            draw=lambda counts: Drawn(1.0 - weighted_median(spread, counts)),
            badness=spread,
        )

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """The median's interval, which is exact; the bootstrap's percentiles fall short."""
        found = median_interval(now.badness, alpha=alpha)
        if not isinstance(found, Unavailable):
            found = replace(found, estimate=1 - found.estimate, lo=1 - found.hi, hi=1 - found.lo)
        how = f"{1 - alpha:.0%} order statistics of the spreads inside sets"
        return limits_of(found, cell, drawn, alpha, how=how)
