"""Captions of a training set, read as a stream: Parquet by row groups, CSV and JSON Lines by lines.

13 million rows are ordinary: nothing holds a file in memory. Nothing is downloaded: a picture is bytes in the file, or
a path within a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairgate.data.label_rows import json_lines
from fairgate.data.labels import read_labels
from fairgate.data.parquet_file import batch_texts, batches, is_text, open_parquet, parquet_reading
from fairgate.data.parquet_rows import HubTable, require_columns
from fairgate.ground.errors import DatasetError

ENDINGS = (".parquet", ".csv", ".csv.gz", ".jsonl")
LONGEST_LINE = 1 << 24
"""Bytes of a line of JSON: a caption and what is said about it."""
_WHAT = "the file of captions"


@dataclass(frozen=True, slots=True)
class CaptionFile:
    """A file of captions. `image` names the column that holds pictures: bytes (of Parquet) or paths; None: none."""

    path: Path
    caption: str
    image: str | None = None

    def __iter__(self) -> Iterator[tuple[int, str, str | None]]:
        """(row from 0, caption, path of its picture or None) of every row that has a caption.

        Raises DatasetError for a file that cannot be read, or lacks a column.
        """
        name = self.path.name.lower()
        rows = (
            self._parquet() if name.endswith(".parquet") else self._json() if name.endswith(".jsonl") else self._csv()
        )
        return (row for row in rows if row[1])

    def pictures(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Encoded pictures of some rows of Parquet that holds bytes, plain or as `struct<bytes, path>`."""
        if self.image is None or not self.path.name.lower().endswith(".parquet"):
            return {}
        table = HubTable(self.path, self.image)
        pictures = {row: table.find_picture(row) for row in sorted(set(rows))}
        return {row: picture for row, picture in pictures.items() if picture is not None}

    def _csv(self) -> Iterator[tuple[int, str, str | None]]:
        table = read_labels(self.path)
        table.column(self.caption, "should hold the captions")
        if self.image is not None:
            table.column(self.image, "should hold the pictures")
        for row, (_, fields) in enumerate(table):
            yield row, fields[self.caption], fields[self.image] if self.image else None

    def _json(self) -> Iterator[tuple[int, str, str | None]]:
        for row, (number, fields) in enumerate(json_lines(self.path, _WHAT, LONGEST_LINE)):
            if row == 0:
                self._require(list(fields))
            caption, picture = fields.get(self.caption), fields.get(self.image) if self.image else None
            if not isinstance(caption, str | None):
                raise DatasetError(
                    f"'{self.caption}' is no text.", where=f"{self.path}:{number}", remedy="give a text, or null"
                )
            yield row, caption or "", picture if isinstance(picture, str) else None

    def _parquet(self) -> Iterator[tuple[int, str, str | None]]:
        with parquet_reading(_WHAT, self.path):
            parquet, row = open_parquet(self.path), 0
            schema = parquet.schema_arrow
            self._require(schema.names)
            if not is_text(schema.field(self.caption).type):
                raise ValueError(f"column '{self.caption}' holds no text")
            paths = self.image is not None and is_text(schema.field(self.image).type)
            columns = [self.caption, *([self.image] if paths and self.image else [])]
            for batch in batches(parquet, columns):
                captions = batch_texts(batch.column(self.caption))
                pictures = batch_texts(batch.column(self.image)) if paths else [None] * len(captions)
                for caption, picture in zip(captions, pictures, strict=True):
                    yield row, caption, picture
                    row += 1

    def _require(self, names: Sequence[str]) -> None:
        require_columns([self.caption, *([self.image] if self.image else [])], names, self.path)


def caption_files(path: Path, caption: str, image: str | None = None) -> list[CaptionFile]:
    """A file of captions, or all that a folder holds, by name. Raises DatasetError where there is none."""
    files = sorted(file for file in path.iterdir() if _readable(file)) if path.is_dir() else [path]
    if not files or not all(map(_readable, files)):
        raise DatasetError(
            "there is no file of captions.", where=str(path), remedy=f"name a file or folder of {', '.join(ENDINGS)}"
        )
    return [CaptionFile(file, caption, image) for file in files]


def _readable(path: Path) -> bool:
    return path.name.lower().endswith(ENDINGS)
