"""`faces`: photographs that are labelled already, imported and checked; no model is used (papers 2 and 4).

So-B-IT (paper 4) retrieves from FairFace, the probes of paper 2 also use the Chicago Face Database, and paper 5
starts from COCO images of one person. The photographs are the user's: none is shipped or fetched. Three layouts:

- `table`: a CSV file with a line per photograph (FairFace's: file, age, gender, race), as `fairgate dataset import`
  reads it; unlike that command, this recipe drops what it cannot use, with a reason, and goes on.
- `cfd`: a folder whose file names carry race, gender and expression (CFD-WM-001-014-N.jpg).
- `coco`: COCO's instances and captions files; a photograph of one person whose captions name one gender.

Departures. Paper 4 retrieves from FairFace's training set; here it is what `labels` names. A photograph whose shorter
side is under `min_side` pixels is dropped; no paper names a limit.

Each photograph is a set of its own. Of photographs with equal pixels, the first is used. Labels are what
annotators perceived, or what the people in CFD said of themselves; from COCO, what its captions say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from fairgate.builds.recipes.contract import Before, Part, Recipe, RecipeSettings, in_shards, register
from fairgate.builds.steps import (
    Labelled,
    Likeness,
    OnePerson,
    ReadPhotograph,
    SetRows,
    Step,
    Trace,
    Within,
    first_of_each,
    image_gender,
)
from fairgate.data import MEMBER, OWN_COLUMNS, inside, read_coco, read_labels, unique_ids
from fairgate.ground.errors import DatasetError

PAPER = "Hamidieh et al., Identifying Implicit Social Biases in Vision-Language Models, AIES 2024 (So-B-IT)"
FAIRFACE = {
    "race": ["White", "Black", "Latino_Hispanic", "East Asian", "Southeast Asian", "Indian", "Middle Eastern"],
    "gender": ["Male", "Female"],
    "age": ["0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70"],
}
"""FairFace's columns and groups (Karkkainen and Joo 2021), in the order of its models' outputs."""

CFD_RACES = {"A": "Asian", "B": "Black", "I": "Indian", "L": "Latino", "M": "Multiracial", "W": "White"}
CFD_GENDERS = {"F": "Female", "M": "Male"}
CFD_EXPRESSIONS = {"N": "neutral", "A": "angry", "F": "fearful", "HC": "happy, closed mouth", "HO": "happy, open mouth"}
"""What the letters of a Chicago Face Database name say: CFD-WM-001-014-N.jpg is a White man, model 001, neutral."""
CFD = {"race": list(CFD_RACES.values()), "gender": list(CFD_GENDERS.values())}
_CFD_NAME = re.compile(r"CFD-([A-Z])([A-Z])-(\d+)-(\d+)-(HO|HC|[NAF])", re.IGNORECASE)

COCO = {"gender": ["male", "female"]}
ATTRIBUTES = {"table": FAIRFACE, "cfd": CFD, "coco": COCO}
MIN_SIDE = 64
"""Pixels; no paper names a limit."""


@dataclass(frozen=True, slots=True)
class Photograph:
    """A photograph by its path under the folder; `labels` has None where nothing is known."""

    path: str
    labels: Mapping[str, str | None]
    caption: str = ""
    columns: Mapping[str, str | int | float] = field(default_factory=dict)


def photographs_of_table(
    table: Path, attributes: Mapping[str, object], image_column: str | None
) -> Iterator[Photograph]:
    """A photograph per line of a CSV file; other columns come along as text. Raises DatasetError naming the line."""
    labels = read_labels(table)
    column = labels.image_column(image_column)
    for attribute in attributes:
        labels.column(attribute, "is named as an attribute")
    for line, fields in labels:
        inside(fields[column], labels.place(line))
        extras = {
            f"label_{name}" if name in OWN_COLUMNS else name: text
            for name, text in fields.items()
            if name not in (column, "caption", *attributes)
        }
        known = {attribute: fields[attribute].strip() or None for attribute in attributes}
        yield Photograph(fields[column], known, fields.get("caption", ""), extras)


def photographs_of_cfd(folder: Path) -> Iterator[Photograph]:
    """Every JPEG and PNG file under a folder, in the order of their paths; a name says race, gender and expression.

    Labels are None where a name is not one of the database's. Raises DatasetError for a folder without pictures.
    """
    paths = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix.lower() in (".jpg", ".jpeg", ".png")
    )
    if not paths:
        raise DatasetError(
            "the folder holds no JPEG or PNG files.",
            where=str(folder),
            remedy="give the folder into which the database was unpacked",
        )
    for path in paths:
        found = _CFD_NAME.fullmatch(PurePosixPath(path).stem)
        race, gender, model, _, expression = (part.upper() for part in found.groups()) if found else [""] * 5
        labels = {"race": CFD_RACES.get(race), "gender": CFD_GENDERS.get(gender)}
        columns = {"model": f"{race}{gender}-{model}", "expression": CFD_EXPRESSIONS.get(expression, "")}
        yield Photograph(path, labels, columns=columns)


class FaceSettings(RecipeSettings):
    """Settings of `faces`."""

    layout: Literal["table", "cfd", "coco"] = "table"
    folder: Path = Field(description="Folder of the photographs.")
    labels: Path | None = Field(None, description="`table`: the CSV file; `coco`: instances_*.json.")
    captions: Path | None = Field(None, description="`coco`: captions_*.json.")
    found_by: Literal["path", "file name"] = Field("path", description="Where a photograph is in the folder.")
    image_column: str | None = Field(None, description="`table`: the column that names the photograph, if not plain.")
    attributes: dict[str, list[str]] = Field(
        default_factory=dict, description="Attribute -> its groups, in order; empty: the layout's own."
    )
    expressions: list[str] = Field(
        default_factory=list, description="`cfd`: expressions to keep, such as `neutral`; empty: all."
    )
    subject: str = Field("person", description="What every photograph depicts.")
    min_side: int = Field(
        MIN_SIDE, ge=1, description="Shorter side in pixels; of the person's box where that is known."
    )
    shard_sets: int = Field(256, ge=1, description="Photographs of a shard.")

    @model_validator(mode="after")
    def _the_layout_has_its_files(self) -> FaceSettings:
        if (self.labels is None) != (self.layout == "cfd"):
            raise ValueError("`labels` names the CSV file of `table` or the instances file of `coco`; `cfd` has none")
        if (self.captions is None) != (self.layout != "coco"):
            raise ValueError("`captions` names the captions file of `coco`; the other layouts have none")
        if unknown := sorted(set(self.expressions) - set(CFD_EXPRESSIONS.values())):
            known = ", ".join(CFD_EXPRESSIONS.values())
            raise ValueError(f"`expressions` has '{unknown[0]}'; there are: {known}")
        return self

    def groups(self) -> dict[str, list[str]]:
        return self.attributes or ATTRIBUTES[self.layout]

    def listed(self) -> Iterator[Photograph]:
        """Every photograph, in a fixed order. Raises DatasetError where the labels cannot be read."""
        if self.layout == "table" and self.labels:
            yield from photographs_of_table(self.labels, self.groups(), self.image_column)
        elif self.layout == "coco" and self.labels and self.captions:
            for image in read_coco(self.captions, self.labels):
                columns = {"image_id": image.image_id, **image.columns()}
                gender = {"gender": image_gender(image.captions)}
                yield Photograph(image.file, gender, image.captions[0].strip(), columns)
        else:
            wanted = self.expressions or ["", *CFD_EXPRESSIONS.values()]
            found = photographs_of_cfd(self.folder)
            yield from (photograph for photograph in found if photograph.columns["expression"] in wanted)


class ListedPhotographs(Part):
    """A photograph per set, accepted or dropped with a reason."""

    name: ClassVar[str] = "photographs"
    settings: FaceSettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """Photographs as they are listed; files are opened later, by the workers."""
        listed = list(self.settings.listed())
        ids = unique_ids([photograph.path for photograph in listed])
        starts = (
            SetRows(
                set_id=ids[each.path],
                subject=self.settings.subject,
                names=(Faces.name, each.path),
                seed=self.settings.seed,
                rows=[{"member": MEMBER, "path": each.path, "caption": each.caption, **each.labels}],
                columns=dict(each.columns),
            )
            for each in listed
        )
        return in_shards(starts, self.settings)

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        """Checks of the labels first, then of the file."""
        settings = self.settings
        return [
            *([OnePerson(settings.min_side)] if settings.layout == "coco" else []),
            Labelled(settings.groups()),
            ReadPhotograph(settings.folder, settings.found_by == "file name"),
            Within("shorter_side", "too_small", at_least=settings.min_side),
            Likeness(),
        ]

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        """All that were accepted, without duplicates."""
        return [trace.set_id for trace in first_of_each(trace for trace in traces if trace.kept)]


@register
class Faces(Recipe):
    """Labelled photographs, each a set of its own."""

    name: ClassVar[str] = "faces"
    paper: ClassVar[str] = PAPER
    Settings: ClassVar[type[RecipeSettings]] = FaceSettings
    counterfactual = False
    settings: FaceSettings

    def parts(self) -> Sequence[Part]:
        return [ListedPhotographs(self.settings)]

    def subjects(self) -> list[str]:
        return [self.settings.subject]

    def attributes(self) -> Mapping[str, Sequence[str]]:
        return self.settings.groups()

    def models(self) -> Mapping[str, str]:
        return {}

    def inputs(self) -> Mapping[str, Path]:
        """The labels. (A photograph that changes is noticed by its bytes in the dataset, not here.)"""
        files = {"labels": self.settings.labels, "captions": self.settings.captions}
        return {name: path for name, path in files.items() if path is not None}

    def finish(self, rows: SetRows) -> list[dict[str, Any]]:
        rows.columns.pop("likeness", None)
        return [{**row, "recipe": self.name} for row in super().finish(rows)]
