"""FairFace (Kärkkäinen and Joo 2021): photographs of faces with perceived race, gender and age.

Two layouts are read: the authors' zip archives next to their CSV files of labels, and the Parquet of HuggingFaceM4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from fairgate.data import inside, unique_ids
from fairgate.data.parquet_rows import HubTable
from fairgate.data.published.contract import HubFiles, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import SourceFiles, label_lines, require_groups
from fairgate.ground.errors import DatasetError

AGES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70")
RACES = ("East Asian", "Indian", "Black", "White", "Middle Eastern", "Latino_Hispanic", "Southeast Asian")
GROUPS = {"race": RACES, "gender": ("Male", "Female"), "age": AGES}
"""In the order of the hub's class ids. The authors' classifier numbers races otherwise: ids are never compared."""
COUNTS = {
    "race": dict(zip(RACES, (1550, 1516, 1556, 2085, 1209, 1623, 1415), strict=True)),
    "gender": {"Male": 5792, "Female": 5162},
    "age": dict(zip(AGES, (199, 1356, 1181, 3300, 2330, 1353, 796, 321, 118), strict=True)),
}
"""Of the validation photographs, counted in the authors' fairface_label_val.csv."""
_DATES = {"9-Mar": "3-9", "09-Mar": "3-9", "Mar-09": "3-9", "3-Sep": "3-9", "03-Sep": "3-9", "Sep-03": "3-9"}
_DATES |= {"19-Oct": "10-19", "Oct-19": "10-19"}
"""What spreadsheets make of two of the age groups."""
PADDINGS = ("0.25", "1.25")
_COMMIT = "54d573cdb8b5af490ba8da9da2799628f6e5c496"


def _part(about: str, size: str, pattern: str) -> PublishedPart:
    return PublishedPart(about, size, HubFiles("HuggingFaceM4/FairFace", (pattern, "README.md"), _COMMIT), GROUPS)


def read(files: SourceFiles, part: str) -> Reading:
    """Rows of one split, from Parquet where there is any, else from the authors' files."""
    split, _, padding = part.partition("-")
    padding = padding or "0.25"
    tables = files.matching("validation-*.parquet" if split == "val" else "train-*.parquet")
    if any(path.parent.name in PADDINGS for path in tables):
        tables = [path for path in tables if path.parent.name == padding]
    return _of_tables(tables, split) if tables else _of_labels(files, split, padding)


def _of_labels(files: SourceFiles, split: str, padding: str) -> Reading:
    """The authors' layout: `fairface_label_val.csv`, and images as `val/1.jpg`, in a zip or next to it."""
    path = files.one(f"fairface_label_{split}.csv")
    for archive in files.archives:
        if "margin" in archive.name and f"margin{padding.replace('.', '')}" not in archive.name:
            raise DatasetError(
                f"the archive is of another padding than {padding}.",
                where=str(archive),
                remedy="keep the archive of one padding in the folder, and name its part (--part)",
            )
    images = files.by_tail(2)
    labelled: list[tuple[str, dict[str, str]]] = []
    repaired = 0
    for fields, place in label_lines(path, "file", *GROUPS):
        name = str(inside(fields["file"], place))
        if name not in images:
            raise DatasetError(
                f"there is no image '{name}'.",
                where=f"{files.folder} ({place})",
                remedy="put the authors' zip, or what it unpacks to, into the folder of the labels",
            )
        repaired += fields["age"] in _DATES
        groups = {"race": fields["race"], "gender": fields["gender"], "age": _DATES.get(fields["age"], fields["age"])}
        require_groups(groups, GROUPS, place)
        labelled.append((name, groups))
    ids = unique_ids([name for name, _ in labelled])
    rows = [PublishedRow(ids[name], name, groups, images[name]) for name, groups in labelled]
    repairs = {"ages_repaired": repaired} if repaired else {}
    facts = {"layout": "authors", **_checked([groups for _, groups in labelled], split), **repairs}
    return Reading(rows, {}, [path, *files.archives], facts)


def _of_tables(paths: list[Path], split: str) -> Reading:
    """The hub's layout. Photographs are named by file and row, as their own names are not in it."""
    rows: list[PublishedRow] = []
    named = True
    for number, path in enumerate(paths):
        table = HubTable(path)
        own = GROUPS.keys() <= table.class_names().keys()
        named = named and own
        for row, values in table.rows(tuple(GROUPS)):
            groups = {name: values[name] if own else _by_card(name, values[name]) for name in GROUPS}
            require_groups(groups, GROUPS, f"{path}: row {row}")
            set_id, name = f"{split}-{number}-{row:06d}", f"{split}/{path.stem}/{row}"
            rows.append(PublishedRow(set_id, name, groups, partial(table.picture, row)))
    checked = _checked([row.groups for row in rows], split)
    if not named and checked.get("counts_as_published") is not True:
        raise DatasetError(
            "the table does not name its classes, and by the order of its card the groups have other sizes.",
            where=str(paths[0]),
            remedy="take the files as the hub has them, whole; they carry the names of their classes",
        )
    return Reading(rows, {}, paths, {"layout": "hub", **checked})


def _by_card(attribute: str, value: object) -> str:
    groups = GROUPS[attribute]
    return groups[value] if isinstance(value, int) and 0 <= value < len(groups) else repr(value)


def _checked(labels: Iterable[Mapping[str, str]], split: str) -> dict[str, object]:
    """Whether the groups of all validation photographs are as many as the authors' file has."""
    if split != "val":
        return {}
    counted = {attribute: Counter[str]() for attribute in GROUPS}
    for groups in labels:
        for attribute in GROUPS:
            counted[attribute][groups[attribute]] += 1
    sizes = {name: {group: counted[name][group] for group in groups} for name, groups in GROUPS.items()}
    return {"counts_as_published": sizes == COUNTS, "published_images": sum(COUNTS["gender"].values())}


DATASET = Published(
    name="fairface",
    title="FairFace: photographs of faces with perceived race, gender and age",
    licence="CC-BY-4.0",
    citation="Kärkkäinen and Joo, FairFace: Face Attribute Dataset for Balanced Race, Gender, and Age, WACV 2021.",
    counterfactual=False,
    read=read,
    parts={
        "val": _part("The 10,954 validation photographs, padding 0.25.", "63 MB", "0.25/validation-*.parquet"),
        "train": _part("The 86,744 training photographs, padding 0.25.", "500 MB", "0.25/train-*.parquet"),
        "val-1.25": _part("The 10,954 validation photographs, padding 1.25.", "237 MB", "1.25/validation-*.parquet"),
        "train-1.25": _part("The 86,744 training photographs, padding 1.25.", "1.9 GB", "1.25/train-*.parquet"),
    },
    notes=(
        "The authors' own files (github.com/joojs/fairface) are read too, by --from: fairface_label_val.csv next to "
        "fairface-img-margin025-trainval.zip, or what it unpacks to.",
        "Ages that a spreadsheet turned into dates (9-Mar, 19-Oct) are read as 3-9 and 10-19, and counted.",
        "Labels are what annotators perceived; some of race are known to be wrong, and some training photographs are "
        "in the validation set, too (issues of the authors' repositories). Nothing is corrected or left out.",
    ),
)
register(DATASET)
