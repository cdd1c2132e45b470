"""The output of a finished part: the chosen sets, read from its shards on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairgate.builds.shard_store import ShardStore, shard_path
from fairgate.builds.shards import StoredSet, decode
from fairgate.errors import RecipeError
from fairgate.steps import SetRows

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_HELD = 64 << 20
"""Of row groups (1 MiB each, or a single larger set) that stay in memory: what is chosen lies all over the shards."""
_MAPS_HELD = 1000


@dataclass
class Chosen:
    """A finished part of one subject: a recipe's `Before`.

    `shard_of` maps each accepted set to its shard; `chain` is a digest of the choice and of the shards' content.
    """

    set_ids: Sequence[str] = ()
    chain: str = ""
    store: ShardStore | None = None
    shard_of: Mapping[str, int] = field(default_factory=dict)
    _groups: OrderedDict[tuple[int, int], tuple[pa.Table, dict[str, int]]] = field(default_factory=OrderedDict)
    _maps: OrderedDict[int, dict[str, int]] = field(default_factory=OrderedDict)
    _held: int = 0

    def sets(self, set_ids: Sequence[str]) -> Iterator[SetRows]:
        """The stored sets with these ids, in this order. Raises RecipeError for one that was dropped."""
        for stored in self.stored(set_ids):
            yield stored.rows

    def stored(self, set_ids: Sequence[str]) -> Iterator[StoredSet]:
        """As `sets`, with the digests of the members' pixels."""
        for set_id in set_ids:
            if set_id not in self.shard_of:
                raise RecipeError(
                    f"there is no kept set '{set_id}' in the part before.",
                    where=str(self.store.folder if self.store else "the first part has none before it"),
                    remedy="use ids of `before.set_ids`",
                )
            shard = self.shard_of[set_id]
            table, starts = self._group(shard, self._map(shard)[set_id])
            rows = max(table["members"][starts[set_id]].as_py(), 1)
            yield next(decode(table.slice(starts[set_id], rows)))

    def let_go(self) -> None:
        """Free the memory of what was read; it is read again when it is needed."""
        self._groups.clear()
        self._maps.clear()
        self._held = 0

    def _group(self, shard: int, number: int) -> tuple[pa.Table, dict[str, int]]:
        """A row group and where each of its sets begins, from a least-recently-used cache."""
        if (shard, number) in self._groups:
            self._groups.move_to_end((shard, number))
            return self._groups[shard, number]
        with self._open(shard) as parquet:
            table = parquet.read_row_group(number)
        starts: dict[str, int] = {}
        for row, set_id in enumerate(table["set_id"].to_pylist()):
            starts.setdefault(set_id, row)
        self._groups[shard, number] = table, starts
        self._held += table.nbytes
        while self._held > _BYTES_HELD and len(self._groups) > 1:
            self._held -= self._groups.popitem(last=False)[1][0].nbytes
        return table, starts

    def _map(self, shard: int) -> dict[str, int]:
        if shard not in self._maps:
            with self._open(shard) as parquet:
                self._maps[shard] = {
                    set_id: group
                    for group in range(parquet.num_row_groups)
                    for set_id in parquet.read_row_group(group, columns=["set_id"])["set_id"].to_pylist()
                }
            if len(self._maps) > _MAPS_HELD:
                self._maps.popitem(last=False)
        return self._maps[shard]

    def _open(self, shard: int) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert self.store is not None  # a part without a store has no sets
        path = shard_path(self.store.folder, shard, "parquet")
        try:
            return pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise RecipeError(
                f"a finished shard cannot be read: {error}.",
                where=str(path),
                remedy="run the build again: a damaged shard is made again",
            ) from error
