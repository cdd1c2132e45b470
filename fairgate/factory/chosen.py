"""What a finished part hands on: the chosen sets, read from its shards when they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairgate.errors import RecipeError
from fairgate.factory.shards import StoredSet, decode
from fairgate.factory.shelf import Shelf
from fairgate.steps import SetRows

if TYPE_CHECKING:
    import pyarrow as pa

_GROUPS_HELD = 4
"""Row groups (1 MiB each, or a single larger set) that stay decoded: neighbours are often asked for together."""


@dataclass
class Chosen:
    """A finished part of one subject: a recipe's `Before`.

    `shard_of` says in which shard each kept set lies; `chain` names what was chosen and what it holds.
    """

    set_ids: Sequence[str] = ()
    chain: str = ""
    shelf: Shelf | None = None
    shard_of: Mapping[str, int] = field(default_factory=dict)
    _groups: OrderedDict[tuple[int, int], dict[str, pa.Table]] = field(default_factory=OrderedDict)
    _places: OrderedDict[int, dict[str, int]] = field(default_factory=OrderedDict)

    def sets(self, set_ids: Sequence[str]) -> Iterator[SetRows]:
        """The stored sets with these ids, in this order. Raises RecipeError for one that was not kept."""
        for stored in self.stored(set_ids):
            yield stored.rows

    def stored(self, set_ids: Sequence[str]) -> Iterator[StoredSet]:
        """As `sets`, with the digests of the members' pixels."""
        for set_id in set_ids:
            if set_id not in self.shard_of:
                raise RecipeError(
                    f"there is no kept set '{set_id}' in the part before.",
                    where=str(self.shelf.folder if self.shelf else "the first part has none before it"),
                    remedy="ask for ids out of `before.set_ids`",
                )
            yield next(decode(self._table(self.shard_of[set_id], set_id)))

    def _table(self, shard: int, set_id: str) -> pa.Table:
        group = self._place(shard)[set_id]
        if (shard, group) not in self._groups:
            self._groups[shard, group] = self._read(shard, group)
            if len(self._groups) > _GROUPS_HELD:
                self._groups.popitem(last=False)
        return self._groups[shard, group][set_id]

    def _read(self, shard: int, group: int) -> dict[str, pa.Table]:
        with self._open(shard) as parquet:
            table = parquet.read_row_group(group)
        found, start = {}, 0
        while start < len(table):
            rows = max(table["members"][start].as_py(), 1)
            found[table["set_id"][start].as_py()] = table.slice(start, rows)
            start += rows
        return found

    def _place(self, shard: int) -> dict[str, int]:
        """set_id -> row group."""
        if shard not in self._places:
            with self._open(shard) as parquet:
                self._places[shard] = {
                    set_id: group
                    for group in range(parquet.num_row_groups)
                    for set_id in parquet.read_row_group(group, columns=["set_id"])["set_id"].to_pylist()
                }
            if len(self._places) > _GROUPS_HELD:
                self._places.popitem(last=False)
        return self._places[shard]

    def _open(self, shard: int) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert self.shelf is not None  # a part without a shelf has no sets
        path = self.shelf.shard(shard)
        try:
            return pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise RecipeError(
                f"a finished shard cannot be read: {error}.",
                where=str(path),
                remedy="run the build again: a damaged shard is made again",
            ) from error
