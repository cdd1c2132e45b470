"""Tables that an import reads, and their rows as those of a dataset: every cell that matters is checked, every error
names its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fairgate.data.dataset import Index
from fairgate.data.grouping import ColumnGrouping
from fairgate.data.label_rows import (
    METADATA,
    LabelTable,
    TableLine,
    folder_table,
    frame_table,
    is_inside,
    lines_table,
    text_of,
)
from fairgate.data.labels import inside, unique_ids
from fairgate.data.parquet_rows import parquet_table
from fairgate.data.rows import MEMBER, OWN_COLUMNS, check_attributes
from fairgate.data.tar_rows import tar_table
from fairgate.ground.errors import DatasetError, first_harmful, harmless, listed, suggestion


def open_table(labels: Path | str | Any) -> LabelTable:
    """A file of labels, or a frame of pandas. Raises DatasetError for what is neither, or has names that a log acts on.

    Files: CSV (also .gz) separated by commas, semicolons or tabs, JSON Lines (.jsonl), Parquet, WebDataset's archives
    (.tar), several of the last two as `data/train-*.parquet`. Folders: of one such table, or pictures with metadata.csv
    or metadata.jsonl.
    """
    table = frame_table(labels) if hasattr(labels, "itertuples") else _file(Path(labels))
    if (odd := first_harmful(table.columns)) is not None:
        raise DatasetError(
            f"a column is called '{odd}', which holds control characters, or reads as a command to a CI log.",
            where=table.place(1),
            remedy="give the column a plain name",
        )
    return table


def _file(path: Path) -> LabelTable:
    if path.is_dir():
        return _folder(path)
    if "*" in path.name and not path.exists():
        return _several(path, sorted(path.parent.glob(path.name)))
    return _several(path, [path]) if path.suffix.lower() in (".parquet", ".tar") else lines_table(path)


def _several(named: Path, files: Sequence[Path]) -> LabelTable:
    """One table of several files of Parquet, or of several archives."""
    endings = {path.suffix.lower() for path in files}
    if endings not in ({".parquet"}, {".tar"}):
        raise DatasetError(
            "the name fits no Parquet file and no archive." if not files else "the name fits files of several kinds.",
            where=str(named),
            remedy="name files of one kind, as `data/train-*.parquet` or `shards/*.tar`",
        )
    return (parquet_table if endings == {".parquet"} else tar_table)(named.name, tuple(files))


def _folder(folder: Path) -> LabelTable:
    """What a folder holds: metadata with pictures, Parquet, or archives, also a folder further down."""
    files = [path for name in METADATA for path in sorted(folder.rglob(name))]
    splits = {str(path.relative_to(folder)) for path in files}
    if not files:
        files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".parquet", ".tar"))
        splits = {str(path.relative_to(folder).parent / _SPLIT.split(path.name, maxsplit=1)[0]) for path in files}
    if len(splits) != 1:
        what = f"{len(splits)} tables: {listed(sorted(splits), 10)}" if splits else "no table that is read"
        raise DatasetError(
            f"the folder holds {what}.",
            where=str(folder),
            remedy=f"name one (`--labels '{folder}/train-*.parquet'`, `{folder}/test`): Parquet, WebDataset's archives "
            "(.tar), or pictures with metadata.csv or metadata.jsonl",
        )
    return folder_table(folder, lines_table(files[0])) if files[0].name in METADATA else _several(folder, files)


_SPLIT = re.compile(r"[-_.]?\d|\.")
"""Where the name of a split ends: `train-00000-of-00061.parquet`, `test_3.tar`, `validation.parquet`."""


@dataclass(frozen=True)
class ImportColumns:
    """What the columns of a table mean. `attributes` maps each to its groups; an empty list takes those of the table.

    `subject` is what every image shows, or `subject_column` says it. `image` names the column of the images' paths.
    `sets` and `members` name the columns of counterfactual sets. `cluster` names that of images that depend on each
    other (one person, photograph or prompt): a cluster is a set, which is resampled and counted whole. Without these
    columns each image is a set of its own.
    """

    attributes: Mapping[str, Sequence[str]]
    subject: str | None = None
    subject_column: str | None = None
    image: str | None = None
    sets: str | None = None
    members: str | None = None
    cluster: str | None = None


class ImportedRows:
    """The lines of a table by what its columns mean, in their order: paths, sets, members, subjects and groups.

    `settle` names sets and images once all lines have passed. `named_by` says how images are named where their table
    has no path for each. `pictures`: the table brings them, and they are wanted.
    """

    def __init__(self, table: LabelTable, given: ImportColumns, grouping: ColumnGrouping, pictures: bool) -> None:
        """Raises DatasetError for a column that is not there, and for two that would be stored under one name."""
        _require_options(table, given, grouping)
        self.table, self.given, self.grouping = table, given, grouping
        self.pictures = pictures and table.picture_column is not None
        self.image_column = _image_column(table, given.image, self.pictures)
        self._extras = self._stored_names()
        self._shared: dict[str, str] = {}
        self._recorded: dict[str, set[str]] = {column: set() for column in grouping.columns}
        self._of: dict[str, list[str]] = {name: [] for name in given.attributes}
        self.lines: list[int] = []
        self.paths: list[str | None] = []
        self._subjects: list[str] = []
        self._sets: list[str] = []
        self._members: list[str] = []
        self.groups: dict[str, list[str]] = {}
        self.named_by: str | None = None
        self.counterfactual = False

    def _stored_names(self) -> dict[str, str]:
        """Each column without a meaning, and the free name that it is stored under."""
        given, columns = self.given, self.table.columns
        taken = {given.subject_column, given.sets, given.members, given.cluster, "caption", *given.attributes}
        others = [name for name in columns if name not in taken and name != self.image_column]
        stored = {name: f"label_{name}" if name in OWN_COLUMNS else name for name in others}
        stored |= {name: f"label_{name}" for name in self.grouping.columns}
        names = Counter([*stored.values(), *given.attributes])
        if doubled := [name for name, count in names.items() if count > 1]:
            raise DatasetError(
                f"two columns would be stored as '{doubled[0]}'.",
                where=self.table.place(1),
                remedy="rename one of them in the table; what was recorded of a grouped column is stored as label_NAME",
            )
        return stored

    @property
    def _strict(self) -> bool:
        """Whether every image needs a path of its own: pictures that the table brings can be named by their row."""
        return not self.pictures or self.given.image is not None

    def _group(self, line: TableLine, column: str) -> str:
        """The group of a line by a column. Raises DatasetError for an empty cell, or one in no bin."""
        recorded, place = text_of(line.fields[column]), self.table.place(line.number)
        if not recorded.strip():
            raise DatasetError(
                f"column '{column}' is empty.",
                where=place,
                remedy="give every image a label (for example 'unknown'), or take the line out",
            )
        try:
            group = self.grouping.group_of(column, recorded)
        except DatasetError as error:
            raise DatasetError(f"column '{column}': {error.problem}", where=place, remedy=error.remedy) from error
        declared = self.given.attributes.get(column)
        if declared and group not in declared:
            raise DatasetError(
                f"'{group}' is not a declared group of '{column}'.",
                where=place,
                remedy=f"declared groups: {', '.join(declared)}",
            )
        return self._shared.setdefault(group, group)

    def _path(self, line: TableLine) -> str | None:
        """The path that names the line's image, as the table spells it; None where it may lack one and does."""
        path = line.named
        if self.image_column is not None and self.image_column in line.fields:
            named = line.fields[self.image_column]
            path = None if named is None else text_of(named)
        if self._strict:
            inside(path or "", self.table.place(line.number))
        return path

    def __len__(self) -> int:
        return len(self.lines)

    def add(self, line: TableLine) -> None:
        """Take a line in. Raises DatasetError for a cell that is empty, not declared, or no path."""
        given = self.given
        self.lines.append(line.number)
        self.paths.append(self._path(line))
        for column, seen in self._recorded.items():
            seen.add(text_of(line.fields[column]))
        for attribute, groups in self._of.items():
            groups.append(self._group(line, attribute))
        self._subjects.append(self._group(line, given.subject_column) if given.subject_column else given.subject or "")
        if given.sets and given.members:
            for names, column in ((self._sets, given.sets), (self._members, given.members)):
                text = text_of(line.fields[column])
                names.append(self._shared.setdefault(text, text))
        elif given.cluster:
            self._sets.append(self._group(line, given.cluster))

    def settle(self) -> None:
        """Name the sets and the images, and order the groups. Raises DatasetError where two lines are of one image."""
        if not self.given.sets:
            self._name_images()
            ids = unique_ids([str(path) for path in self.paths])
            names = [ids[str(path)] for path in self.paths]
            clustered = self.given.cluster is not None
            self._sets, self._members = (self._sets, names) if clustered else (names, [MEMBER] * len(self))
        self._require_sets()
        ordered = {name: self.grouping.groups(name, recorded) for name, recorded in self._recorded.items()}
        plain = ColumnGrouping()
        self.groups = check_attributes(
            {
                name: list(groups) or ordered.get(name) or plain.groups(name, self._of[name])
                for name, groups in self.given.attributes.items()
            }
        )

    @cached_property
    def places(self) -> dict[tuple[str, str], int]:
        """Where the line of a set's member is in these lists."""
        return {names: place for place, names in enumerate(zip(self._sets, self._members, strict=True))}

    def index(self) -> Index:
        """The text columns, as a written release has them."""
        return Index(
            set_id=np.array(self._sets, dtype=object),
            member=np.array(self._members, dtype=object),
            subject=np.array(self._subjects, dtype=object),
            caption=np.full(len(self), "", dtype=object),
            path=np.array([path or "" for path in self.paths], dtype=object),
            attributes={name: np.array(groups, dtype=object) for name, groups in self._of.items()},
            groups=self.groups,
        )

    def row(self, place: int, line: TableLine) -> dict[str, object]:
        """The row of a dataset, without its picture."""
        return {
            "image": None,
            "path": self.paths[place],
            "set_id": self._sets[place],
            "member": self._members[place],
            "subject": self._subjects[place],
            "caption": None if (caption := line.fields.get("caption", "")) is None else text_of(caption),
            **{name: groups[place] for name, groups in self._of.items()},
            **{stored: line.fields[name] for name, stored in self._extras.items()},
        }

    def _name_images(self) -> None:
        seen = dict[PurePosixPath, int]()
        place = self.table.place
        for path, line in zip(self.paths, self.lines, strict=True):
            first = seen.setdefault(PurePosixPath(path or ""), line)
            if first != line and self._strict:
                raise DatasetError(
                    f"image '{path}' has two lines.",
                    where=f"{place(first)} and {place(line)}",
                    remedy="keep one line per image",
                )
        if len(seen) < len(self) or not all(is_inside(path or "") for path in self.paths):
            self.paths = [f"{number:08d}" for number in range(1, len(self) + 1)]
            self.named_by = "the row's number: their table has no different path for each"

    def _require_sets(self) -> None:
        """Rows of a set, or cluster, follow each other. Raises DatasetError."""
        given = self.given
        of: dict[str, list[str]] = {}
        before = None
        for line, name, member in zip(self.lines, self._sets, self._members, strict=True):
            if name in of and name != before:
                raise DatasetError(
                    f"rows of set '{harmless(name)}' are not one after another.",
                    where=self.table.place(line),
                    remedy=f"sort the table by '{given.sets or given.cluster}'",
                )
            of.setdefault(name, []).append(member)
            before = name
        self.counterfactual = given.sets is not None and max(map(len, of.values()), default=0) > 1


