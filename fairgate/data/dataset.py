"""A dataset on disk, opened by reading its manifest; columns and images are read on first use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairgate.data.bounds import is_text, plain_text, require_bounded
from fairgate.data.index import Index, strings
from fairgate.data.manifest import HARMFUL, Manifest, Shard, read_manifest
from fairgate.data.rows import TEXT_COLUMNS
from fairgate.errors import DatasetError, first_harmful
from fairgate.hashing import require_regular, sha256_file

if TYPE_CHECKING:
    from fairgate.data.identity import ReadSoFar
    from fairgate.data.set_integrity import Problem
    from fairgate.data.verify import Watch


SPARE_ROWS = 10_000_000
"""Rows that a shard may hold beyond what the manifest says and still be opened, so that `verify` counts them. A few
bytes of Parquet can promise billions."""


@dataclass(frozen=True)
class Dataset:
    """One version of a dataset: `folder` and what its manifest says. `len()` is the number of rows (images)."""

    folder: Path
    manifest: Manifest
    identity: str | None = field(default=None, init=False, compare=False, repr=False)
    """The content's fingerprint as it was computed, once `require_intact` has; None before."""

    @property
    def name(self) -> str:
        """The dataset's name, as suites write it."""
        return self.manifest.name

    @property
    def version(self) -> str:
        """`v1`, `v2`, ..."""
        return self.manifest.version

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content, computed: the manifest's is a claim. Reads everything where nobody has yet."""
        return self.require_intact()

    def require_intact(self, memory: Path | None = None, progress: ReadSoFar | None = None) -> str:
        """The content's fingerprint, once shards, columns, pictures and counts are found to be what the manifest says.

        `memory` is a folder that remembers what was found intact, by content. Raises DatasetError.
        """
        if self.identity is None:
            from fairgate.data.identity import require_intact

            object.__setattr__(self, "identity", require_intact(self, memory, progress))
        assert self.identity is not None
        return self.identity

    def __len__(self) -> int:
        return self.manifest.n_rows

    @cached_property
    def index(self) -> Index:
        """All text columns that fairgate knows, read once, without images."""
        import pyarrow as pa

        attributes = list(self.manifest.attributes)
        wanted = [*TEXT_COLUMNS, *attributes]
        table = pa.concat_tables([self._columns(shard, wanted) for shard in self.manifest.shards])
        if len(table) != len(self):
            raise DatasetError(
                f"dataset '{self.manifest.ref}' has {len(table)} rows, and its manifest says {len(self)}.",
                where=str(self.folder),
                remedy="run `fairgate dataset pull --force datasets.dvc`",
            )
        own = {column: strings(table[column]) for column in TEXT_COLUMNS}
        groups = {attribute: strings(table[attribute]) for attribute in attributes}
        for column in ("set_id", "member", "subject"):
            if (odd := first_harmful(set(own[column]))) is not None:
                raise DatasetError(
                    f"{HARMFUL.format(odd)} (column '{column}').",
                    where=str(self.folder),
                    remedy="build the dataset again with plain names",
                )
        return Index(**own, attributes=groups, groups=self.manifest.attributes)

    def check_shards(self) -> None:
        """Hold every shard's bytes against the manifest. Raises DatasetError for the first missing or changed one."""
        for shard in self.manifest.shards:
            require_regular(self.folder / shard.file, DatasetError)
        with ThreadPoolExecutor() as pool:
            for shard, found in zip(self.manifest.shards, pool.map(self.sha256_of, self.manifest.shards), strict=True):
                if found != shard.sha256:
                    raise DatasetError(
                        f"shard '{shard.file}' of dataset '{self.manifest.ref}' "
                        + ("is missing." if found is None else "is not the file that was released."),
                        where=str(self.folder / shard.file),
                        remedy="run `fairgate dataset pull --force datasets.dvc`, or see what changed with "
                        f"`fairgate dataset verify {self.manifest.ref}`",
                    )

    def sha256_of(self, shard: Shard) -> str | None:
        """SHA-256 of a shard as it lies on disk, or None when it is not there."""
        path = self.folder / shard.file
        return sha256_file(path) if path.is_file() else None

    def image_batches(self, batch_size: int) -> Iterator[tuple[npt.NDArray[np.intp], list[bytes]]]:
        """Row numbers and encoded images, `batch_size` at a time (the last batch may be smaller), in stored order.

        Holds one row group in memory. Raises DatasetError when the dataset has labels only.
        """
        self._need_images()
        start, waiting = 0, list[bytes]()
        for shard in self.manifest.shards:
            parquet = self._whole(shard)
            for group in range(parquet.num_row_groups):
                waiting += self._images(parquet, shard, group)
                while len(waiting) >= batch_size:
                    yield np.arange(start, start + batch_size), waiting[:batch_size]
                    start, waiting = start + batch_size, waiting[batch_size:]
        if waiting:
            yield np.arange(start, start + len(waiting)), waiting

    def images_of(self, set_ids: Sequence[str]) -> dict[str, list[tuple[str, bytes]]]:
        """(member, encoded image) of each set, members in stored order. Reads only their row groups.

        Raises DatasetError for a set that the dataset does not have, or when it has labels only.
        """
        self._need_images()
        chosen = set(set_ids)
        wanted = np.array([set_id in chosen for set_id in self.index.set_id], dtype=np.bool_)
        if absent := chosen.difference(self.index.set_id[wanted]):
            raise DatasetError(
                f"dataset '{self.manifest.ref}' has no set '{min(absent)}'.",
                where=str(self.folder),
                remedy="set ids come from the same version of the dataset; check which one was scored",
            )
        found: dict[str, list[tuple[str, bytes]]] = {set_id: [] for set_id in set_ids}
        start = 0
        for shard in self.manifest.shards:
            if not wanted[start : start + shard.rows].any():
                start += shard.rows
                continue
            parquet = self._whole(shard)
            for group in range(parquet.num_row_groups):
                stop = start + parquet.metadata.row_group(group).num_rows
                rows = np.flatnonzero(wanted[start:stop])
                images = self._images(parquet, shard, group) if len(rows) else []
                for row in rows:
                    found[self.index.set_id[start + row]].append((self.index.member[start + row], images[row]))
                start = stop
        return found

    def verify(self, watch: Watch | None = None) -> list[Problem]:
        """Every problem of the dataset, found by reading all of it; empty when it is what its manifest says.

        `watch` is called for every readable image, with its row and the SHA-256 of its pixels.
        """
        from fairgate.data.verify import find_problems

        return find_problems(self, watch)

    def parquet(self, shard: Shard) -> Any:
        """An open `pyarrow.parquet.ParquetFile`, text as codes of its different texts.

        Raises DatasetError when the shard is missing or unreadable, or promises more than a dataset holds.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.folder / shard.file
        require_regular(path, DatasetError)
        try:
            schema = pq.read_schema(path)
            if len(set(schema.names)) < len(schema.names):
                raise ValueError("a column is there twice")
            text = [field.name for field in schema if is_text(field.type)]
            parquet = pq.ParquetFile(path, read_dictionary=text)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self.unreadable(shard, error) from error
        if parquet.metadata.num_rows > shard.rows + SPARE_ROWS:
            raise self.unreadable(shard, ValueError(f"it promises {parquet.metadata.num_rows:,} rows"))
        return parquet

    def read_group(self, parquet: Any, shard: Shard, group: int, columns: list[str] | None = None) -> Any:
        """One row group of an open shard as a `pyarrow.Table`. Raises DatasetError when its bytes do not decode, would
        unpack to more than a row group holds, or are not as many rows as the file says."""
        import pyarrow as pa

        try:
            require_bounded(parquet, group)
            table = parquet.read_row_group(group, columns=columns)
            table.validate(full=True)
            if len(table) != (promised := parquet.metadata.row_group(group).num_rows):
                raise ValueError(f"row group {group} holds {len(table):,} rows and promises {promised:,}")
            return plain_text(table)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self.unreadable(shard, error) from error

    def _whole(self, shard: Shard) -> Any:
        """An open shard whose row groups hold as many rows as the manifest says: a row's number is its place."""
        parquet = self.parquet(shard)
        held = sum(parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups))
        if held != shard.rows:
            raise self.unreadable(shard, ValueError(f"it holds {held:,} rows, and the manifest says {shard.rows:,}"))
        return parquet

    def _images(self, parquet: Any, shard: Shard, group: int) -> list[bytes]:
        table = self.read_group(parquet, shard, group, columns=["image.bytes"])
        images = table["image"].to_pylist() if "image" in table.column_names else [None]
        found = [image.get("bytes") if isinstance(image, dict) else None for image in images]
        encoded = [data for data in found if isinstance(data, bytes)]
        if len(encoded) < len(found):
            raise self.unreadable(shard, ValueError("a row has no image"))
        return encoded

    def _columns(self, shard: Shard, wanted: list[str]) -> Any:
        import pyarrow as pa

        try:
            table = self.parquet(shard).read(columns=wanted).select(wanted)
            table.validate(full=True)
            return table.cast(pa.schema([(column, pa.dictionary(pa.int32(), pa.string())) for column in wanted]))
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self.unreadable(shard, error) from error

    def unreadable(self, shard: Shard, error: Exception) -> DatasetError:
        """The error for a shard that is missing or does not decode."""
        missing = not (self.folder / shard.file).exists()
        return DatasetError(
            f"shard '{shard.file}' of dataset '{self.manifest.ref}' "
            + ("is missing." if missing else f"cannot be read: {error}."),
            where=str(self.folder / shard.file),
            remedy="run `fairgate dataset pull --force datasets.dvc`",
        )

    def _need_images(self) -> None:
        if self.manifest.image_encoding == "none":
            raise DatasetError(
                f"dataset '{self.manifest.ref}' has labels and no images.",
                where=str(self.folder),
                remedy="score it with a table of precomputed scores (`scores:FILE`), or import it with its images",
            )


def read_dataset(folder: Path) -> Dataset:
    """The dataset in a folder, whatever the folder is called. Raises DatasetError when its manifest is not good."""
    return Dataset(folder, read_manifest(folder))
