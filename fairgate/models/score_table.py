"""Reading a table of scores, and lining its rows up with a dataset's images."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import arrow_file, is_text, numbers, open_parquet, texts
from fairgate.ground.errors import ScoresError, did_you_mean, first_harmful, listed
from fairgate.ground.text import find_separator
from fairgate.models.contract import Floats, ImageIndex, Rows

PATH_COLUMNS = ("image", "file", "path")
MAX_COLUMNS = 20_000
MAX_TEXTS = 20_000
MAX_CSV_BYTES = 2 << 30
LONGEST_NAME = 4096
_ROWS_PER_IMAGE = 10  # so many are still read, to name the images that are doubled or foreign
_SHOWN = 3


@dataclass(frozen=True)
class ScoreTable:
    """Columns of scores in the order of the dataset's images. A column is checked when it is read."""

    path: Path
    prompts: tuple[str, ...]
    keys: NDArray[np.object_]  # (images,) name of each image, in the dataset's order
    rows: Rows  # (images,) the table's row for each image
    _arrow: Any = field(repr=False)
    repeats: Floats = field(default_factory=lambda: np.empty(0), repr=False)  # (images,) further rows, the same again

    def column(self, prompt: str, limits: tuple[float, float] | None) -> Floats:
        """Scores of one prompt, (images,) float64. Raises ScoresError: unknown, not numbers, not finite, off limits."""
        if prompt not in self.prompts:
            raise ScoresError(
                f"the table has no column for the prompt '{prompt}'.",
                where=str(self.path),
                remedy=did_you_mean(prompt, self.prompts) or f"its prompts: {quoted(self.prompts)}",
            )
        values = self._numbers(prompt)[self.rows]
        self._require(np.isfinite(values), f"column '{prompt}' is empty, NaN or infinite", "compute these scores again")
        if limits is not None:
            low, high = limits
            self._require(
                (values >= low) & (values <= high),
                f"column '{prompt}' is outside [{low:.0f}, {high:.0f}]",
                "declare the right scale: ?values=cosine, probability or logit (100 x cosine is a logit)",
            )
        return values

    def labels(self, attribute: str) -> NDArray[np.object_]:
        """A column of text, or of whole numbers (such as seeds) as text, (images,), empty where a cell is. Raises
        ScoresError: unknown, other numbers, giants."""
        import pyarrow as pa

        if attribute not in self.prompts:
            raise ScoresError(
                f"the table has no column of labels for '{attribute}'.",
                where=str(self.path),
                remedy=did_you_mean(attribute, self.prompts) or f"its columns: {quoted(self.prompts)}",
            )
        column = self._arrow.column(attribute)
        if pa.types.is_integer(column.type):
            column = column.cast(pa.string())
        if not is_text(column.type):
            raise ScoresError(
                f"column '{attribute}' does not hold labels, but values of type {column.type}.",
                where=str(self.path),
                remedy="write the label's name in every row, as the dataset names it",
            )
        found = texts(column)[self.rows]
        if odd := first_harmful(set(found.tolist())):
            raise ScoresError(
                f"column '{attribute}' holds a label with control characters, or a very long one: '{odd}'.",
                where=str(self.path),
                remedy="write plain names",
            )
        return found

    def names(self, rows: NDArray[Any]) -> str:
        """A few images' names, for a message."""
        return quoted(self.keys[rows])

    def _require(self, good: NDArray[np.bool_], fault: str, remedy: str) -> None:
        bad = np.flatnonzero(~good)
        if bad.size:
            raise ScoresError(f"{fault} for {bad.size} images: {self.names(bad)}.", where=str(self.path), remedy=remedy)

    def _numbers(self, prompt: str) -> Floats:

        column = self._arrow.column(prompt)
        if not _is_number(column.type):
            first = next((value.as_py() for chunk in column.chunks for value in chunk if value.is_valid), None)
            raise ScoresError(
                f"column '{prompt}' does not hold numbers (such as {str(first)[:40]!r}).",
                where=str(self.path),
                remedy="write one number a row, decimals with a point",
            )
        return numbers(column)


def declared_logit_scale(options: Mapping[str, str], uri: str) -> float | None:
    """What multiplies cosines, from a URI's options; None where it is not there. Raises ScoresError."""
    scale = options.get("logit_scale")
    try:
        number = None if scale is None else float(scale)
    except ValueError:
        number = float("nan")
    if number is not None and not (np.isfinite(number) and number > 0):
        raise ScoresError(
            f"logit_scale is '{scale}', not a positive number.",
            where=uri,
            remedy="use logit_scale=100 (usual for CLIP)",
        )
    return number


def read_table(path: Path, index: ImageIndex, *, once: bool = True) -> ScoreTable:
    """Open a CSV or Parquet table and match its rows to the dataset's images, one to one. Raises ScoresError.

    Unless each image is to be there `once`, rows that are the same in every cell count once; `repeats` counts these.
    """
    with opened_table(path, len(index.set_id)) as arrow:
        return _matched(path, arrow, index, once)


