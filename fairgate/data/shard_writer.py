"""Parquet shards: sets in, files of bounded size out; the content's fingerprint moves with a pixel or a label alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fairgate.data.manifest import Shard
from fairgate.data.parquet_file import wrote
from fairgate.data.rows import OWN_COLUMNS, Row
from fairgate.ground.errors import DatasetError, disk_errors
from fairgate.ground.hashing import digest, sha256_bytes, sha256_file
from fairgate.ground.pixels import Pixels, many_pixels

if TYPE_CHECKING:
    import pyarrow as pa


def _plain(value: object) -> object:
    """A stored value as JSON data; bytes by their hash."""
    if isinstance(value, bytes):
        return {"sha256": sha256_bytes(value)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


class ContentHash:
    """Running SHA-256 over rows in stored order: every column, and the decoded pixels of the image.

    Files, row groups, compression, shard cuts, the order of columns and the image encoder do not enter. For JPEG
    the decoder does: libjpeg-turbo's default decoder is bit-exact over versions and processors.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, columns: Mapping[str, object], pixels: str | None) -> None:
        """Take in one row: its columns as Parquet gives them back (without `image`), its pixel hash or None.

        Raises DatasetError for a value that has no one spelling (NaN, a date, ...).
        """
        try:
            row = digest({"columns": {name: _plain(value) for name, value in columns.items()}, "pixels": pixels})
        except (TypeError, ValueError) as error:
            raise DatasetError(
                f"a column holds a value that cannot be fingerprinted: {error}.",
                where=f"set '{columns.get('set_id')}', member '{columns.get('member')}'",
                remedy="store text, whole numbers, finite numbers, booleans, bytes or lists of them; "
                "None where nothing was measured",
            ) from error
        self._hash.update(bytes.fromhex(row))

    def hexdigest(self) -> str:
        """The fingerprint of all rows so far."""
        return self._hash.hexdigest()


ROW_GROUP_BYTES = 4 * 2**20
"""A reader of a few images loads whole row groups: small compared with a shard, large compared with an image."""
ROW_GROUP_ROWS = 2**16
_FEATURES = json.dumps({"info": {"features": {"image": {"_type": "Image"}}}})


class UnreadableRow(DatasetError):
    """An image given to the writer does not decode. `set_id` and `member` say whose."""

    def __init__(self, row: Row, reason: object) -> None:
        self.set_id, self.member = str(row["set_id"]), str(row["member"])
        super().__init__(
            f"the image cannot be read: {reason}.",
            where=f"set '{row['set_id']}', member '{row['member']}'" + (f" ({row['path']})" if row["path"] else ""),
            remedy="replace the file with a whole image, or leave the set out",
        )


def _size(row: Row) -> int:
    """About what a row takes in a file, in bytes; text is counted before compression."""
    image = row["image"]
    text = sum(16 + len(str(value)) for column, value in row.items() if column != "image")
    return text + (len(image) if isinstance(image, bytes) else 0)


def writing(folder: Path) -> AbstractContextManager[None]:
    """Turns an OSError (read-only folder, full disk) into a DatasetError that names the folder."""
    remedy = "make room, or write to a folder that you may write to"
    return disk_errors(DatasetError, "the dataset cannot be written", folder, remedy)


