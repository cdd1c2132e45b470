"""A dataset on disk, opened by reading its manifest; columns and images are read on first use.

Its text columns without its pictures, the index, are small, and all that deciding a gate needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairgate.data.large_columns import give_back
from fairgate.data.manifest import CROSS, HARMFUL, PULL, Shard, read_manifest
from fairgate.data.parquet_file import encoded, numbers
from fairgate.data.rows import TEXT_COLUMNS
from fairgate.data.shard_reader import ShardReader, require_bounded
from fairgate.data.text_column import TextColumn, TextRows, code_type
from fairgate.ground.errors import DatasetError, suggestion
from fairgate.ground.seals import SealedNotes
from fairgate.ground.spans import span

if TYPE_CHECKING:
    from fairgate.data.verify import Problem, ReadSoFar, Watch

Corners = npt.NDArray[np.float64]
BOX_COLUMNS = ("box_left", "box_top", "box_right", "box_bottom")
"""Where the person of an image is, in its pixels; extra columns, which a release may have."""


@dataclass(frozen=True, eq=False)
class Index:
    """Text columns in stored row order, each of shape (rows,): a `TextColumn`, which reads as an array of strings, or
    such an array. `path` is "" where unknown.

    `groups` holds the declared groups of each attribute, in order.
    """

    set_id: TextRows
    member: TextRows
    subject: TextRows
    caption: TextRows
    path: TextRows
    attributes: Mapping[str, TextRows]
    groups: Mapping[str, Sequence[str]]
    boxes: Callable[[], Corners | None] = field(default=lambda: None, repr=False)
    """Left, top, right and bottom of the person in every image, (rows, 4), in pixels; None where none is recorded.
    Raises DatasetError for an image without such a box, or with one that has no area."""

    def __len__(self) -> int:
        return len(self.set_id)

    def codes(self, over: str | Sequence[str]) -> tuple[npt.NDArray[np.intp], list[str]]:
        """Group of every row as a position in the list of group names, for one attribute or several crossed.

        Names of intersections read "dark × female", the last attribute running fastest; combinations without a
        single row are named too. Raises DatasetError for an attribute or group that is not declared.
        """
        names = (over,) if isinstance(over, str) else tuple(over)
        code = np.zeros(len(self), dtype=np.intp)
        for name in names:  # in place: of millions of rows, each array is large
            code *= len(self._groups_of(name))
            code += self._code(name)
        return code, [CROSS.join(cell) for cell in product(*(self._groups_of(name) for name in names))]

    def _groups_of(self, attribute: str) -> Sequence[str]:
        if attribute not in self.groups:
            raise DatasetError(
                f"the dataset does not record '{attribute}'.",
                remedy=suggestion(attribute, self.groups, f"recorded attributes: {', '.join(self.groups)}"),
            )
        return self.groups[attribute]

    def _code(self, attribute: str) -> npt.NDArray[np.integer[Any]]:
        groups, values = self._groups_of(attribute), TextColumn.of(self.attributes[attribute])
        position = {group: at for at, group in enumerate(groups)}
        places = np.array([position.get(name, -1) for name in values.names.to_pylist()], dtype=np.intp)
        if (values.counts()[places < 0] > 0).any():
            row = int(np.flatnonzero(places[values.codes] < 0)[0])
            raise DatasetError(
                f"'{values[row]}' is not a declared group of '{attribute}'.",
                where=f"set '{self.set_id[row]}', member '{self.member[row]}'",
                remedy="run `fairgate dataset verify` on the dataset",
            )
        codes: npt.NDArray[np.integer[Any]] = places.astype(code_type(len(groups)))[values.codes]
        return codes


@dataclass(frozen=True, repr=False)
class Dataset(ShardReader):
    """One version of a dataset: `folder` and what its manifest says. `len()` is the number of rows (images)."""

    identity: str | None = field(default=None, init=False, compare=False, repr=False)
    """The content's fingerprint as it was computed, once `require_intact` has; None before."""

    def __repr__(self) -> str:
        """One line: the release, and how much it has."""
        return f"Dataset({self.manifest.ref}: {self.manifest.n_rows:,} rows, {', '.join(self.manifest.attributes)})"

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

    def require_intact(self, memory: SealedNotes | None = None, progress: ReadSoFar | None = None) -> str:
        """The content's fingerprint, once shards, columns, pictures and counts are found to be what the manifest says.

        `memory` remembers what was found intact, by content. Raises DatasetError.
        """
        if self.identity is None:
            from fairgate.data.verify import require_intact

            object.__setattr__(self, "identity", require_intact(self, memory, progress))
        assert self.identity is not None
        return self.identity

    def __len__(self) -> int:
        return self.manifest.n_rows

    @cached_property
    def index(self) -> Index:
        """All text columns that fairgate knows, read once, without images."""
        own = {column: self._text(column) for column in TEXT_COLUMNS}
        groups = {attribute: self._text(attribute) for attribute in self.manifest.attributes}
        give_back()  # of 2.4 million rows 0.3 GB
        for column in ("set_id", "member", "subject"):
            if (odd := own[column].first_harmful()) is not None:
                problem = f"has a name that is refused: {HARMFUL.format(odd)} (column '{column}')."
                raise self._wrong(problem, "build the dataset again with plain names")
        give_back()
        return Index(**own, attributes=groups, groups=self.manifest.attributes, boxes=self._boxes)

    def _text(self, column: str) -> TextColumn:
        """A text column of all shards: all columns at once would take twice the memory for a moment."""
        import pyarrow as pa

        coded = pa.dictionary(pa.int32(), pa.string())
        table = pa.concat_tables([self._columns(shard, [column], coded) for shard in self.manifest.shards])
        if len(table) != len(self):
            raise self._wrong(f"has {len(table)} rows, and its manifest says {len(self)}.", PULL)
        return TextColumn.of_arrow(table[column]).on_disk()

    def _boxes(self) -> Corners | None:
        """The columns of boxes of all shards, or None where there are none."""
        import pyarrow as pa

        shards = self.manifest.shards
        boxed = [set(BOX_COLUMNS) <= set(self.parquet(shard).schema_arrow.names) for shard in shards]
        if not any(boxed):
            return None
        if not all(boxed):
            raise self._wrong("records boxes in some shards and not in others.", "build the dataset again")
        table = pa.concat_tables([self._columns(shard, list(BOX_COLUMNS), pa.float64()) for shard in shards])
        boxes = np.stack([numbers(table[column]) for column in BOX_COLUMNS], axis=1)
        wrong = ~(np.isfinite(boxes).all(axis=1) & (boxes[:, 2:] > boxes[:, :2]).all(axis=1))
        if wrong.any():
            first = int(wrong.argmax())
            raise self._wrong(
                f"records no box with an area for {int(wrong.sum()):,} of its {len(boxes):,} images, such as set "
                f"'{self.index.set_id[first]}', member '{self.index.member[first]}'.",
                "leave these images out, or give each of them the box of its person, in pixels",
            )
        return boxes

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
            remedy = "set ids come from the same version of the dataset; check which one was scored"
            raise self._wrong(f"has no set '{min(absent)}'.", remedy)
        images_by_set: dict[str, list[tuple[str, bytes]]] = {set_id: [] for set_id in set_ids}
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
                    images_by_set[self.index.set_id[start + row]].append((self.index.member[start + row], images[row]))
                start = stop
        return images_by_set

    def verify(self, watch: Watch | None = None) -> list[Problem]:
        """Every problem of the dataset, found by reading all of it; empty when it is what its manifest says.

        `watch` is called for every readable image, with its row and the SHA-256 of its pixels.
        """
        from fairgate.data.verify import find_problems

        return find_problems(self, watch)

    def _whole(self, shard: Shard) -> Any:
        """An open shard whose row groups hold as many rows as the manifest says: a row's number is its place."""
        parquet = self.parquet(shard)
        rows = sum(parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups))
        if rows != shard.rows:
            raise self.unreadable(shard, ValueError(f"it holds {rows:,} rows, and the manifest says {shard.rows:,}"))
        return parquet

    def _images(self, parquet: Any, shard: Shard, group: int) -> list[bytes]:
        table = self.read_group(parquet, shard, group, columns=["image.bytes"])
        images = table["image"].to_pylist() if "image" in table.column_names else [None]
        pictures = [data for data in map(encoded, images) if data is not None]
        if len(pictures) < len(images):
            raise self.unreadable(shard, ValueError("a row has no image"))
        return pictures

    def _columns(self, shard: Shard, wanted: list[str], kind: Any) -> Any:
        """Columns of a shard, as an Arrow type."""
        import pyarrow as pa

        with span("read"), self.reading(shard):
            parquet = self.parquet(shard)
            for group in range(parquet.num_row_groups):
                require_bounded(parquet, group)
            table = parquet.read(columns=wanted, use_threads=False).select(wanted)
            table.validate(full=True)
            if all(field.type == kind for field in table.schema):
                return table  # a cast imports Arrow's functions, 0.08 s
            return table.cast(pa.schema([(column, kind) for column in wanted]))

    def _need_images(self) -> None:
        if self.manifest.image_encoding == "none":
            remedy = "score it with a table of precomputed scores (`scores:FILE`), or import it with its images"
            raise self._wrong("has labels and no images.", remedy)

    def _wrong(self, problem: str, remedy: str) -> DatasetError:
        return DatasetError(f"dataset '{self.manifest.ref}' {problem}", where=str(self.folder), remedy=remedy)


def read_dataset(folder: Path) -> Dataset:
    """The dataset in a folder, whatever the folder is called. Raises DatasetError when its manifest is not good."""
    return Dataset(folder, read_manifest(folder))
