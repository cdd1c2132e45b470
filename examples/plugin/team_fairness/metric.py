"""A metric: what the members of a set that fare worst get, on average."""

from __future__ import annotations

from fairgate.metrics import Answers, Cell, Drawn, Measure, Metric, MetricRequest, MetricSpec


class WorstMember(Metric):
    """Mean over sets of the lowest value of a set's members, in the units of the probe: 1 is best for P(true).

    `check: {metric: worst_member, at_least: 0.6}`, or with `no_worse_than: baseline`: `paired` makes it comparable.
    """

    spec = MetricSpec(
        name="worst_member",
        meaning="mean over sets of the value of the member that fares worst",
        probes=("zero_shot_classification",),
        better="higher",
        counterfactual=True,
    )

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The value, how it is resampled, and which sets speak against the model."""
        lowest = cell.sets_by_members(answers[0].value[cell.rows]).min(axis=1)  # (sets,)
        return Measure(
            value=float(lowest.mean()),
            draw=lambda counts: Drawn((counts @ lowest) / counts.sum(axis=1)),
            badness=1.0 - lowest,
            paired=lowest[:, None],
        )
