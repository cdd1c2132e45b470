"""Rows of Parquet files as Hugging Face writes them: labels, ids of a ClassLabel by their names, and pictures."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from fairgate.data.arrow_columns import batch_texts, is_text
from fairgate.data.label_rows import TableLine, picture_of, plain
from fairgate.data.labels import reading
from fairgate.data.manifest import MAX_ROWS
from fairgate.data.parquet_footer import require_sound_footer
from fairgate.data.shard_reader import GROUP_BYTES
from fairgate.ground.errors import DatasetError, listed
from fairgate.ground.hashing import sha256_file

LONGEST_CELL = 1 << 16
"""Characters of one text: a few bytes of Parquet may repeat a long one in every row."""
_BATCH = 1 << 14
_PICTURES = 8  # few at once: a dictionary of pictures may be repeated in every row
_MOST_NAMES = 100_000


@dataclass(frozen=True)
class ParquetRows:
    """Rows of one or several files with the same columns, numbered from 1 over all of them.

    Columns of other kinds than text, numbers, truth values and one of pictures are `left_out`. `classes` holds the
    names of the ids in a column, where the schema's metadata say that it is a ClassLabel.
    """

    files: tuple[Path, ...]
    starts: tuple[int, ...]
    columns: tuple[str, ...]
    picture_column: str | None
    classes: Mapping[str, Sequence[str]]
    left_out: tuple[str, ...]

    @staticmethod
    def open(files: Sequence[Path]) -> ParquetRows:
        """Read the schemas. Raises DatasetError for what is no Parquet, has no rows, or has unlike columns."""
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
        pictures = [name for name, kind in kinds.items() if kind == "picture"]
        if len(pictures) > 1:
            raise DatasetError(
                f"{len(pictures)} columns hold pictures: {', '.join(pictures)}.",
                where=str(files[0]),
                remedy="keep one of them in the file",
            )
        if not sum(counts):
            raise DatasetError("the file has no rows.", where=str(files[0]), remedy="give a row per image")
        return ParquetRows(
            tuple(files),
            (0, *accumulate(counts)),
            tuple(name for name, kind in kinds.items() if kind == "plain"),
            pictures[0] if pictures else None,
            _class_names(first, files[0]),
            tuple(name for name, kind in kinds.items() if kind is None),
        )

    @cached_property
    def notes(self) -> dict[str, str]:
        """What a person should know of how the file is read."""
        said = {"names_of_ids_from_the_schema": listed(list(self.classes), 20), "left_out": listed(self.left_out, 20)}
        return {what: columns for what, columns in said.items() if columns}

    def lines(self, pictures: bool) -> Iterator[TableLine]:
        """Every row, read batch by batch. Raises DatasetError for what does not decode, or unpacks to too much."""
        held = [self.picture_column] if pictures and self.picture_column else []
        names = [self.picture_column] if self.picture_column and not pictures else []
        number = 0
        for path in self.files:
            with parquet_reading(path):
                for batch in _batches(path, self.columns, held, names):
                    cells = {name: self._cells(batch.column(name), name) for name in self.columns}
                    shown = (
                        batch.column(self.picture_column).to_pylist()
                        if self.picture_column in batch.schema.names
                        else None
                    )
                    for row in range(len(batch)):
                        number += 1
                        place = self.place(number)
                        fields = {name: plain(column[row], name, place) for name, column in cells.items()}
                        data, named = picture_of(shown[row]) if shown else (None, None)
                        yield TableLine(number, fields, data, named)
        if number != self.starts[-1]:
            raise DatasetError(
                f"the table holds {number:,} rows, and its footer says {self.starts[-1]:,}.",
                where=str(self.files[-1]),
                remedy="write the file again",
            )

    def _cells(self, column: Any, name: str) -> Sequence[object]:
        if is_text(column.type):
            texts = batch_texts(column)
            if any(len(text) > LONGEST_CELL for text in set(texts)):
                raise ValueError(f"column '{name}' holds a text of more than {LONGEST_CELL:,} characters")
            return texts
        ids = column.to_pylist()
        if name not in self.classes:
            return ids  # type: ignore[no-any-return] # of pyarrow
        known = self.classes[name]
        odd = next(
            (one for one in ids if one is not None and not (isinstance(one, int) and -1 <= one < len(known))), None
        )
        if odd is not None:
            raise ValueError(f"column '{name}' holds the id {odd}, and its schema names {len(known)} classes")
        return [None if one is None or one < 0 else known[one] for one in ids]

    def place(self, line: int) -> str:
        """`train-00001-of-00002.parquet, row 12`"""
        file = min(bisect_right(self.starts, line - 1) - 1, len(self.files) - 1)
        return f"{self.files[file]}, row {line - self.starts[file]}"

    def lineage(self) -> dict[str, str]:
        """Of every file."""
        if len(self.files) == 1:
            return {"labels": sha256_file(self.files[0])}
        return {f"labels/{path.name}": sha256_file(path) for path in self.files}


@contextmanager
def parquet_reading(path: Path) -> Iterator[None]:
    """Raises DatasetError where the block cannot read a Parquet file."""
    import pyarrow as pa

    with reading("the label file", path, "a Parquet file"):
        try:
            yield
        except (pa.ArrowException, KeyError) as error:
            raise ValueError(str(error)) from error


def _schema_of(path: Path) -> tuple[Any, int]:
    import pyarrow.parquet as pq

    with parquet_reading(path):
        require_sound_footer(path)
        facts, schema = pq.read_metadata(path), pq.read_schema(path)
        if len(set(schema.names)) < len(schema.names):
            raise ValueError("a column is there twice")
        if facts.num_rows > MAX_ROWS:
            raise ValueError(f"it promises {facts.num_rows:,} rows; at most {MAX_ROWS:,} are read")
        return schema, facts.num_rows


def _kind(kind: Any) -> str | None:
    """Whether a column is "plain" (text, numbers, truth values), of a "picture", or neither."""
    import pyarrow as pa

    types = pa.types
    if is_text(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "plain"
    if types.is_struct(kind):
        names = {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
        kind = names["bytes"] if set(names) <= {"bytes", "path"} and "bytes" in names else None
    if kind is not None and (types.is_binary(kind) or types.is_large_binary(kind)):
        return "picture"
    return None


def _class_names(schema: Any, path: Path) -> dict[str, list[str]]:
    """Names of the ids of every ClassLabel, as `datasets` writes them into the schema's metadata."""
    with reading("the schema's metadata", path, "a file that `datasets` or pandas wrote"):
        said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = said.get("info", {}).get("features", {}) if isinstance(said, dict) else {}
        found = dict[str, list[str]]()
        for name, feature in features.items() if isinstance(features, dict) else ():
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and name in schema.names:
                names = feature.get("names")
                if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
                    raise ValueError(f"column '{name}' is a ClassLabel without a list of names")
                if len(names) > _MOST_NAMES:
                    raise ValueError(f"column '{name}' is a ClassLabel of {len(names):,} names")
                found[name] = names
        return found


def _batches(path: Path, columns: Sequence[str], pictures: Sequence[str], named: Sequence[str]) -> Iterator[Any]:
    """Batches of rows; of `named`, pictures that are not wanted now, only the paths are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    wanted = [*columns, *(f"{name}.path" for name in named), *(f"{name}.bytes" for name in pictures)]
    wanted += [f"{name}.path" for name in pictures]
    wanted += [name for name in pictures if not pa.types.is_struct(schema.field(name).type)]
    coded = [name for name in columns if is_text(schema.field(name).type)]
    parquet = pq.ParquetFile(path, read_dictionary=coded)
    for group in range(parquet.num_row_groups):
        facts = parquet.metadata.row_group(group)
        for column in map(facts.column, range(facts.num_columns)):
            if column.path_in_schema in wanted and column.total_uncompressed_size > GROUP_BYTES:
                size = column.total_uncompressed_size >> 20
                raise ValueError(f"column '{column.path_in_schema}' unpacks to {size:,} MB: write smaller row groups")
        for batch in parquet.iter_batches(_PICTURES if pictures else _BATCH, row_groups=[group], columns=wanted):
            batch.validate(full=True)
            yield batch
