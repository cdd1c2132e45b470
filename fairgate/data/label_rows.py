"""Tables of labels, row by row: CSV, JSON Lines, a folder of pictures with metadata of either kind (Hugging Face's
ImageFolder), and frames of pandas."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from fairgate.data.labels import NamedColumns, inside, read_labels, reading
from fairgate.data.parquet_file import encoded
from fairgate.ground.errors import DatasetError, listed
from fairgate.ground.hashing import digest, read_bounded, sha256_file
from fairgate.ground.text import SEPARATOR_NAMES, unique_keys

Fields = Mapping[str, object]
"""Column -> text, number, truth value or None."""


class TableLine(NamedTuple):
    """A row of a table: its number, its fields, and its picture where it brings one and pictures were wanted."""

    number: int
    fields: Fields
    picture: bytes | None = None
    named: str | None = None
    """What the picture is called in the table."""


@dataclass(frozen=True)
class LabelTable(NamedColumns):
    """What is imported. `lines(pictures)` gives its rows from the first one, with pictures where they are wanted.

    `picture_column` is where the pictures are, if the table brings them. `place_of` says where a row is, for a message.
    `files` are those that are read; a frame has none. `notes` are on how they are read: a person should see them, and a
    recipe records them.
    """

    name: str
    columns: tuple[str, ...]
    lines: Callable[[bool], Iterator[TableLine]]
    place_of: Callable[[int], str]
    files: tuple[Path, ...] = ()
    picture_column: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    def place(self, line: int) -> str:
        """`labels.csv:12`"""
        return self.place_of(line)

    def lineage(self) -> dict[str, str]:
        """SHA-256 of the files, by a name for each; of a frame, of its rows without pictures."""
        if not self.files:
            return {"frame": digest([dict(line.fields) for line in self.lines(False)])}
        return {"labels" if len(self.files) == 1 else f"labels/{path.name}": sha256_file(path) for path in self.files}


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


def json_lines(path: Path, what: str, longest: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, object) of each line of JSON Lines but empty ones. Raises DatasetError, also for a line of more bytes
    than `longest`; `what` names the file."""
    with reading(what, path, "a file with one JSON object a line"), path.open("rb") as lines:
        number = 0
        while line := lines.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise ValueError(f"line {number} has more than {longest:,} bytes")
            if not line.strip():
                continue
            try:
                fields = json.loads(line, object_pairs_hook=unique_keys)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number} is no JSON, from character {error.pos + 1} on") from error
            except ValueError as error:
                long = "digits" in str(error)  # Python's own limit
                fault = "a whole number has thousands of digits" if long else error
                raise ValueError(f"line {number}: {fault}") from error
            if not isinstance(fields, dict):
                raise ValueError(f"line {number} is no object")
            yield number, fields


def picture_within(folder: Path, named: str) -> bytes | None:
    """The bytes of a picture within a folder; None where it is not there, leads out of it, is no
    path, or is very large."""
    # ValueError: half a surrogate; RuntimeError: links in a ring
    with contextlib.suppress(OSError, ValueError, RuntimeError, DatasetError):
        path = (folder / inside(named, named)).resolve()
        if path.is_relative_to(folder.resolve()) and path.is_file():
            return read_bounded(path, MAX_PICTURE)
    return None


METADATA = ("metadata.csv", "metadata.jsonl")
FILE_NAME = "file_name"
LONGEST_LINE = 1 << 20
MAX_PICTURE = 64 << 20
_WHAT = "the label file"


def lines_table(path: Path) -> LabelTable:
    """A table with a row a line: JSON Lines, or CSV by any other name. Raises DatasetError where it has no rows."""
    if path.suffix.lower() == ".jsonl":
        return _json_table(path)
    if path.is_file() and _first_byte(path) in (b"{", b"["):
        raise DatasetError(
            f"the table holds JSON, and its name ends in '{path.suffix}': it would be read as CSV.",
            where=str(path),
            remedy="write an object a line, and let the name end in .jsonl",
        )
    labels = read_labels(path)

    def lines(pictures: bool) -> Iterator[TableLine]:  # noqa: ARG001 -- it brings none
        return (TableLine(number, fields) for number, fields in labels)

    notes = {} if labels.separator == "," else {"separated_by": SEPARATOR_NAMES[labels.separator]}
    return LabelTable(path.name, labels.columns, lines, labels.place, (path,), notes=notes)


