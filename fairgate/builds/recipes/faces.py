"""`faces`: photographs that are labelled already, imported and checked; no model is used (papers 2 and 4).

So-B-IT (paper 4) retrieves from FairFace. The photographs are the user's: none is shipped or fetched. Their labels are
a CSV file with a line per photograph (FairFace's: file, age, gender, race), as `fairgate dataset import` reads it.
Unlike that command, this recipe drops what it cannot use, with a reason, and goes on. `fairgate dataset get
chicago_faces` reads the Chicago Face Database of paper 2, and the recipe `photographs` COCO images of one person
(paper 5).

Departures. Paper 4 retrieves from FairFace's training set; here it is what `labels` names. A photograph whose shorter
side is under `min_side` pixels is dropped; no paper names a limit.

Each photograph is a set of its own. Of photographs with equal pixels, the first is used. Labels are what
annotators perceived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from fairgate.builds.recipes.contract import Before, Part, Recipe, RecipeSettings, in_shards, register
from fairgate.builds.steps import Labelled, Likeness, ReadPhotograph, SetRows, Step, Trace, Within, first_of_each
from fairgate.data import MEMBER, OWN_COLUMNS, inside, read_labels, unique_ids

PAPER = "Hamidieh et al., Identifying Implicit Social Biases in Vision-Language Models, AIES 2024 (So-B-IT)"
FAIRFACE = {
    "race": ["White", "Black", "Latino_Hispanic", "East Asian", "Southeast Asian", "Indian", "Middle Eastern"],
    "gender": ["Male", "Female"],
    "age": ["0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70"],
}
"""FairFace's columns and groups (Karkkainen and Joo 2021), in the order of its models' outputs."""

MIN_SIDE = 64
"""Pixels; no paper names a limit."""


class FaceSettings(RecipeSettings):
    """Settings of `faces`."""

    folder: Path = Field(description="Folder of the photographs.")
    labels: Path = Field(description="The CSV file of labels.")
    found_by: Literal["path", "file name"] = Field("path", description="Where a photograph is in the folder.")
    image_column: str | None = Field(None, description="The column that names the photograph, if not plain.")
    attributes: dict[str, list[str]] = Field(
        default_factory=lambda: dict(FAIRFACE), description="Attribute -> its groups, in order."
    )
    subject: str = Field("person", description="What every photograph depicts.")
    min_side: int = Field(MIN_SIDE, ge=1, description="Shorter side in pixels.")
    shard_sets: int = Field(256, ge=1, description="Photographs of a shard.")


class ListedPhotographs(Part):
    """A photograph per set, accepted or dropped with a reason."""

    name: ClassVar[str] = "photographs"
    settings: FaceSettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """A photograph per line; files are opened later, by the workers. Raises DatasetError naming a bad line."""
        settings, labels = self.settings, read_labels(self.settings.labels)
        column = labels.image_column(settings.image_column)
        for attribute in settings.attributes:
            labels.column(attribute, "is named as an attribute")
        lines = []
        for line, fields in labels:
            inside(fields[column], labels.place(line))
            lines.append(fields)
        ids = unique_ids([fields[column] for fields in lines])
        return in_shards((self._start(fields, column, ids[fields[column]]) for fields in lines), settings)

    def _start(self, fields: Mapping[str, str], column: str, set_id: str) -> SetRows:
        """The set of a line: its groups, and other columns as text."""
        path, attributes = fields[column], self.settings.attributes
        known = {attribute: fields[attribute].strip() or None for attribute in attributes}
        others = {
            f"label_{name}" if name in OWN_COLUMNS else name: text
            for name, text in fields.items()
            if name not in (column, "caption", *attributes)
        }
        return SetRows(
            set_id=set_id,
            subject=self.settings.subject,
            names=(Faces.name, path),
            seed=self.settings.seed,
            rows=[{"member": MEMBER, "path": path, "caption": fields.get("caption", ""), **known}],
            columns=others,
        )

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        """Checks of the labels first, then of the file."""
        settings = self.settings
        return [
            Labelled(settings.attributes),
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
        return self.settings.attributes

    def models(self) -> Mapping[str, str]:
        return {}

    def inputs(self) -> Mapping[str, Path]:
        """The labels. (A photograph that changes is noticed by its bytes in the dataset, not here.)"""
        return {"labels": self.settings.labels}

    def finish(self, rows: SetRows) -> list[dict[str, Any]]:
        rows.columns.pop("likeness", None)
        return [{**row, "recipe": self.name} for row in super().finish(rows)]
