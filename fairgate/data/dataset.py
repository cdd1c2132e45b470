"""A dataset on disk, opened by reading its manifest; columns and images are read on first use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairgate.data.index import Index, strings
from fairgate.data.manifest import HARMFUL, Shard, read_manifest
from fairgate.data.rows import TEXT_COLUMNS
from fairgate.data.shard_reader import ShardReader, require_bounded
from fairgate.errors import DatasetError, first_harmful

if TYPE_CHECKING:
    from fairgate.data.identity import ReadSoFar
    from fairgate.data.set_integrity import Problem
    from fairgate.data.verify import Watch


@dataclass(frozen=True)
class Dataset(ShardReader):
    """One version of a dataset: `folder` and what its manifest says. `len()` is the number of rows (images)."""

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
            parquet = self.parquet(shard)
            for group in range(parquet.num_row_groups):
                require_bounded(parquet, group)
            table = parquet.read(columns=wanted).select(wanted)
            table.validate(full=True)
            return table.cast(pa.schema([(column, pa.dictionary(pa.int32(), pa.string())) for column in wanted]))
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self.unreadable(shard, error) from error

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
