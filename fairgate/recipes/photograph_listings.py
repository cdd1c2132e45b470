"""What is known of photographs before they are opened: FairFace-like tables, CFD's file names, COCO's annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from fairgate.data.coco import read_coco
from fairgate.data.labels import inside, read_labels
from fairgate.data.rows import OWN_COLUMNS
from fairgate.errors import DatasetError
from fairgate.steps.caption_gender import image_gender

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


@dataclass(frozen=True, slots=True)
class Photograph:
    """A photograph by its path under the folder; `labels` has None where nothing is known."""

    path: str
    labels: Mapping[str, str | None]
    caption: str = ""
    columns: Mapping[str, str | int | float] = field(default_factory=dict)


def from_table(table: Path, attributes: Mapping[str, object], image_column: str | None) -> Iterator[Photograph]:
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


def from_cfd(folder: Path) -> Iterator[Photograph]:
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


def from_coco(instances: Path, captions: Path) -> Iterator[Photograph]:
    """Every captioned image of COCO's files, in the order of their ids, with the gender that its captions name."""
    for image in read_coco(captions, instances):
        columns = {"image_id": image.image_id, **image.columns()}
        yield Photograph(image.file, {"gender": image_gender(image.captions)}, image.captions[0].strip(), columns)
