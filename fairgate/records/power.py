"""The power record: what every comparison of a suite could see; table, page and file are rendered from it."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from fairgate.records.parts import DatasetInfo, Environment, ModelInfo, Number, RecordPart
from fairgate.records.run import BaselineInfo

SCHEMA_VERSION: Literal[1] = 1


class GroupPower(RecordPart):
    """One group of a check (None: a check without groups), in the unit of its metric.

    `detectable` is the smallest regression that fails with the odds at the present sets; `sets_needed` for the wished
    one, both counted in sets that hold the group. Absent is infinite: too few sets to fail whatever happens, or a wish
    that lies within the margin. `curve` holds the detectable regression at the check's `sizes`, of which the group has
    the present share.
    """

    group: str | None
    n_sets: int
    standard_error: float
    detectable: Number
    sets_needed: int | None
    curve: list[Number]


class CheckPower(RecordPart):
    """One `no_worse_than` check on one subject. `unavailable` says why nothing could be computed."""

    id: str
    subject: str | None
    metric: str
    k: int | None = None
    over: str | None
    unit: str
    margin: float
    wanted: float
    n_sets: int
    sizes: list[int] = Field(default_factory=list)
    groups: list[GroupPower] = Field(default_factory=list)
    unavailable: str | None = None

    @property
    def item(self) -> str:
        """The check's name in tables."""
        return self.id if self.subject is None else f"{self.id}[{self.subject}]"

    @property
    def hardest(self) -> GroupPower | None:
        """The group whose regressions are the hardest to see."""
        return max(
            self.groups, key=lambda group: math.inf if group.detectable is None else group.detectable, default=None
        )


class PowerRecord(RecordPart):
    """The versioned answer to "how small a regression can this suite see?": power.json."""

    schema_version: Literal[1] = SCHEMA_VERSION
    suite: str
    suite_digest: str
    dataset: DatasetInfo
    model: ModelInfo
    baseline: BaselineInfo
    alpha: float
    correction: str
    comparisons: int
    odds: float
    seed: int
    draws: int
    checks: list[CheckPower]
    environment: Environment
    command: str
    created_at: str

    @property
    def alpha_each(self) -> float:
        """What the correction leaves to one comparison in the worst case."""
        return self.alpha / self.comparisons
