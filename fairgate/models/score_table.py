"""Reading a table of scores, and lining its rows up with a dataset's images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import TextColumn, give_back, is_text, numbers
from fairgate.ground.errors import ScoresError, did_you_mean, first_harmful
from fairgate.ground.number_format import share_words
from fairgate.models.contract import Floats, ImageIndex, Rows
from fairgate.models.json_table import ID
from fairgate.models.table_files import (
    AS_NAMED,
    KEYS,
    LONGEST_NAME,
    PATH_COLUMNS,
    is_number,
    odd_column,
    opened_table,
    quoted,
)

LARGEST = 1e100
"""Sums of squares of larger numbers overflow, and an effect among them seems to be none."""


@dataclass(frozen=True)
class ScoreTable:
    """Columns of scores in the order of the dataset's images. A column is checked when it is read."""

    path: Path
    prompts: tuple[str, ...]
    keys: TextColumn  # (images,) name of each image, in the dataset's order
    rows: Rows  # (images,) the table's row for each image, -1 where it has none
    _arrow: Any = field(repr=False)
    repeats: Floats = field(default_factory=lambda: np.empty(0), repr=False)  # (images,) further rows, the same again

    def column(self, prompt: str, limits: tuple[float, float] | None) -> Floats:
        """Scores of one prompt, (images,) float64. Raises ScoresError: unknown, no numbers, not finite, off limits."""
        self._require_column(prompt, "for the prompt", "its prompts: ")
        values = self._numbers(prompt)
        if not self._in_order:
            self._require_whole()
            values = values[self.rows]
        low, high = limits or (-LARGEST, LARGEST)
        if low <= values.min(initial=high) and values.max(initial=low) <= high:
            return values
        self._require(np.isfinite(values), f"column '{prompt}' is empty, NaN or infinite", "compute these scores again")
        huge = f"column '{prompt}' is larger than {LARGEST:g} in size"
        self._require(np.abs(values) <= LARGEST, huge, "compute these scores again, or write them in a larger unit")
        outside = f"column '{prompt}' is outside [{low:.0f}, {high:.0f}]"
        scale = "declare the right scale: ?values=cosine, probability or logit (100 x cosine is a logit)"
        self._require((values >= low) & (values <= high), outside, scale)
        return values

    @cached_property
    def _in_order(self) -> bool:
        return np.array_equal(self.rows, np.arange(self._arrow.num_rows))

    def first(self, prompt: str) -> Floats:
        """Numbers of a prompt for images in the first rows, unchecked. Raises ScoresError: unknown, no numbers."""
        self._require_column(prompt, "for the prompt", "its prompts: ")
        rows = self.rows[(self.rows >= 0) & (self.rows < 1000)]  # others are of images that the dataset has not
        return self._numbers(prompt, 1000)[rows]

    @property
    def of_numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return tuple(name for name in self.prompts if is_number(self._arrow.column(name).type))

    def labels(self, attribute: str, absent: str | None = None) -> TextColumn:
        """A column of text, or of whole numbers (such as seeds) as text, (images,), empty where a cell is, and `absent`
        where an image has no row. Raises ScoresError: unknown, other numbers, giants; without `absent`, no row."""
        import pyarrow as pa

        if absent is None:
            self._require_whole()
        self._require_column(attribute, "of labels for", f"append `?{attribute}=COLUMN`; its columns: ")
        column = self._arrow.column(attribute)
        if pa.types.is_integer(column.type):
            column = column.cast(pa.string())
        if not is_text(column.type):
            raise ScoresError(
                f"column '{attribute}' does not hold labels, but values of type {column.type}.",
                where=str(self.path),
                remedy="write the label's name in every row, as the dataset names it",
            )
        labels = TextColumn.of_arrow(column)
        found, lacking = labels.take(self.rows), self.rows < 0
        if lacking.any():
            found = TextColumn.of(np.where(lacking, absent or "", found))
        if odd := first_harmful(found.distinct()):
            raise ScoresError(
                f"column '{attribute}' holds a label with control characters, or a very long one: '{odd}'.",
                where=str(self.path),
                remedy="write plain names",
            )
        return found

    def names(self, rows: NDArray[Any]) -> str:
        """A few images' names, for a message."""
        return quoted(self.keys[rows])

    def _require_column(self, column: str, role: str, instead: str) -> None:
        """Raises ScoresError for a column that is not there, or was left out, since it holds objects."""
        if column in self.prompts:
            return
        if what := (self._arrow.schema.metadata or {}).get(column.encode()):
            raise odd_column(column, what.decode(), str(self.path))
        remedy = did_you_mean(column, self.prompts) or f"{instead}{quoted(self.prompts)}"
        raise ScoresError(f"the table has no column {role} '{column}'.", where=str(self.path), remedy=remedy)

    def _require_whole(self) -> None:
        if (absent := np.flatnonzero(self.rows < 0)).size:
            raise _lacking(self.keys[absent].tolist(), "its names", self.keys, str(self.path))

    def _require(self, good: NDArray[np.bool_], fault: str, remedy: str) -> None:
        if (bad := np.flatnonzero(~good)).size:
            images = share_words(bad.size, "image")
            raise ScoresError(f"{fault} for {images}: {self.names(bad)}.", where=str(self.path), remedy=remedy)

    def _numbers(self, prompt: str, rows: int | None = None) -> Floats:
        column = self._arrow.column(prompt).slice(0, rows)
        if not is_number(column.type):
            given = [value for value in column.to_pylist() if value is not None]
            first = next((value for value in given if not _reads_as_number(value)), next(iter(given), None))
            raise ScoresError(
                f"column '{prompt}' does not hold numbers (such as {str(first)[:40]!r}).",
                where=str(self.path),
                remedy="write one number a row, decimals with a point",
            )
        return numbers(column)


