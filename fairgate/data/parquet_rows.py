"""Rows of Parquet files as Hugging Face writes them: labels, ids of a ClassLabel by their names, and pictures."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from fairgate.data import parquet_file
from fairgate.data.label_rows import LabelTable, TableLine, picture_of, plain
from fairgate.data.manifest import MAX_ROWS
from fairgate.ground.errors import DatasetError, listed, suggestion

_WHAT = "the label file"


def parquet_table(name: str, files: tuple[Path, ...]) -> LabelTable:
    """Rows of one or several files with the same columns, numbered from 1 over all of them.

    Columns of other kinds than text, numbers, truth values and one of pictures are left out, which a note says. Raises
    DatasetError for what is no Parquet, has no rows, or has unlike columns.
    """
    schemas, counts = zip(*(_schema_of(path) for path in files), strict=True)
    first = schemas[0]
    for path, schema in zip(files, schemas, strict=True):
        if [(field.name, field.type) for field in schema] != [(field.name, field.type) for field in first]:
            raise DatasetError(
                f"the file has other columns than '{files[0].name}'.",
                where=str(path),
                remedy="give files of one table, or import them one by one",
            )
    kinds = {field.name: _kind(field.type) for field in first}
    plains, pictures, left_out = (
        [name for name, kind in kinds.items() if kind == wanted] for wanted in ("plain", "picture", None)
    )
    if len(pictures) > 1:
        raise DatasetError(
            f"{len(pictures)} columns hold pictures: {', '.join(pictures)}.",
            where=str(files[0]),
            remedy="keep one of them in the file",
        )
    with parquet_file.parquet_reading(_WHAT, files[0], "a file that `datasets` or pandas wrote"):
        classes = parquet_file.class_names(first)
    if not sum(counts):
        raise DatasetError("the file has no rows.", where=str(files[0]), remedy="give a row per image")
    rows = _ParquetRows(files, (0, *accumulate(counts)), tuple(plains), pictures[0] if pictures else None, classes)
    notes = {"names_of_ids_from_the_schema": listed(list(classes), 20), "left_out": listed(left_out, 20)}
    return LabelTable(
        name,
        rows.columns,
        rows.lines,
        rows.place,
        files,
        picture_column=rows.picture_column,
        notes={what: columns for what, columns in notes.items() if columns},
    )


@dataclass(frozen=True)
class _ParquetRows:
    """Rows of files, each of which begins after `starts` of them. `classes` holds the names of the ids in a column,
    where the schema's metadata say that it is a ClassLabel."""

    files: tuple[Path, ...]
    starts: tuple[int, ...]
    columns: tuple[str, ...]
    picture_column: str | None
    classes: Mapping[str, Sequence[str]]

    def lines(self, pictures: bool) -> Iterator[TableLine]:
        """Every row, read batch by batch. Raises DatasetError for what does not decode, or unpacks to too much."""
        number, size = 0, parquet_file.PICTURES if pictures else parquet_file.ROWS
        for path in self.files:
            with parquet_file.parquet_reading(_WHAT, path):
                parquet = parquet_file.open_parquet(path)
                for batch in parquet_file.batches(parquet, self._read(parquet.schema_arrow, pictures), size):
                    cells = {name: _cells(batch.column(name), name, self.classes, "") for name in self.columns}
                    brought = self.picture_column in batch.schema.names
                    shown = batch.column(self.picture_column).to_pylist() if brought else [None] * len(batch)
                    for row, picture in enumerate(shown):
                        number += 1
                        place = self.place(number)
                        fields = {name: plain(column[row], name, place) for name, column in cells.items()}
                        yield TableLine(number, fields, *picture_of(picture))
        if number != self.starts[-1]:
            raise DatasetError(
                f"the table holds {number:,} rows, and its footer says {self.starts[-1]:,}.",
                where=str(self.files[-1]),
                remedy="write the file again",
            )

    def _read(self, schema: Any, pictures: bool) -> list[str]:
        """The columns that are read; of pictures that are not wanted now, only the paths."""
        import pyarrow as pa

        if self.picture_column is None:
            return [*self.columns]
        if not pa.types.is_struct(schema.field(self.picture_column).type):
            return [*self.columns, *([self.picture_column] if pictures else [])]
        return [*self.columns, f"{self.picture_column}.path", *([f"{self.picture_column}.bytes"] if pictures else [])]

    def place(self, line: int) -> str:
        """`train-00001-of-00002.parquet, row 12`"""
        file = min(bisect_right(self.starts, line - 1) - 1, len(self.files) - 1)
        return f"{self.files[file]}, row {line - self.starts[file]}"


