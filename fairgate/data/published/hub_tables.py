"""Parquet tables as the hub holds them: plain columns row by row, pictures one after another, names of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairgate.data.parquet_file import (
    LONGEST_TEXT,
    PICTURES,
    ROWS,
    batch_texts,
    batches,
    class_names,
    encoded,
    is_text,
    named,
    open_parquet,
    parquet_reading,
)
from fairgate.ground.errors import DatasetError, listed, suggestion


@dataclass
class HubTable:
    """One Parquet file. Its pictures are read forward: going back opens the row group again."""

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
            self._require((*columns, self.image), parquet.schema_arrow.names)
            for batch in batches(parquet, columns):
                cells = {column: _plain(batch.column(column), column, names) for column in columns}
                for values in zip(*cells.values(), strict=True):
                    yield row, dict(zip(cells, values, strict=True))
                    row += 1

    def class_names(self) -> dict[str, list[str]]:
        """The names of class ids by column, as far as the file itself says them."""
        with self._reading():
            return class_names(self._opened().schema_arrow)

    def picture(self, row: int) -> bytes:
        """The encoded picture of a row. Raises DatasetError where there is none."""
        with self._reading():
            if self._at is None or self._at[0] > row or row - self._at[0] > ROWS:
                self._at = self._from(row)
            for at, stored in self._at[1]:
                self._at = (at + 1, self._at[1])
                if at == row:
                    content = encoded(stored.as_py())
                    if content is None:
                        raise ValueError(f"row {row} holds no picture")
                    return content
            raise ValueError(f"there is no row {row}")

    def _from(self, row: int) -> tuple[int, Iterator[Any]]:
        """Pictures from the beginning of the row group that holds a row, and the number of the first."""
        parquet, start, group = self._opened(), 0, 0
        while group < parquet.num_row_groups:
            size = parquet.metadata.row_group(group).num_rows
            if row < start + size:
                break
            start, group = start + size, group + 1
        return start, self._pictures(parquet, start, group)

    def _pictures(self, parquet: Any, row: int, first: int) -> Iterator[tuple[int, Any]]:
        for batch in batches(parquet, [self.image], PICTURES, range(first, parquet.num_row_groups)):
            for value in batch.column(0):
                yield row, value
                row += 1

    def _reading(self) -> AbstractContextManager[None]:
        return parquet_reading("the table", self.path, "a Parquet file as it was published")

    def _opened(self) -> Any:
        self._parquet = self._parquet or open_parquet(self.path)
        return self._parquet

    def _require(self, columns: Sequence[str], names: Sequence[str]) -> None:
        if missing := [column for column in columns if column not in names]:
            there = f"columns: {', '.join(names)}; give the files as they were published"
            raise DatasetError(
                "the table has no column '" + listed(missing, 20, "', '") + "'.",
                where=str(self.path),
                remedy=suggestion(missing[0], names, there) if len(missing) == 1 else there,
            )


def _plain(column: Any, name: str, names: Mapping[str, Sequence[str]]) -> list[Any]:
    """A batch of a column: its texts, names of class ids, or numbers."""
    if is_text(column.type):
        return batch_texts(column, None, LONGEST_TEXT)
    ids: list[Any] = column.to_pylist()
    return named(ids, names[name], name) if name in names else ids