def _reads_as_number(value: object) -> bool:
    try:
        return bool(np.isfinite(float(str(value))))
    except ValueError:
        return False


def read_table(
    path: Path, index: ImageIndex, *, whole: bool = True, columns: Mapping[str, str] = AS_NAMED
) -> ScoreTable:
    """Open a table and match its rows to the dataset's images, one to one. Raises ScoresError.

    Rows that are the same in every cell count once; `repeats` counts the others.
    Unless the table is `whole`, images may have no row: who reads a column says what these have.
    """
    with opened_table(path, len(index.set_id), columns=columns) as arrow:
        table = _matched(path, arrow, index, whole)
    del arrow  # with the names of its rows
    give_back()
    return table


def _matched(path: Path, arrow: Any, index: ImageIndex, whole: bool) -> ScoreTable:
    keys, found, keyed_by = named_images(arrow, index)
    rows, repeats = np.arange(len(keys)), np.broadcast_to(0.0, len(keys))
    if found is not keys:  # row by row otherwise
        if doubled := found.repeated():
            again = _again(arrow, np.flatnonzero(TextColumn.of(doubled).rows_of(found) >= 0))
            images = keys.rows_of(found.take(again))
            repeats = np.bincount(images[images >= 0], minlength=len(keys)).astype(np.float64)
            distinct = np.delete(np.arange(len(found)), again)
            arrow, found = arrow.take(distinct), found.take(distinct)
        places = places_of_images(keys, found, keyed_by, whole)
        if doubled and (doubled := found.repeated()):
            problem = f"images are more than once in the table, by {_by(keyed_by)}: {quoted(doubled)}."
            raise ScoresError(problem, remedy="keep one row an image")
        rows = np.full(len(keys), -1)
        rows[places] = np.arange(len(places))
    arrow = arrow.select([name for name in arrow.column_names if name not in keyed_by])
    return ScoreTable(path, tuple(arrow.column_names), keys, rows, arrow, repeats)


