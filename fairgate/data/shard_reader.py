"""The shards of a dataset on disk: hashed, opened and read a row group at a time, as their manifest promises."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.data.manifest import PULL, Manifest, Shard
from fairgate.data.parquet_file import GROUP_BYTES, open_parquet
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import require_regular, sha256_file
from fairgate.ground.spans import span

SPARE_ROWS = 10_000_000
"""Rows that a shard may hold beyond what the manifest says and still be opened, so that `verify` counts them. A few
bytes of Parquet can promise billions."""


@dataclass(frozen=True)
class ShardReader:
    """The shards that a manifest names, in a folder."""

    folder: Path
    manifest: Manifest

    def check_shards(self) -> None:
        """Hold every shard's bytes against the manifest. Raises DatasetError for the first missing or changed one."""
        for shard in self.manifest.shards:
            require_regular(self.folder / shard.file, DatasetError)
        with ThreadPoolExecutor() as pool:
            for shard, computed in zip(
                self.manifest.shards, pool.map(self.sha256_of, self.manifest.shards), strict=True
            ):
                if computed is None:
                    raise self.wrong_shard(shard, "is missing.")
                if computed != shard.sha256:
                    raise self.wrong_shard(shard, "is not the file that was released.")

    def sha256_of(self, shard: Shard) -> str | None:
        """SHA-256 of a shard as it lies on disk, or None when it is not there."""
        path = self.folder / shard.file
        return sha256_file(path) if path.is_file() else None

    def parquet(self, shard: Shard) -> Any:
        """An open `pyarrow.parquet.ParquetFile`, text as codes of its different texts.

        Raises DatasetError when the shard is missing or unreadable, or promises more than a dataset holds.
        """
        path = self.folder / shard.file
        require_regular(path, DatasetError)
        with self.reading(shard):
            parquet = open_parquet(path)
            if parquet.metadata.num_rows > shard.rows + SPARE_ROWS:
                raise ValueError(f"it promises {parquet.metadata.num_rows:,} rows")
            return parquet

    def read_group(self, parquet: Any, shard: Shard, group: int, columns: list[str] | None = None) -> Any:
        """One row group of an open shard as a `pyarrow.Table`. Raises DatasetError when its bytes do not decode, would
        unpack to more than a row group holds, or are not as many rows as the file says."""
        with span("read"), self.reading(shard):
            require_bounded(parquet, group)
            table = parquet.read_row_group(group, columns=columns)
            table.validate(full=True)
            if len(table) != (promised := parquet.metadata.row_group(group).num_rows):
                raise ValueError(f"row group {group} holds {len(table):,} rows and promises {promised:,}")
            return plain_text(table)

    @contextmanager
    def reading(self, shard: Shard) -> Iterator[None]:
        """Raises DatasetError where the block cannot read a shard."""
        import pyarrow as pa

        try:
            yield
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self.unreadable(shard, error) from error

    def unreadable(self, shard: Shard, error: Exception) -> DatasetError:
        """The error for a shard that is missing or does not decode."""
        missing = not (self.folder / shard.file).exists()
        return self.wrong_shard(shard, "is missing." if missing else f"cannot be read: {error}.")

    def wrong_shard(self, shard: Shard, problem: str) -> DatasetError:
        """The error for a shard that is not what the manifest says."""
        return DatasetError(
            f"shard '{shard.file}' of dataset '{self.manifest.ref}' {problem}",
            where=str(self.folder / shard.file),
            remedy=f"{PULL}, or see what changed with `fairgate dataset verify {self.manifest.ref}`",
        )


def require_bounded(parquet: Any, group: int) -> None:
    """Raise ValueError for a row group that says it unpacks to more than `GROUP_BYTES`.

    A dictionary-encoded column may repeat its whole dictionary in every row. Text is read as codes, and `plain_text`
    checks it against the bound.
    """
    facts = parquet.metadata.row_group(group)
    for number in range(facts.num_columns):
        column = facts.column(number)
        nested = "." in column.path_in_schema
        size = column.total_uncompressed_size * (facts.num_rows if nested and column.has_dictionary_page else 1)
        if size > GROUP_BYTES:
            raise ValueError(f"column '{column.path_in_schema}' of row group {group} unpacks to {size >> 20:,} MB")


def plain_text(table: Any) -> Any:
    """A table with its coded text written out. Raises ValueError where that would exceed `GROUP_BYTES`."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(number)
            longest = max(
                (len(text or "") for chunk in column.chunks for text in chunk.dictionary.to_pylist()), default=0
            )
            if longest * len(table) > GROUP_BYTES:
                raise ValueError(
                    f"column '{field.name}' repeats a text of {longest:,} characters in {len(table):,} rows"
                )
            table = table.set_column(number, field.name, column.cast(field.type.value_type))
    return table