def _schema_of(path: Path) -> tuple[Any, int]:
    with parquet_file.parquet_reading(_WHAT, path):
        parquet = parquet_file.open_parquet(path)
        if parquet.metadata.num_rows > MAX_ROWS:
            raise ValueError(f"it promises {parquet.metadata.num_rows:,} rows; at most {MAX_ROWS:,} are read")
        return parquet.schema_arrow, parquet.metadata.num_rows


def _kind(kind: Any) -> str | None:
    """Whether a column is "plain" (text, numbers, truth values), of a "picture", or neither."""
    import pyarrow as pa

    types = pa.types
    if parquet_file.is_text(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "plain"
    if types.is_struct(kind):
        names = {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
        kind = names["bytes"] if set(names) <= {"bytes", "path"} and "bytes" in names else None
    if kind is not None and (types.is_binary(kind) or types.is_large_binary(kind)):
        return "picture"
    return None


@dataclass
class HubTable:
    """One Parquet file. Pictures of a row group are read forward: going back begins it again."""

    path: Path
    image: str = "image"
    _at: tuple[int, Iterator[Any]] | None = field(default=None, repr=False)
    _parquet: Any = field(default=None, repr=False)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """(row from 0, plain values of some columns, class ids as names) of every row; no picture is read.

        Raises DatasetError for a file that cannot be read, or lacks a column.
        """
        with self._reading():
            parquet, row, names = self._opened(), 0, self.class_names()
            require_columns((*columns, self.image), parquet.schema_arrow.names, self.path)
            for batch in parquet_file.batches(parquet, columns):
                cells = {column: _cells(batch.column(column), column, names) for column in columns}
                for values in zip(*cells.values(), strict=True):
                    yield row, dict(zip(cells, values, strict=True))
                    row += 1

    def class_names(self) -> dict[str, list[str]]:
        """The names of class ids by column, as far as the file itself says them."""
        with self._reading():
            return parquet_file.class_names(self._opened().schema_arrow)

    def picture(self, row: int) -> bytes:
        """The encoded picture of a row. Raises DatasetError where there is none."""
        if (picture := self.find_picture(row)) is None:
            with self._reading():
                raise ValueError(f"row {row} holds no picture")
        return picture

    def find_picture(self, row: int) -> bytes | None:
        """The same, or None for a row without a picture. Raises DatasetError for a file that cannot be read."""
        with self._reading():
            group = bisect_right(self._starts, row) - 1
            if self._at is None or not self._starts[group] <= self._at[0] <= row:
                self._at = self._starts[group], self._pictures(group)
            for at, stored in self._at[1]:
                self._at = (at + 1, self._at[1])
                if at == row:
                    return parquet_file.encoded(stored.as_py())
            raise ValueError(f"there is no row {row}")

    @cached_property
    def _starts(self) -> list[int]:
        """The number of the first row of every row group, and of the row after the last."""
        facts = self._opened().metadata
        return [0, *accumulate(facts.row_group(group).num_rows for group in range(facts.num_row_groups))]

    def _pictures(self, first: int) -> Iterator[tuple[int, Any]]:
        """Rows and their pictures from a row group on."""
        parquet, row = self._opened(), self._starts[first]
        groups = range(first, parquet.num_row_groups)
        for batch in parquet_file.batches(parquet, [self.image], parquet_file.PICTURES, groups):
            for value in batch.column(0):
                yield row, value
                row += 1

    def _reading(self) -> AbstractContextManager[None]:
        return parquet_file.parquet_reading("the table", self.path, "a Parquet file as it was published")

    def _opened(self) -> Any:
        self._parquet = self._parquet or parquet_file.open_parquet(self.path)
        return self._parquet


def require_columns(columns: Sequence[str], names: Sequence[str], path: Path) -> None:
    """Raises DatasetError where the columns of a file, `names`, are not all that are wanted."""
    if missing := [column for column in columns if column not in names]:
        there = f"columns: {', '.join(names)}"
        raise DatasetError(
            "the table has no column '" + listed(missing, 20, "', '") + "'.",
            where=str(path),
            remedy=suggestion(missing[0], names, there) if len(missing) == 1 else there,
        )


def _cells(column: Any, name: str, names: Mapping[str, Sequence[str]], missing: str | None = None) -> list[Any]:
    """A batch of a column: its texts, `missing` for one that is not there; names of class ids; or numbers."""
    if parquet_file.is_text(column.type):
        return parquet_file.batch_texts(column, missing, parquet_file.LONGEST_TEXT)
    ids: list[Any] = column.to_pylist()
    return parquet_file.named(ids, names[name], name) if name in names else ids