def _first_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1)


def _json_table(path: Path) -> LabelTable:
    """An object a line. The columns are those of the first one that hold text, numbers or truth values."""
    _, first = next(json_lines(path, _WHAT, LONGEST_LINE), (0, {}))
    if not first:
        raise DatasetError("the label file is empty.", where=str(path), remedy="give an object per image")
    nested = [name for name, value in first.items() if isinstance(value, list | dict)]
    columns = tuple(name for name in first if name not in nested)

    def place(line: int) -> str:
        return f"{path}:{line}"

    def lines(pictures: bool) -> Iterator[TableLine]:  # noqa: ARG001 -- it brings none
        for number, fields in json_lines(path, _WHAT, LONGEST_LINE):
            if odd := [name for name in fields if name not in first]:
                raise DatasetError(
                    f"the line has a column '{odd[0]}', which the first one has not.",
                    where=place(number),
                    remedy="give every line the same columns, with null where nothing was measured",
                )
            yield TableLine(number, {name: plain(fields.get(name), name, place(number)) for name in columns})

    return LabelTable(
        path.name, columns, lines, place, (path,), notes={"left_out": listed(nested, 20)} if nested else {}
    )


def folder_table(folder: Path, metadata: LabelTable) -> LabelTable:
    """The rows of `metadata`, whose column `file_name` names pictures in the folder that it is in.

    A picture that is not there, or leads out of the folder, is None. Raises DatasetError where no column is called
    `file_name`, and while it is read for a file that has two rows.
    """
    if FILE_NAME not in metadata.columns:
        raise DatasetError(
            f"no column is called '{FILE_NAME}'.",
            where=metadata.place(1),
            remedy="name each picture's file in it, by its path from this folder",
        )
    columns = tuple(name for name in metadata.columns if name != FILE_NAME)

    def lines(pictures: bool) -> Iterator[TableLine]:
        seen = dict[PurePosixPath, int]()
        for line in metadata.lines(pictures):
            named = text_of(line.fields[FILE_NAME])
            if (first := seen.setdefault(PurePosixPath(named), line.number)) != line.number:
                raise DatasetError(
                    f"image '{named}' has two lines.",
                    where=f"{metadata.place(first)} and {metadata.place(line.number)}",
                    remedy="keep one line per image",
                )
            data = picture_within(metadata.files[0].parent, named) if pictures else None
            yield TableLine(line.number, {name: line.fields[name] for name in columns}, data, named)

    return replace(metadata, name=folder.name, columns=columns, lines=lines, picture_column=FILE_NAME)


def frame_table(frame: Any) -> LabelTable:
    """A frame of pandas by what it can do: nothing here imports pandas. A cell that is missing (None, NaN, NA) is
    empty."""
    names = list(frame.columns)
    if not all(isinstance(column, str) and column for column in names) or len(set(names)) < len(names):
        raise DatasetError(
            "a column of the frame has no name, or one that another column has.",
            where="the frame",
            remedy="name its columns, each differently (`frame.columns = [...]`, `frame.reset_index()`)",
        )
    if not len(frame):
        raise DatasetError("the frame has no rows.", where="the frame", remedy="give a row per image")
    pictured = next((column for column in names if isinstance(_first(frame[column]), bytes | dict)), None)
    plain_frame = frame.astype(object)

    def place(line: int) -> str:
        return f"the frame, row {line}"

    def lines(pictures: bool) -> Iterator[TableLine]:
        cells = plain_frame.itertuples(index=False, name=None)
        missing = plain_frame.isna().itertuples(index=False, name=None)
        for number, (row, gone) in enumerate(zip(cells, missing, strict=True), start=1):
            named = {name: None if gone[at] else row[at] for at, name in enumerate(names)}
            data, picture = picture_of(named.pop(pictured, None)) if pictured else (None, None)
            fields = {column: plain(value, column, place(number)) for column, value in named.items()}
            yield TableLine(number, fields, data if pictures else None, picture)

    columns = tuple(column for column in names if column != pictured)
    return LabelTable("a pandas frame", columns, lines, place, picture_column=pictured)


def _first(column: Any) -> object:
    return next((value for value in column if value is not None), None)
