"""A check measured, compared and resampled, before the family is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairgate.probes import ProbeScores
from fairgate.statistics import PairedResult
from fairgate.suites.cell import Cell
from fairgate.suites.interval import Limits
from fairgate.suites.measure import Measure
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.ties import Ties


@dataclass(frozen=True, slots=True)
class Assessed:
    """Everything that is known of a check when its verdict is due.

    `by_group`: the paired test compared group by group; the check's own numbers are then those of the group that
    settled it, so that baseline, value and change belong together. `only_tempered`: of the comparisons at the model's
    own temperature and at the baseline's, `paired` holds the stricter one, without which the verdict would be milder;
    `answers`, `now` and `limits` are then those at the baseline's. `only_own`: the other way round.
    """

    planned: PlannedCheck
    cell: Cell
    answers: Sequence[ProbeScores]
    now: Measure
    before: Measure | None
    limits: Limits
    paired: PairedResult | None
    ties: Ties | None
    only_tempered: bool = False
    only_own: bool = False

    @property
    def by_group(self) -> bool:
        """Whether `paired` holds a difference for every group."""
        return self.paired is not None and bool(self.now.groups) and len(self.paired.delta) == len(self.now.groups)
