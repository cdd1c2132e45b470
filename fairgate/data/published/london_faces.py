"""The Face Research Lab London Set (DeBruine and Jones 2017): 102 people, each neutral and smiling, with the gender and
the ethnic group that they named."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Final

from fairgate.data.published.contract import ByHand, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import ABSENT, SourceFiles, label_lines, put_once, require_groups
from fairgate.ground.errors import DatasetError

GENDERS: Final = ("female", "male")
ETHNICITIES: Final = ("white", "black", "west_asian", "east_asian", "east_asian/white")
EXPRESSIONS: Final = ("neutral", "smiling")
PEOPLE: Final = 102
_TABLES: Final = ("people.csv", "london_info.csv")
_PICTURE: Final = re.compile(r"(?P<expression>neutral|smiling)(?:_front)?/(?P<person>\d{3})(?:_\d\d)?\.jpe?g")


def read(files: SourceFiles, part: str) -> Reading:
    """Rows of the people in the table whose photographs are there, those of a person in one set."""
    table, pictures = files.one(*_TABLES), _pictures(files)
    left_out: Counter[str] = Counter()
    rows: list[PublishedRow] = []
    loose: list[Path] = []
    for fields, place in label_lines(table, "face_id", "face_age", "face_gender", "face_eth"):
        person, groups = fields["face_id"], {"gender": fields["face_gender"], "ethnicity": fields["face_eth"]}
        require_groups(groups, _GROUPS, place)
        if not re.fullmatch(r"\d{3}", person):
            raise DatasetError(
                f"'{person[:20]}' is no number of a person.",
                where=place,
                remedy="take the table as it was published; other labels come in by `fairgate dataset import`",
            )
        for expression in EXPRESSIONS if part == "all" else (part,):
            path = pictures.get((expression, person))
            if path is None:
                left_out[ABSENT] += 1
                continue
            loose.append(path)
            rows.append(
                PublishedRow(
                    set_id=person,
                    member=expression,
                    path=f"{expression}/{person}.jpg",
                    groups=groups,
                    image=path,
                    extra={"person": person, "years": fields["face_age"]},
                )
            )
    return Reading(rows, left_out, [table], {"cluster_column": "person"}, loose)


def _pictures(files: SourceFiles) -> dict[tuple[str, str], Path]:
    """Photographs by expression and person. Raises DatasetError for two of one."""
    pictures: dict[tuple[str, str], Path] = {}
    for name, path in files.paths.items():
        if match := _PICTURE.fullmatch("/".join(PurePosixPath(name).parts[-2:])):
            key = match["expression"], match["person"]
            put_once(pictures, key, path, f"two photographs are the {key[0]} one of person {key[1]}.")
    return pictures


_SOURCE: Final = ByHand(
    "https://doi.org/10.6084/m9.figshare.5047666.v5",
    "Download neutral_front, smiling_front and london_faces_info.csv, and call the table people.csv.",
)
_GROUPS: Final = {"gender": GENDERS, "ethnicity": ETHNICITIES}
_SIZE: Final = "photographs of 1350 x 1350 pixels; smaller copies will do"

DATASET = Published(
    name="london_faces",
    title="Face Research Lab London Set: faces of 102 adults, neutral and smiling",
    licence="CC-BY-4.0",
    terms="Face Research Lab London Set, DeBruine and Jones 2017, doi 10.6084/m9.figshare.5047666.v5, CC BY 4.0. The "
    "people consented to research and its illustration; gender and ethnic group are as they named them.",
    citation="DeBruine and Jones, Face Research Lab London Set (version 5), figshare 2017, "
    "10.6084/m9.figshare.5047666.v5.",
    counterfactual=False,
    read=read,
    parts={
        "all": PublishedPart("Both photographs of each person, in one set.", _SIZE, _SOURCE, _GROUPS),
        **{
            name: PublishedPart(f"The {name} photograph of each person.", _SIZE, _SOURCE, _GROUPS)
            for name in EXPRESSIONS
        },
    },
    layout="put the photographs next to the table, as neutral/001.jpg and smiling/001.jpg",
    notes=(
        "Two photographs of a person are not independent: they are one set, and count as one person.",
        "49 women and 53 men; ethnic groups other than white (69 people) have 1 to 13, too few for a verdict.",
        "102 people are no benchmark: compare a candidate with its baseline, and publish no finding about a model.",
    ),
)
register(DATASET)