def read_texts(path: Path) -> tuple[list[str], ScoreTable]:
    """Open a CSV or Parquet table with a row per text, in the column `text`: the texts, and the other columns in their
    order. Raises ScoresError."""
    with opened_table(path, MAX_TEXTS) as arrow:
        if "text" not in arrow.column_names:
            raise ScoresError("no column holds the texts.", remedy="add the column `text`")
        found = _texts(arrow.column("text"), "text")
        if doubled := _doubled(found):
            raise ScoresError(
                f"texts are more than once in the table: {quoted(doubled)}.", remedy="keep one row a text"
            )
        columns = tuple(name for name in arrow.column_names if name != "text")
        return found, ScoreTable(path, columns, np.array(found, dtype=object), np.arange(len(found)), arrow)


@contextmanager
def opened_table(path: Path, images: int, each: int = _ROWS_PER_IMAGE, text: Sequence[str] = ()) -> Iterator[Any]:
    """A CSV or Parquet table with `each` row an image at most, whose columns called `text` are text. A ScoresError of
    the block is about the table. Raises ScoresError."""
    import pyarrow as pa

    try:
        yield _read_parquet(path, images, each) if path.suffix == ".parquet" else _read_csv(path, text)
    except ScoresError as error:  # of what is below, which knows no path
        raise ScoresError(error.problem, where=str(path), remedy=error.remedy) from error
    except (pa.ArrowException, csv.Error, OSError, ValueError, KeyError, TypeError) as error:
        raise ScoresError(
            f"the table cannot be read ({error}).", where=str(path), remedy="write it as UTF-8 CSV or as Parquet"
        ) from error


def read_boxes(path: Path, index: ImageIndex, most: int) -> tuple[ScoreTable, list[str], Rows]:
    """Open a CSV or Parquet table with a row per box, in the columns `label` and `score` and others, and at least one
    an image: one whose `score` is empty says that nothing was found there.

    Of every box: its numbers, its label, and the image's row. Raises ScoresError.
    """
    with opened_table(path, len(index.set_id), most * _ROWS_PER_IMAGE) as arrow:
        names: list[str] = arrow.column_names
        if absent := [name for name in ("label", "score") if name not in names]:
            raise ScoresError(f"no column is called '{absent[0]}'.", remedy="write a row a box, with its label, score")
        keys, found, keyed_by = named_images(arrow, index)
        _rows_of(keys, list(dict.fromkeys(found)), keyed_by)
        row_of = {key: row for row, key in enumerate(keys)}
        columns = tuple(name for name in names if name not in (*keyed_by, "label"))
        given = {name: np.array(arrow.column(name).is_valid().to_pylist(), dtype=bool) for name in columns}
        named, boxes = np.array(found, dtype=object), np.flatnonzero(given["score"])
        if (odd := np.flatnonzero(~given["score"] & np.any(list(given.values()), axis=0))).size:
            problem = f"{odd.size} boxes have no score, such as those of {quoted(named[odd])}."
            raise ScoresError(problem, remedy="leave the whole row empty where nothing was found, but for the image")
        labels, named = _texts(arrow.column("label"), "label"), named[boxes]
        rows = np.array([row_of[name] for name in named], dtype=np.int64)
        return ScoreTable(path, columns, named, boxes, arrow), [labels[box] for box in boxes.tolist()], rows


def _matched(path: Path, arrow: Any, index: ImageIndex, once: bool) -> ScoreTable:
    keys, found, keyed_by = named_images(arrow, index)
    prompts, again = tuple(name for name in arrow.column_names if name not in keyed_by), Counter[str]()
    if not once and (doubled := set(_doubled(found))):
        distinct, again = _distinct(arrow, found, doubled)
        arrow, found = arrow.take(distinct), [found[row] for row in distinct]
    repeats = np.array([again[key] for key in keys], dtype=np.float64)
    return ScoreTable(path, prompts, np.array(keys, dtype=object), _rows_of(keys, found, keyed_by), arrow, repeats)


def _distinct(arrow: Any, found: list[str], doubled: set[str]) -> tuple[list[int], Counter[str]]:
    """The rows without those that are another one's again, cell by cell, and how many these are, by image."""
    again = Counter[str]()
    places = [row for row, name in enumerate(found) if name in doubled]
    cells = dict(zip(places, map(repr, arrow.take(places).to_pylist()), strict=True))
    rows, seen = list[int](), set[str]()
    for row, name in enumerate(found):
        if cells.get(row) in seen:
            again[name] += 1
        else:
            rows.append(row)
            seen |= {cells[row]} if row in cells else set()
    return rows, again


def named_images(arrow: Any, index: ImageIndex) -> tuple[list[str], list[str], list[str]]:
    """Names of the dataset's images, those of the table's rows, and the columns that they are of."""
    names: list[str] = arrow.column_names
    by_path = [name for name in PATH_COLUMNS if name in names]
    keyed_by = ["set_id", "member"] if {"set_id", "member"} <= set(names) else by_path[:1]
    if not keyed_by:
        raise ScoresError(
            "no column says which image a row belongs to.",
            remedy=f"add `set_id` and `member`, or one of {', '.join(PATH_COLUMNS)}; found: {quoted(names)}",
        )
    wanted = [index.path] if len(keyed_by) == 1 else [index.set_id, index.member]
    keys = ["/".join(parts) for parts in zip(*(column.tolist() for column in wanted), strict=True)]
    cells = [_texts(arrow.column(name), name) for name in keyed_by]
    return keys, ["/".join(parts) for parts in zip(*cells, strict=True)], keyed_by