class ShardWriter:
    """Writes whole sets into `folder`, row group by row group, holding one row group in memory.

    A shard is closed before the set that would carry it beyond `shard_bytes`; only a single set that is larger than
    that by itself makes a larger shard.
    """

    def __init__(self, folder: Path, shard_bytes: int) -> None:
        self._folder = folder
        self._limit = shard_bytes - shard_bytes // 64  # room for page headers and the footer
        self._schema: pa.Schema | None = None
        self._first: list[list[Row]] = []
        self._first_bytes = 0
        self._pending: list[Row] = []
        self._pending_bytes = 0
        self._handle: IO[bytes] | None = None
        self._writer: Any = None
        self._done: list[tuple[int, int]] = []
        self._sets = self._rows = 0
        self.content = ContentHash()
        self.encodings: set[str] = set()

    def add(self, members: list[Row]) -> None:
        """Take one whole set. Raises DatasetError for an unreadable image or a value of another type than before."""
        if self._schema is None:
            self._first.append(members)
            self._first_bytes += sum(_size(row) for row in members)
            if self._first_bytes >= ROW_GROUP_BYTES:
                self._settle_types()
        else:
            self._place(members)

    def _settle_types(self) -> None:
        """Infer the columns' types from the sets that came first, whatever the shards' size, and write those."""
        self._schema = _schema([row for members in self._first for row in members])
        first, self._first = self._first, []
        for members in first:
            self._place(members)

    def _place(self, members: list[Row]) -> None:
        size = sum(_size(row) for row in members)
        written = self._handle.tell() if self._handle else 0
        if self._sets and written + self._pending_bytes + size > self._limit:
            self._finish_shard()
        self._pending += members
        self._pending_bytes += size
        self._sets += 1
        self._rows += len(members)
        if self._pending_bytes >= ROW_GROUP_BYTES or len(self._pending) >= ROW_GROUP_ROWS:
            self._flush()

    def finish(self) -> list[Shard]:
        """Close the last shard and give all of them their final names."""
        if self._first:
            self._settle_types()
        if self._sets:
            self._finish_shard()
        shards = []
        with writing(self._folder):
            for number, (sets, rows) in enumerate(self._done):
                path = self._folder / f"shard-{number:05d}-of-{len(self._done):05d}.parquet"
                self._partial(number).rename(path)
                wrote(path)
                size = path.stat().st_size
                shards.append(Shard(file=path.name, sha256=sha256_file(path), bytes=size, sets=sets, rows=rows))
        return shards

    def close(self) -> None:
        """Close the open file, if any: it is left behind where `finish` was not reached."""
        if self._handle is not None:
            with suppress(OSError):  # a full disk has been reported already
                self._writer.close()
            self._handle.close()

    def _partial(self, number: int) -> Path:
        return self._folder / f"shard-{number:05d}.partial"

    def _finish_shard(self) -> None:
        self._flush()
        assert self._handle is not None  # a flush of at least one set has opened it
        with writing(self._folder):
            self._writer.close()
            self._handle.close()
        self._writer = self._handle = None
        self._done.append((self._sets, self._rows))
        self._sets = self._rows = 0

    def _flush(self) -> None:
        if not self._pending:
            return
        table = self._table(self._pending)
        self._hash(table)
        with writing(self._folder):
            if self._writer is None:
                self._open(table.schema)
            self._writer.write_table(table, row_group_size=len(self._pending))
        self._pending, self._pending_bytes = [], 0

    def _open(self, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._handle = self._partial(len(self._done)).open("wb")
        text = [name for name in schema.names if name != "image"]
        self._writer = pq.ParquetWriter(
            self._handle,
            schema,
            compression={"image.bytes": "NONE", **dict.fromkeys(["image.path", *text], "ZSTD")},
            use_dictionary=text,
            write_statistics=text,
        )

    def _table(self, rows: list[Row]) -> pa.Table:
        import pyarrow as pa

        stored = [
            {**row, "image": None if row["image"] is None else {"bytes": row["image"], "path": row["path"]}}
            for row in rows
        ]
        try:
            return pa.Table.from_pylist(stored, schema=self._schema)
        except (ValueError, TypeError, OverflowError) as error:
            raise _type_error(rows, error) from error

    def _hash(self, table: pa.Table) -> None:
        images = [row["image"] for row in self._pending if isinstance(row["image"], bytes)]
        decoded = iter(many_pixels(images))
        for row, columns in zip(self._pending, table.drop_columns(["image"]).to_pylist(), strict=True):
            pixels = next(decoded) if row["image"] is not None else None
            if isinstance(pixels, Pixels):
                self.encodings.add(pixels.encoding)
                self.content.add(columns, pixels.sha256)
            elif pixels is None:
                self.content.add(columns, None)
            else:
                raise UnreadableRow(row, pixels) from pixels


def _type_error(rows: list[Row], error: Exception) -> DatasetError:
    return DatasetError(
        f"a column changes its type: {error}.",
        where=f"sets '{rows[0]['set_id']}' to '{rows[-1]['set_id']}'",
        remedy="give a column one type in all rows (1.0, not 1, where fractions follow), "
        "and a value in some of the first rows",
    )


def _schema(rows: list[Row]) -> pa.Schema:
    """Column types: text for fairgate's own, inferred from the first few MiB of rows for the rest."""
    import pyarrow as pa

    fields = [pa.field("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())]))]
    fields += [pa.field(column, pa.string()) for column in OWN_COLUMNS if column != "image"]
    for column in rows[0]:
        if column not in OWN_COLUMNS:
            try:
                inferred = pa.array([row[column] for row in rows]).type
            except (ValueError, TypeError, OverflowError) as error:
                raise _type_error(rows, error) from error
            fields.append(pa.field(column, pa.string() if pa.types.is_null(inferred) else inferred))
    return pa.schema(fields, metadata={"huggingface": _FEATURES})
