"""Parquet tables as the hub holds them: plain columns row by row, pictures one after another, names of classes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairgate.data import GROUP_BYTES, reading
from fairgate.data.arrow_columns import is_text
from fairgate.data.parquet_footer import require_sound_footer
from fairgate.ground.errors import DatasetError, listed, suggestion

LONGEST_TEXT = 1 << 16
_BATCH = 1 << 14
_PICTURES = 8
"""Pictures that are unpacked at once: a dictionary of pictures may be repeated in every row."""


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
        with _parquet_of(self.path):
            parquet, row = self._opened(), 0
            names = {column: self.class_names(column) for column in columns}
            self._require((*columns, self.image), parquet.schema_arrow.names)
            for group in range(parquet.num_row_groups):
                self._require_bounded(parquet, group, columns)
                for batch in parquet.iter_batches(_BATCH, row_groups=[group], columns=list(columns)):
                    batch.validate(full=True)
                    held = {column: _plain(batch.column(column), names[column]) for column in columns}
                    for values in zip(*held.values(), strict=True):
                        yield row, dict(zip(held, values, strict=True))
                        row += 1

    def class_names(self, column: str) -> list[str] | None:
        """The names of a column's class ids, as the file itself says them; None where it does not."""
        with _parquet_of(self.path):
            described = (self._opened().schema_arrow.metadata or {}).get(b"huggingface")
            features = json.loads(described)["info"]["features"] if described else {}
            entry = features.get(column) if isinstance(features, dict) else None
            names = entry.get("names") if isinstance(entry, dict) else None
            if names is None:
                return None
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"the names of the classes of '{column}' are no list of texts")
            return names

    def picture(self, row: int) -> bytes:
        """The encoded picture of a row. Raises DatasetError where there is none."""
        with _parquet_of(self.path):
            if self._at is None or self._at[0] > row or row - self._at[0] > _BATCH:
                self._at = self._from(row)
            for at, held in self._at[1]:
                self._at = (at + 1, self._at[1])
                if at == row:
                    found = held.as_py()
                    content = found.get("bytes") if isinstance(found, dict) else found
                    if not isinstance(content, bytes):
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
        for group in range(first, parquet.num_row_groups):
            self._require_bounded(parquet, group, [self.image])
            for batch in parquet.iter_batches(_PICTURES, row_groups=[group], columns=[self.image]):
                batch.validate(full=True)
                for value in batch.column(0):
                    yield row, value
                    row += 1

    def _opened(self) -> Any:
        import pyarrow.parquet as pq

        if self._parquet is None:
            require_sound_footer(self.path)
            schema = pq.read_schema(self.path)
            if len(set(schema.names)) < len(schema.names):
                raise ValueError("a column is there twice")
            text = [field.name for field in schema if is_text(field.type)]
            self._parquet = pq.ParquetFile(self.path, read_dictionary=text)
        return self._parquet

    def _require(self, columns: Sequence[str], names: Sequence[str]) -> None:
        if missing := [column for column in columns if column not in names]:
            there = f"columns: {', '.join(names)}; give the files as they were published"
            raise DatasetError(
                "the table has no column '" + listed(missing, 20, "', '") + "'.",
                where=str(self.path),
                remedy=suggestion(missing[0], names, there) if len(missing) == 1 else there,
            )

    def _require_bounded(self, parquet: Any, group: int, columns: Sequence[str]) -> None:
        facts = parquet.metadata.row_group(group)
        for column in map(facts.column, range(facts.num_columns)):
            if column.path_in_schema.partition(".")[0] in columns and column.total_uncompressed_size > GROUP_BYTES:
                raise ValueError(
                    f"column '{column.path_in_schema}' unpacks to {column.total_uncompressed_size >> 20:,} MB"
                )


def _plain(column: Any, names: list[str] | None) -> list[Any]:
    """A batch of a column; equal texts are one string, since a file may repeat a long one in every row."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return [_named(value, names) for value in column.to_pylist()]
    texts = column.dictionary.to_pylist()
    if longest := next((text for text in texts if text is not None and len(text) > LONGEST_TEXT), None):
        raise ValueError(f"a text has {len(longest):,} characters; at most {LONGEST_TEXT:,} are read")
    return [None if code is None else texts[code] for code in column.indices.to_pylist()]


def _named(value: Any, names: list[str] | None) -> Any:
    if names is None or value is None:
        return value
    if not isinstance(value, int) or not 0 <= value < len(names):
        raise ValueError(f"class {value!r} has no name; {len(names)} are named")
    return names[value]


@contextmanager
def _parquet_of(path: Path) -> Iterator[None]:
    """Raises DatasetError where the block cannot read a Parquet file."""
    import pyarrow as pa

    with reading("the table", path, "a Parquet file as it was published"):
        try:
            yield
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise ValueError(str(error)) from error
