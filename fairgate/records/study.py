"""The records of studies: a paper's tables and figures as measured here, and what the checks of a suite can decide
on its images. All that shows them is rendered from them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fairgate.records.parts import DatasetInfo, Environment, ModelInfo, Number, RecordPart

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
    limits of their intervals; empty where there is no sampling. `shade` is the number that colours a map's series."""

    name: str
    x: list[float] | list[str]
    y: list[Number]
    lo: list[Number] = Field(default_factory=list)
    hi: list[Number] = Field(default_factory=list)
    shade: Estimate | None = None


class StudyFigure(RecordPart):
    """A figure; axes are labelled with their units. `reference` names horizontal lines, such as what chance gives;
    `x_log` is for numbers that grow by factors. Of `boxes`, a series has several numbers at each of its names `x`. A
    `map` writes the name of each series amid its points, and colours them on the scale `shade_label`."""

    name: FileName
    title: str
    source: str
    kind: Literal["lines", "bars", "points", "boxes", "map"]
    x_label: str
    y_label: str
    shade_label: str = ""
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


WANTED_PASSES = 0.97
"""How often a harmless change is to pass: a check that passes it less often stops too many pull requests."""


class CheckPower(RecordPart):
    """What a regression check of a suite can decide on its images.

    `passes` is the share of simulated runs in which a harmless change passes it; `loss` the smallest loss of a group at
    which it fails in nine runs of ten (None: none was seen). `needed` is the number of units of
    each group with which a harmless change would pass (None: it does now, or no number helps).
    """

    id: str
    metric: str
    over: str | None
    tier: Literal["gate", "watch"]
    margin: float
    passes: float
    loss: Number
    needed: int | None


class PowerRecord(RecordPart):
    """The versioned answer to "what can this suite decide?": power.json.

    `units` of the largest group are there. `changes` are the harmless changes that were measured, and `left_out` why
    others are not among them; `together` is the share of simulated runs in which all checks that decide pass one.
    """

    schema_version: Literal[2] = 2
    suite: str
    suite_digest: str
    dataset: DatasetInfo
    model: ModelInfo
    changes: list[str]
    left_out: list[str]
    runs: int
    unit: str
    units: int
    together: float
    checks: list[CheckPower]
    environment: Environment
    command: str
    created_at: str
