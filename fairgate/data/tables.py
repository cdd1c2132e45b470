"""Tables that an import reads: text columns of CSV, Parquet or a frame, and pictures where the table brings them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fairgate.data.cells import Line, picture_of, plain
from fairgate.data.labels import SEPARATOR_NAMES, Labels, NamedColumns, read_labels
from fairgate.data.parquet_rows import ParquetRows
from fairgate.errors import DatasetError, first_harmful
from fairgate.hashing import digest, sha256_file


class Rows(Protocol):
    """Rows of one kind of table, from the first one whenever they are wanted."""

    @property
    def picture_column(self) -> str | None:
        """Where the pictures are, if the table brings them."""

    def lines(self, pictures: bool) -> Iterator[Line]:
        """Every row; its picture is read where `pictures` are wanted."""

    def place(self, line: int) -> str:
        """Where a row is, for a message."""

    def lineage(self) -> dict[str, str]:
        """SHA-256 of what is read, by a name for it."""


@dataclass(frozen=True)
class LabelTable(NamedColumns):
    """What is imported: `rows`, and `notes` on how they are read, which a person should see and a recipe records."""

    columns: tuple[str, ...]
    rows: Rows
    name: str
    notes: Mapping[str, str] = field(default_factory=dict)

    def place(self, line: int) -> str:
        """`labels.csv:12`"""
        return self.rows.place(line)


def open_table(labels: Path | str | Any) -> LabelTable:
    """A file of labels, or a frame of pandas. Raises DatasetError for what is neither, or has names that a log acts on.

    Files: CSV (.csv, .tsv, .txt, also .gz) separated by commas, semicolons or tabs; Parquet (.parquet).
    """
    table = _frame(labels) if hasattr(labels, "itertuples") else _file(Path(labels))
    if (odd := first_harmful(table.columns)) is not None:
        raise DatasetError(
            f"a column is called '{odd}', which holds control characters, or reads as a command to a CI log.",
            where=table.place(1),
            remedy="give the column a plain name",
        )
    return table


def _file(path: Path) -> LabelTable:
    if path.suffix.lower() == ".parquet":
        rows = ParquetRows.open([path])
        return LabelTable(rows.columns, rows, path.name, rows.notes)
    labels = read_labels(path)
    notes = {} if labels.separator == "," else {"separated_by": SEPARATOR_NAMES[labels.separator]}
    return LabelTable(labels.columns, CsvRows(labels), path.name, notes)


@dataclass(frozen=True)
class CsvRows:
    """Lines of a CSV file."""

    labels: Labels
    picture_column: str | None = None

    def lines(self, pictures: bool) -> Iterator[Line]:  # noqa: ARG002 -- of other tables
        """Every line but empty ones."""
        return (Line(number, fields) for number, fields in self.labels)

    def place(self, line: int) -> str:
        """`labels.csv:12`"""
        return self.labels.place(line)

    def lineage(self) -> dict[str, str]:
        """Of the file."""
        return {"labels": sha256_file(self.labels.path)}


@dataclass(frozen=True)
class FrameRows:
    """Rows of a frame, numbered from 1. A cell that is missing (None, NaN, NA) is empty."""

    columns: tuple[str, ...]
    picture_column: str | None
    cells: Callable[[], Iterator[tuple[object, ...]]]

    def lines(self, pictures: bool) -> Iterator[Line]:
        """Every row."""
        for number, cells in enumerate(self.cells(), start=1):
            named = dict(zip((*self.columns, *filter(None, [self.picture_column])), cells, strict=True))
            data, name = picture_of(named.pop(self.picture_column, None)) if self.picture_column else (None, None)
            fields = {column: plain(value, column, self.place(number)) for column, value in named.items()}
            yield Line(number, fields, data if pictures else None, name)

    def place(self, line: int) -> str:
        """`the frame, row 12`"""
        return f"the frame, row {line}"

    def lineage(self) -> dict[str, str]:
        """Of the rows, as JSON; of pictures, their bytes come in with the content."""
        return {"frame": digest([dict(line.fields) for line in self.lines(pictures=False)])}


def _frame(frame: Any) -> LabelTable:
    """A frame of pandas by what it can do: nothing here imports pandas."""
    columns = list(frame.columns)
    if not all(isinstance(column, str) and column for column in columns) or len(set(columns)) < len(columns):
        raise DatasetError(
            "a column of the frame has no name, or one that another column has.",
            where="the frame",
            remedy="name its columns, each differently (`frame.columns = [...]`, `frame.reset_index()`)",
        )
    if not len(frame):
        raise DatasetError("the frame has no rows.", where="the frame", remedy="give a row per image")
    held = next((column for column in columns if isinstance(_first(frame[column]), bytes | dict)), None)
    columns = [column for column in columns if column != held]
    plain_frame = frame[[*columns, *([held] if held else [])]].astype(object)

    def cells() -> Iterator[tuple[object, ...]]:
        missing = plain_frame.isna().itertuples(index=False, name=None)
        for row, gone in zip(plain_frame.itertuples(index=False, name=None), missing, strict=True):
            yield tuple(None if absent else value for value, absent in zip(row, gone, strict=True))

    return LabelTable(tuple(columns), FrameRows(tuple(columns), held, cells), "a pandas frame")


def _first(column: Any) -> object:
    return next((value for value in column if value is not None), None)
