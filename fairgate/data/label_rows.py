"""Rows and cells of tables of labels: CSV, JSON Lines, and a folder of pictures with metadata of either kind (Hugging
Face's ImageFolder)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from fairgate.data.caption_streams import json_lines, picture_within
from fairgate.data.labels import Labels, inside
from fairgate.data.parquet_file import encoded
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import sha256_file

Fields = Mapping[str, object]
"""Column -> text, number, truth value or None."""


class TableLine(NamedTuple):
    """A row of a table: its number, its fields, and its picture where it brings one and pictures were wanted."""

    number: int
    fields: Fields
    picture: bytes | None = None
    named: str | None = None
    """What the picture is called in the table."""


def plain(value: object, column: str, place: str) -> object:
    """A cell as text, a whole number, a finite number or a truth value; None where it is missing.

    Raises DatasetError for other kinds and for infinities.
    """
    if hasattr(value, "item") and not isinstance(value, bytes):
        value = value.item()  # a number of numpy
    if isinstance(value, str) and not _is_utf8(value):
        raise DatasetError(
            f"column '{column}' holds half of a character (a surrogate), which is no text.",
            where=place,
            remedy="write the file again in UTF-8",
        )
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and not math.isinf(value):
        return None if math.isnan(value) else value
    raise DatasetError(
        f"column '{column}' holds {str(value)[:40]!r}, of type {type(value).__name__}.",
        where=place,
        remedy="write text, finite numbers or truth values (for a date, its text), or leave the column out",
    )


def _is_utf8(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def text_of(value: object) -> str:
    """A cell as a name: 34.0 is 34, since a column of whole numbers with a gap is one of fractions; None is empty.

    >>> [text_of(value) for value in ("0012", 34, 34.0, 0.5, True, None)]
    ['0012', '34', '34', '0.5', 'True', '']
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def is_inside(path: str) -> bool:
    """Whether a picture's path is one, and stays within its folder."""
    try:
        return bool(inside(path, ""))
    except DatasetError:
        return False


def picture_of(value: object) -> tuple[bytes | None, str | None]:
    """Bytes and path of a picture as frames and Parquet hold it: bytes, or `{"bytes": ..., "path": ...}`."""
    name = value.get("path") if isinstance(value, dict) else None
    return encoded(value), name if isinstance(name, str) else None


METADATA = ("metadata.csv", "metadata.jsonl")
FILE_NAME = "file_name"
LONGEST_LINE = 1 << 20
_WHAT = "the label file"


def lineage_of(*files: Path) -> dict[str, str]:
    """SHA-256 of the files of a table, by a name for each."""
    return {"labels" if len(files) == 1 else f"labels/{path.name}": sha256_file(path) for path in files}


@dataclass(frozen=True)
class CsvRows(Labels):
    """Lines of a CSV file."""

    picture_column: str | None = None

    def lines(self, pictures: bool) -> Iterator[TableLine]:  # noqa: ARG002 -- of other tables
        """Every line but empty ones."""
        return (TableLine(number, fields) for number, fields in self)

    def lineage(self) -> dict[str, str]:
        """Of the file."""
        return lineage_of(self.path)


@dataclass(frozen=True)
class JsonRows:
    """An object a line. `columns` are those of the first one that hold text, numbers or truth values."""

    path: Path
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    picture_column: str | None = None

    @staticmethod
    def open(path: Path) -> JsonRows:
        """Read the first line. Raises DatasetError where there is none."""
        first = next(json_lines(path, _WHAT, LONGEST_LINE), None)
        if first is None:
            raise DatasetError("the label file is empty.", where=str(path), remedy="give an object per image")
        nested = tuple(name for name, value in first[1].items() if isinstance(value, list | dict))
        return JsonRows(path, tuple(name for name in first[1] if name not in nested), nested)

    def lines(self, pictures: bool) -> Iterator[TableLine]:  # noqa: ARG002 -- of other tables
        """Every line. Raises DatasetError for one that has a column which the first one has not."""
        for number, said in json_lines(self.path, _WHAT, LONGEST_LINE):
            if odd := [name for name in said if name not in (*self.columns, *self.left_out)]:
                raise DatasetError(
                    f"the line has a column '{odd[0]}', which the first one has not.",
                    where=self.place(number),
                    remedy="give every line the same columns, with null where nothing was measured",
                )
            yield TableLine(number, {name: plain(said.get(name), name, self.place(number)) for name in self.columns})

    def place(self, line: int) -> str:
        """`metadata.jsonl:12`"""
        return f"{self.path}:{line}"

    def lineage(self) -> dict[str, str]:
        """Of the file."""
        return lineage_of(self.path)


@dataclass(frozen=True)
class FolderRows:
    """Rows of `metadata`, whose column `file_name` names pictures in the folder that it is in."""

    metadata: CsvRows | JsonRows
    columns: tuple[str, ...]
    picture_column: str = FILE_NAME

    @staticmethod
    def open(metadata: CsvRows | JsonRows) -> FolderRows:
        """Raises DatasetError where no column is called `file_name`."""
        if FILE_NAME not in metadata.columns:
            raise DatasetError(
                f"no column is called '{FILE_NAME}'.",
                where=metadata.place(1),
                remedy="name each picture's file in it, by its path from this folder",
            )
        return FolderRows(metadata, tuple(name for name in metadata.columns if name != FILE_NAME))

    def lines(self, pictures: bool) -> Iterator[TableLine]:
        """Every row; a picture that is not there, or leads out of the folder, is None.

        Raises DatasetError for a file that has two rows.
        """
        seen = dict[PurePosixPath, int]()
        for line in self.metadata.lines(pictures):
            named = text_of(line.fields[FILE_NAME])
            if (first := seen.setdefault(PurePosixPath(named), line.number)) != line.number:
                raise DatasetError(
                    f"image '{named}' has two lines.",
                    where=f"{self.place(first)} and {self.place(line.number)}",
                    remedy="keep one line per image",
                )
            data = picture_within(self.metadata.path.parent, named) if pictures else None
            yield TableLine(line.number, {name: line.fields[name] for name in self.columns}, data, named)

    def place(self, line: int) -> str:
        """`metadata.csv:12`"""
        return self.metadata.place(line)

    def lineage(self) -> dict[str, str]:
        """Of the metadata; the pictures come in with the content."""
        return self.metadata.lineage()
