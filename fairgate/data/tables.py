"""Tables that an import reads: text columns of CSV, Parquet or a frame, and pictures where the table brings them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairgate.data.label_rows import METADATA, LabelTable, TableLine, folder_table, lines_table, picture_of, plain
from fairgate.data.parquet_rows import parquet_table
from fairgate.data.tar_rows import tar_table
from fairgate.ground.errors import DatasetError, first_harmful, listed


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


def _frame(frame: Any) -> LabelTable:
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
