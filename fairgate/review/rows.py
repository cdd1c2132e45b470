"""Single rows of a dataset of any size: only the row groups that hold them are read."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fairgate.data import Dataset, Shard, is_text
from fairgate.errors import DatasetError
from fairgate.steps import picture

if TYPE_CHECKING:
    from PIL.Image import Image


class RowReader:
    """Reads columns and pictures by row number, in stored order. Opens only the shards that hold them."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._firsts = [0, *accumulate(shard.rows for shard in dataset.manifest.shards)]
        self._groups: dict[str, list[int]] = {}

    def columns(self) -> dict[str, bool]:
        """Every column's name, and whether it holds text."""
        schema = self._dataset.parquet(self._dataset.manifest.shards[0]).schema_arrow
        return {field.name: is_text(field.type) for field in schema}

    def read(self, rows: Iterable[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
        """Row number -> column -> value. Raises DatasetError where a shard is missing, unreadable or too short."""
        wanted: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            wanted.setdefault(self._place(row), []).append(row)
        found: dict[int, dict[str, Any]] = {}
        for (number, group), inside in sorted(wanted.items()):
            shard = self._dataset.manifest.shards[number]
            table = self._dataset.read_group(self._dataset.parquet(shard), shard, group, columns=list(columns))
            first = self._firsts[number] + self._starts(shard)[group]
            for row in inside:
                found[row] = table.slice(row - first, 1).to_pylist()[0]
        return found

    def picture(self, row: int) -> Image:
        """The picture of a row, RGB. Raises DatasetError where it is not there or does not decode."""
        stored = self.read([row], ["image.bytes"])[row].get("image")
        where, remedy = f"{self._dataset.folder}, row {row}", "make the build again, or `dvc pull` it"
        if not isinstance(stored, dict) or not isinstance(stored.get("bytes"), bytes):
            raise DatasetError("the picture is not there.", where=where, remedy=remedy)
        try:
            return picture(stored["bytes"])
        except DatasetError as error:
            raise DatasetError(f"the picture cannot be read: {error.problem}", where=where, remedy=remedy) from error

    def png(self, row: int) -> bytes:
        """The same as a PNG of its pixels alone: whatever else its file says (a prompt, a camera) stays out."""
        buffer = io.BytesIO()
        bare = self.picture(row)
        bare.info = {}  # a colour profile would be written along
        bare.save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()

    def _place(self, row: int) -> tuple[int, int]:
        """(shard, row group) of a row."""
        number = bisect_right(self._firsts, row) - 1
        shard = self._dataset.manifest.shards[number]
        starts, inside = self._starts(shard), row - self._firsts[number]
        if inside >= starts[-1]:
            raise self._dataset.unreadable(shard, ValueError("rows are missing"))
        return number, bisect_right(starts, inside) - 1

    def _starts(self, shard: Shard) -> list[int]:
        """Where a shard's row groups begin, and where the last one ends."""
        if shard.file not in self._groups:
            footer = self._dataset.parquet(shard).metadata
            sizes = (footer.row_group(group).num_rows for group in range(footer.num_row_groups))
            self._groups[shard.file] = [0, *accumulate(sizes)]
        return self._groups[shard.file]
