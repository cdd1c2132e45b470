"""A check measured, compared and resampled, before the family is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    settled it, so that baseline, value and change belong together.
    """

    planned: PlannedCheck
    cell: Cell
    answers: Sequence[ProbeScores]
    now: Measure
    before: Measure | None
    limits: Limits
    paired: PairedResult | None
    ties: Ties | None

    @property
    def by_group(self) -> bool:
        """Whether `paired` holds a difference for every group."""
        return self.paired is not None and bool(self.now.groups) and len(self.paired.delta) == len(self.now.groups)

    @property
    def telling(self) -> int:
        """Position among the compared differences of the one that settled the test: the most harmful among those with
        the verdict of the whole, so that a group that clearly fell is named before a smaller one that only seems to
        have fallen further."""
        paired = self.paired
        if paired is None:
            return 0
        return int(np.argmax(np.where(paired.verdict == paired.overall, paired.harmful, -np.inf)))

    @property
    def worst_group(self) -> str | None:
        """The group that the check names: the one that settled a comparison, or the one that stands worst."""
        if not self.now.groups:
            return None
        return self.now.groups[self.telling if self.by_group else int(np.nanargmax(self.now.group_badness))]