def _read_parquet(path: Path, images: int, each: int) -> Any:
    """The table's columns, text as codes of its different texts: a file of a few bytes may repeat one a billion times.

    Columns of other kinds than text and numbers are not read.
    """
    parquet = open_parquet(path)
    _require_plain_names(parquet.schema_arrow.names)
    _require_bounded(parquet.metadata, images, each)
    plain = [field.name for field in parquet.schema_arrow if is_text(field.type) or _is_number(field.type)]
    table = parquet.read(columns=plain).select(plain)
    table.validate(full=True)  # a damaged page can hold codes of texts that there are not
    return table


def _require_bounded(facts: Any, images: int, each: int) -> None:
    """Raises ScoresError for a table that unpacks to far more than scores of these images can need."""
    if facts.num_rows > each * images + _ROWS_PER_IMAGE:
        problem = f"the table has {facts.num_rows:,} rows, and the dataset {images:,} images."
        raise ScoresError(problem, remedy="write one row an image")
    sizes = dict[str, int]()
    for group in range(facts.num_row_groups):
        for column in map(facts.row_group(group).column, range(facts.num_columns)):
            sizes[column.path_in_schema] = sizes.get(column.path_in_schema, 0) + column.total_uncompressed_size
    name, size = max(sizes.items(), key=lambda item: item[1], default=("", 0))
    if size > (64 << 20) + LONGEST_NAME * facts.num_rows:
        problem = f"column '{name}' unpacks to {size / 2**20:,.0f} MB, which is no column of scores."
        raise ScoresError(problem, remedy="write one number a row and image")


def _read_csv(path: Path, text_columns: Sequence[str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    if path.stat().st_size > MAX_CSV_BYTES:
        problem = f"the table has more than {MAX_CSV_BYTES // 2**20:,} MB."
        raise ScoresError(problem, remedy="write it as Parquet")
    with path.open(encoding="utf-8-sig", newline="") as handle:
        separator = find_separator(handle, str(path), ScoresError)
        handle.seek(0)
        _require_plain_names(next(csv.reader(handle, delimiter=separator), []))
    # names of images stay text: "0012" is not 12
    text = dict.fromkeys(("set_id", "member", "text", "label", *PATH_COLUMNS, *text_columns), pa.string())
    arrow = arrow_csv.read_csv(
        arrow_file(path),
        convert_options=arrow_csv.ConvertOptions(column_types=text),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, delimiter=separator),
    )
    _require_plain_names(arrow.column_names)
    return arrow


def _require_plain_names(names: Sequence[str]) -> None:
    if len(names) > MAX_COLUMNS:
        problem = f"the table has {len(names):,} columns; at most {MAX_COLUMNS:,} are read."
        raise ScoresError(problem, remedy="keep the columns of the suite's prompts")
    if doubled := _doubled(names):
        raise ScoresError(f"column '{doubled[0]}' is twice in the table.", remedy="keep one of the two")


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def _texts(column: Any, name: str) -> list[str]:
    """A column that names images, each different text decoded once. Raises ScoresError for other kinds and giants."""
    if _is_number(column.type):  # image 17 of a table without leading zeros
        return ["" if value is None else str(value) for value in column.to_pylist()]
    found = texts(column)
    if any(len(text) > LONGEST_NAME for text in set(found)):
        problem = f"column '{name}' names an image with more than {LONGEST_NAME:,} characters."
        raise ScoresError(problem, remedy="name images as the dataset names them")
    return list(found)


def _rows_of(keys: list[str], found: list[str], keyed_by: list[str]) -> Rows:
    """Row of the table for each image; raises ScoresError unless the two lists of names are equal as sets."""
    by = " and ".join(f"`{name}`" for name in keyed_by)
    if doubled := _doubled(keys):
        problem = f"the table matches by {by}, and images of the dataset share one: {quoted(doubled)}."
        raise ScoresError(problem, remedy="match by `set_id` and `member`")
    if doubled := _doubled(found):
        problem = f"images are more than once in the table, by {by}: {quoted(doubled)}."
        raise ScoresError(problem, remedy="keep one row an image")
    for left, right, problem in (
        (keys, found, "the table lacks {} of the dataset's images"),
        (found, keys, "the table scores {} images that the dataset does not have"),
    ):
        if absent := sorted(set(left).difference(right)):
            raise ScoresError(
                f"{problem.format(len(absent))}, by {by}: {quoted(absent)}.",
                remedy=f"score exactly the dataset's images, named as it names them (such as {quoted(keys[:1])})",
            )
    row_of = {name: row for row, name in enumerate(found)}
    return np.array([row_of[name] for name in keys], dtype=np.int64)


def _doubled(names: Sequence[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def quoted(names: Iterable[Any]) -> str:
    """A few names, for a message."""
    return listed([f"'{name}'" for name in names], _SHOWN)
