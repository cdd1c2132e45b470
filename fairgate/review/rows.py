"""Single rows of a dataset of any size: only the row groups that hold them are read."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairgate.data import Dataset, Shard, UnreadableImage, decode
from fairgate.errors import DatasetError


class _Place(NamedTuple):
    first: int
    shard: Shard
    group: int


@dataclass(frozen=True)
class Rows:
    """Reads columns and pictures by row number, in stored order."""

    dataset: Dataset
    _places: tuple[_Place, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> Rows:
        """Looks up where every row group begins; reads no data."""
        places, first = [], 0
        for shard in dataset.manifest.shards:
            footer = dataset.parquet(shard).metadata
            for group in range(footer.num_row_groups):
                places.append(_Place(first, shard, group))
                first += footer.row_group(group).num_rows
        return cls(dataset, tuple(places))

    def columns(self) -> list[str]:
        """Every column's name."""
        return list(self.dataset.parquet(self.dataset.manifest.shards[0]).schema_arrow.names)

    def read(self, rows: Iterable[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
        """Row number -> column -> value."""
        wanted: dict[_Place, list[int]] = {}
        for row in rows:
            wanted.setdefault(
                self._places[bisect_right(self._places, row, key=lambda place: place.first) - 1], []
            ).append(row)
        found: dict[int, dict[str, Any]] = {}
        for place, inside in sorted(wanted.items(), key=lambda one: one[0].first):
            parquet = self.dataset.parquet(place.shard)
            table = self.dataset.read_group(parquet, place.shard, place.group, columns=list(columns))
            for row in inside:
                if row - place.first >= len(table):
                    raise self.dataset.unreadable(place.shard, ValueError("rows are missing"))
                found[row] = table.slice(row - place.first, 1).to_pylist()[0]
        return found

    def picture(self, row: int) -> bytes:
        """The picture of a row as a PNG of its pixels alone: whatever else its file says stays out.

        Raises DatasetError where it is not there or does not decode.
        """
        stored = self.read([row], ["image.bytes"])[row].get("image")
        data = stored.get("bytes") if isinstance(stored, dict) else None
        where = f"{self.dataset.folder}, row {row}"
        remedy = "run `fairgate review` on a build that is whole: make it again, or `dvc pull` it"
        if not isinstance(data, bytes):
            raise DatasetError("the picture is not there.", where=where, remedy=remedy)
        buffer = io.BytesIO()
        try:
            image = decode(data)
            plain = image if image.mode in ("1", "L", "LA", "RGB", "RGBA") else image.convert("RGB")
            plain.info.clear()
            plain.save(buffer, "PNG", compress_level=1)
        except UnreadableImage as error:
            raise DatasetError(f"the picture cannot be read: {error}.", where=where, remedy=remedy) from error
        return buffer.getvalue()