def _image_column(table: LabelTable, named: str | None, brought: bool) -> str | None:
    """The column of the images' paths; where the table brings pictures, that of pictures if no other has paths."""
    if not brought:
        return table.image_column(named)
    if named is not None and named != table.picture_column:
        return table.column(named, "should name the images")
    return "path" if named is None and "path" in table.columns else table.picture_column


def _require_options(table: LabelTable, given: ImportColumns, grouping: ColumnGrouping) -> None:
    if bool(given.subject) == bool(given.subject_column):
        raise DatasetError(
            "what the images depict has to be said in one way.",
            remedy="give either a subject for all of them (`--subject person`) or a column (`--subject-column`)",
        )
    if bool(given.sets) != bool(given.members):
        raise DatasetError(
            "counterfactual sets need two columns.",
            remedy="name the set's (`--set-column`) and the member's (`--member-column`), or neither",
        )
    if given.cluster and given.sets:
        raise DatasetError(
            "a table has counterfactual sets or clusters, and both are named.",
            remedy="name the set's column alone if every cluster has one set, which is resampled whole; of clusters "
            "with several sets, keep one set each, or name the cluster's column alone (`--cluster`)",
        )
    for attribute in given.attributes:
        table.column(attribute, "is named as an attribute")
    if given.subject_column:
        table.column(given.subject_column, "should name the subjects")
    for name, what in ((given.sets, "sets"), (given.members, "members"), (given.cluster, "clusters")):
        if name:
            table.column(name, f"should name the {what}")
    named = [*given.attributes, *([given.subject_column] if given.subject_column else [])]
    if odd := [name for name in grouping.columns if name not in named]:
        there = odd[0] in table.columns
        raise DatasetError(
            f"column '{odd[0]}' is grouped, and is neither an attribute nor the subjects' column.",
            remedy=f"name it as an attribute, too (`--attribute {odd[0]}`)"
            if there
            else suggestion(odd[0], named, f"named so: {', '.join(named)}"),
        )
