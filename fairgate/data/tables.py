"""Tables that an import reads: text columns of CSV, Parquet or a frame, and pictures where the table brings them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fairgate.data.label_rows import METADATA, CsvRows, FolderRows, JsonRows, TableLine, picture_of, plain
from fairgate.data.labels import NamedColumns, read_labels
from fairgate.data.parquet_rows import ParquetRows
from fairgate.data.tar_rows import TarRows
from fairgate.ground.errors import DatasetError, first_harmful, listed
from fairgate.ground.hashing import digest
from fairgate.ground.text import SEPARATOR_NAMES


class TableRows(Protocol):
    """Rows of one kind of table, from the first one whenever they are wanted."""

    @property
    def picture_column(self) -> str | None:
        """Where the pictures are, if the table brings them."""

    def lines(self, pictures: bool) -> Iterator[TableLine]:
        """Every row; its picture is read where `pictures` are wanted."""

    def place(self, line: int) -> str:
        """Where a row is, for a message."""

    def lineage(self) -> dict[str, str]:
        """SHA-256 of what is read, by a name for it."""


@dataclass(frozen=True)
class LabelTable(NamedColumns):
    """What is imported: `rows`, and `notes` on how they are read, which a person should see and a recipe records."""

    columns: tuple[str, ...]
    rows: TableRows
    name: str
    notes: Mapping[str, str] = field(default_factory=dict)

    def place(self, line: int) -> str:
        """`labels.csv:12`"""
        return self.rows.place(line)


def open_table(labels: Path | str | Any) -> LabelTable:
    """A file of labels, or a frame of pandas. Raises DatasetError for what is neither, or has names that a log acts on.

    Files: CSV (also .gz) separated by commas, semicolons or tabs, JSON Lines (.jsonl), Parquet, WebDataset's archives
    (.tar), several of the last two as `data/train-*.parquet`. Folders: of one such table, or pictures with metadata.csv
    or metadata.jsonl.
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
    if path.is_dir():
        return _folder(path)
    if "*" in path.name and not path.exists():
        return _several(path, sorted(path.parent.glob(path.name)))
    if path.suffix.lower() in (".parquet", ".tar"):
        return _several(path, [path])
    rows = _lines_of(path)
    return LabelTable(rows.columns, rows, path.name, _notes(rows))


def _lines_of(path: Path) -> CsvRows | JsonRows:
    if path.suffix.lower() == ".jsonl":
        return JsonRows.open(path)
    if path.is_file() and _first_byte(path) in (b"{", b"["):
        raise DatasetError(
            f"the table holds JSON, and its name ends in '{path.suffix}': it would be read as CSV.",
            where=str(path),
            remedy="write an object a line, and let the name end in .jsonl",
        )
    labels = read_labels(path)
    return CsvRows(path, labels.columns, labels.separator)


def _first_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1)


def _notes(rows: CsvRows | JsonRows) -> dict[str, str]:
    if isinstance(rows, JsonRows):
        return {"left_out": listed(rows.left_out, 20)} if rows.left_out else {}
    return {} if rows.separator == "," else {"separated_by": SEPARATOR_NAMES[rows.separator]}


def _several(named: Path, files: Sequence[Path]) -> LabelTable:
    """One table of several files of Parquet, or of several archives."""
    endings = {path.suffix.lower() for path in files}
    if endings not in ({".parquet"}, {".tar"}):
        raise DatasetError(
            "the name fits no Parquet file and no archive." if not files else "the name fits files of several kinds.",
            where=str(named),
            remedy="name files of one kind, as `data/train-*.parquet` or `shards/*.tar`",
        )
    rows = ParquetRows.open(files) if endings == {".parquet"} else TarRows.open(files)
    return LabelTable(rows.columns, rows, named.name, rows.notes)


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
    if files[0].name not in METADATA:
        return _several(folder, files)
    metadata = _lines_of(files[0])
    rows = FolderRows.open(metadata)
    return LabelTable(rows.columns, rows, folder.name, _notes(metadata))


_SPLIT = re.compile(r"[-_.]?\d|\.")
"""Where the name of a split ends: `train-00000-of-00061.parquet`, `test_3.tar`, `validation.parquet`."""


@dataclass(frozen=True)
class FrameRows:
    """Rows of a frame, numbered from 1. A cell that is missing (None, NaN, NA) is empty."""

    columns: tuple[str, ...]
    picture_column: str | None
    cells: Callable[[], Iterator[tuple[object, ...]]]

    def lines(self, pictures: bool) -> Iterator[TableLine]:
        """Every row."""
        for number, cells in enumerate(self.cells(), start=1):
            named = dict(zip((*self.columns, *filter(None, [self.picture_column])), cells, strict=True))
            data, name = picture_of(named.pop(self.picture_column, None)) if self.picture_column else (None, None)
            fields = {column: plain(value, column, self.place(number)) for column, value in named.items()}
            yield TableLine(number, fields, data if pictures else None, name)

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
    pictured = next((column for column in columns if isinstance(_first(frame[column]), bytes | dict)), None)
    columns = [column for column in columns if column != pictured]
    plain_frame = frame[[*columns, *([pictured] if pictured else [])]].astype(object)

    def cells() -> Iterator[tuple[object, ...]]:
        missing = plain_frame.isna().itertuples(index=False, name=None)
        for row, gone in zip(plain_frame.itertuples(index=False, name=None), missing, strict=True):
            yield tuple(None if absent else value for value, absent in zip(row, gone, strict=True))

    return LabelTable(tuple(columns), FrameRows(tuple(columns), pictured, cells), "a pandas frame")


def _first(column: Any) -> object:
    return next((value for value in column if value is not None), None)