def _again(arrow: Any, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of the rows that are an earlier one's again, cell by cell."""
    cells = list(map(repr, arrow.take(rows).to_pylist()))
    first = dict(zip(reversed(cells), reversed(rows), strict=True))
    return np.setdiff1d(rows, list(first.values()))


def named_images(arrow: Any, index: ImageIndex) -> tuple[TextColumn, TextColumn, list[str]]:
    """Names of the dataset's images, those of the table's rows, and the columns that they are of."""
    names: list[str] = arrow.column_names
    by_path = [name for name in (*PATH_COLUMNS, ID) if name in names]
    keyed_by = list(KEYS) if set(KEYS) <= set(names) else by_path[:1]
    if not keyed_by:
        odd = {name.decode(): what.decode() for name, what in (arrow.schema.metadata or {}).items()}
        if unread := [name for name in (*PATH_COLUMNS, ID) if name in odd]:
            raise odd_column(unread[0], odd[unread[0]])
        raise ScoresError(
            "no column says which image a row belongs to.",
            remedy=f"add `set_id` and `member`, or one of {', '.join(PATH_COLUMNS)}, or append `?id=COLUMN`; found: "
            f"{quoted(names)}",
        )
    paths = TextColumn.of(index.path)
    if len(keyed_by) == 1 and keyed_by != [ID] and paths.is_row_by_row(arrow.column(keyed_by[0])):
        return paths, paths, keyed_by
    cells = [names_in(arrow.column(name), name) for name in keyed_by]
    if len(cells) == 1 and (nameless := np.flatnonzero(cells[0].sizes() == 0)).size:
        problem = f"column '{keyed_by[0]}' names no image in {nameless.size:,} of {len(cells[0]):,} rows, first in row "
        problem += f"{1 + nameless[0]:,}."
        raise ScoresError(problem, remedy="name the image in every row")
    found = TextColumn.joined(cells, "/")
    if keyed_by == [ID]:
        names, found_names = _by_any_name(found.tolist(), index)
        return TextColumn.of(names), TextColumn.of(found_names), keyed_by
    wanted = [paths] if len(keyed_by) == 1 else [TextColumn.of(index.set_id), TextColumn.of(index.member)]
    return TextColumn.joined(wanted, "/"), found, keyed_by


def _by_any_name(found: list[str], index: ImageIndex) -> tuple[list[str], list[str]]:
    """Names of the dataset's images, and those of the rows in the same terms: paths, set and member, sets, or numbers
    of rows from 0, the first that all rows are in; or paths that end as the dataset's do. If some are of no kind, in
    the terms that most are in."""
    paths, sets = [str(path) for path in index.path.tolist()], [str(name) for name in index.set_id.tolist()]
    members = [f"{name}/{member}" for name, member in zip(sets, index.member.tolist(), strict=True)]
    known, wanted = set(paths), set(found)
    most, nearest = 0, paths
    for names in (paths, members, sets, list(map(str, range(len(paths))))):
        if (shared := len(wanted.intersection(names)) if len(set(names)) == len(names) else 0) == len(wanted):
            return names, found
        most, nearest = (shared, names) if shared > most else (most, nearest)
    deepest = 1 + max((path.count("/") for path in known), default=0)
    ends = {name: _known_end(name, known, deepest) for name in wanted}
    if sum(end in known for end in ends.values()) < most:
        return nearest, found
    return paths, [ends[name] for name in found]


def _known_end(path: str, known: set[str], deepest: int) -> str:
    """The longest end of a path, part by part, that is `known`; the path if none is. `known` have `deepest` parts at
    most."""
    parts = path.rsplit("/", deepest)[-deepest:]
    return next((end for at in range(len(parts)) if (end := "/".join(parts[at:])) in known), path)


def names_in(column: Any, name: str) -> TextColumn:
    """A column that names images. Raises ScoresError for other kinds and giants."""
    if is_number(column.type):  # image 17 of a table without leading zeros
        return TextColumn.of(["" if value is None else str(value) for value in column.to_pylist()])
    found = TextColumn.of_arrow(column)
    if found.sizes().max(initial=0) > LONGEST_NAME:
        problem = f"column '{name}' names an image with more than {LONGEST_NAME:,} bytes."
        raise ScoresError(problem, remedy="name images as the dataset names them")
    return found


def places_of_images(keys: TextColumn, found: TextColumn, keyed_by: list[str], whole: bool = True) -> Rows:
    """The dataset's row of the image of each of the table's rows, which name `found`. Raises ScoresError for names that
    the dataset lacks, and, unless images may have no row, for images without one; and if images share a name."""
    by = _by(keyed_by)
    if doubled := keys.repeated():
        problem = f"the table matches by {by}, and images of the dataset share one: {quoted(doubled)}."
        raise ScoresError(problem, remedy="match by `set_id` and `member`")
    rows = keys.rows_of(found)
    named = np.zeros(len(keys), dtype=bool)
    named[rows[rows >= 0]] = True
    if whole and not named.all():
        raise _lacking(sorted(keys[~named]), by, keys)
    if (rows < 0).any():
        foreign = sorted(found.take(np.flatnonzero(rows < 0)).distinct())
        raise ScoresError(
            f"the table names {share_words(len(foreign), 'image')} that the dataset does not have, by {by}: "
            f"{quoted(foreign)}.",
            remedy=_NAMED_ALIKE.format(quoted(keys[:1])) + _same_file_names(foreign, keys.tolist()),
        )
    return rows


def _by(columns: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in columns)


def _same_file_names(foreign: list[str], keys: list[str]) -> str:
    """What else helps if only the folders of the paths differ; nothing if they do not, or two images share a name."""
    names = [key.rpartition("/")[2] for key in keys]
    shared = set(names).issuperset(name.rpartition("/")[2] for name in foreign) and len(set(names)) == len(names)
    if not shared:
        return ""
    end = foreign[0].rpartition("/")[2]
    return (
        f"; or, since the file names are the same, import the labels again with {quoted([end])} in the column of "
        "files, `--version v2` and, for pictures, their folder as `--images`: then the ends of the paths match"
    )


_NAMED_ALIKE = "write rows of exactly the dataset's images, named as it names them (such as {})"


def _lacking(absent: list[str], by: str, keys: TextColumn, where: str | None = None) -> ScoresError:
    problem = f"the table lacks {len(absent)} of the dataset's images, by {by}: {quoted(absent)}."
    return ScoresError(problem, where=where, remedy=_NAMED_ALIKE.format(quoted(keys[:1])))
