"""Single rows of a dataset of any size: only the row groups that hold them are read."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from fairgate.builds.steps import picture
from fairgate.data import Dataset
from fairgate.ground.errors import DatasetError

if TYPE_CHECKING:
    from PIL.Image import Image


def read_rows(dataset: Dataset, rows: Iterable[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Row number -> column -> value. Raises DatasetError where a shard is missing, unreadable or too short."""
    wanted, found, end = sorted(set(rows)), dict[int, dict[str, Any]](), 0
    for shard in dataset.manifest.shards:
        start, end = end, end + shard.rows
        inside = wanted[bisect_left(wanted, start) : bisect_left(wanted, end)]
        if not inside:
            continue
        parquet = dataset.parquet(shard)
        sizes = (parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups))
        for group, (first, after) in enumerate(pairwise(accumulate(sizes, initial=start))):
            here = [row for row in inside if first <= row < after]
            if here:
                table = dataset.read_group(parquet, shard, group, columns=list(columns))
                found |= {row: table.slice(row - first, 1).to_pylist()[0] for row in here}
        if inside[-1] not in found:
            raise dataset.unreadable(shard, ValueError("rows are missing"))
    return found


def read_picture(dataset: Dataset, row: int) -> Image:
    """The picture of a row, RGB. Raises DatasetError where it is not there or does not decode."""
    stored = read_rows(dataset, [row], ["image.bytes"])[row].get("image")
    where, remedy = f"{dataset.folder}, row {row}", "make the build again, or `dvc pull` it"
    if not isinstance(stored, dict) or not isinstance(stored.get("bytes"), bytes):
        raise DatasetError("the picture is not there.", where=where, remedy=remedy)
    try:
        return picture(stored["bytes"])
    except DatasetError as error:
        raise DatasetError(f"the picture cannot be read: {error.problem}", where=where, remedy=remedy) from error


def read_png(dataset: Dataset, row: int) -> bytes:
    """The same as a PNG of its pixels alone: whatever else its file says (a prompt, a camera) stays out."""
    buffer = io.BytesIO()
    bare = read_picture(dataset, row)
    bare.info = {}  # a colour profile would be written along
    bare.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
