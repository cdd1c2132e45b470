"""The records of studies: a paper's tables and figures as measured here, and what every comparison of a suite could see
at its size. All that shows them is rendered from them."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fairgate.records.parts import DatasetInfo, Environment, ModelInfo, Number, RecordPart
from fairgate.records.run import BaselineInfo

FileName = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class Estimate(RecordPart):
    """A measured number with its interval and the number of items that it is of, where it has them.

    `value` is None where nothing could be measured; `why` then says the reason.
    """

    value: Number
    lo: Number = None
    hi: Number = None
    n: int | None = None
    why: str | None = None


StudyCell = Estimate | int | float | str | None


class StudyTable(RecordPart):
    """A table; the first cell of a row names it. `source` says which of the paper's tables it is: 'table 5'."""

    name: FileName
    title: str
    source: str
    columns: list[str]
    rows: list[list[StudyCell]]
    note: str = ""

    @model_validator(mode="after")
    def _fits(self) -> StudyTable:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"table {self.name} has {len(self.columns)} columns, and a row of {len(wrong[0])}")
        return self


class FigureSeries(RecordPart):
    """Numbers of a figure, one at each place of `x`: numbers, or names of a figure with bars. `lo` and `hi` are the
    limits of their intervals; empty where there is no sampling."""

    name: str
    x: list[float] | list[str]
    y: list[Number]
    lo: list[Number] = Field(default_factory=list)
    hi: list[Number] = Field(default_factory=list)


class StudyFigure(RecordPart):
    """A figure; axes are labelled with their units. `reference` names horizontal lines, such as what chance gives;
    `x_log` is for numbers that grow by factors. Of `boxes`, a series has several numbers at each of its names `x`."""

    name: FileName
    title: str
    source: str
    kind: Literal["lines", "bars", "points", "boxes"]
    x_label: str
    y_label: str
    x_log: bool = False
    series: list[FigureSeries] = Field(min_length=1)
    reference: dict[str, float] = Field(default_factory=dict)
    note: str = ""


class StudyPicture(RecordPart):
    """A sheet of pictures, NAME.png; `alt` says what is seen."""

    name: FileName
    title: str
    source: str
    alt: str


class StudyModel(RecordPart):
    """A model that was studied, or an instrument that measured; `name` is what tables call it."""

    name: str
    uri: str
    fingerprint: str


class StudyRecord(RecordPart):
    """The versioned result of a study: study.json. `paper` names the publication, `settings` every choice."""

    schema_version: Literal[1] = 1
    study: str
    title: str
    paper: str
    models: list[StudyModel]
    datasets: list[DatasetInfo]
    settings: dict[str, str | int | float | list[str]]
    tables: list[StudyTable] = Field(default_factory=list)
    figures: list[StudyFigure] = Field(default_factory=list)
    pictures: list[StudyPicture] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    environment: Environment
    command: str
    created_at: str
    seconds: float


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

    schema_version: Literal[1] = 1
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
