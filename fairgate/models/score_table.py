"""Reading a table of scores, and lining its rows up with a dataset's images."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import ScoresError, did_you_mean
from fairgate.models.protocols import Floats, ImageIndex, Rows

PATH_COLUMNS = ("image", "file", "path")
_SHOWN = 3


@dataclass(frozen=True)
class ScoreTable:
    """Columns of scores in the order of the dataset's images. Columns are checked when they are asked for."""

    path: Path
    prompts: tuple[str, ...]
    keys: NDArray[np.str_]  # (images,) name of each image, in the dataset's order
    rows: Rows  # (images,) the table's row for each image
    _arrow: Any = field(repr=False)

    def column(self, prompt: str, limits: tuple[float, float] | None) -> Floats:
        """Scores of one prompt, (images,) float64. Raises ScoresError: unknown, not numbers, not finite, off limits."""
        if prompt not in self.prompts:
            raise ScoresError(
                f"the table has no column for the prompt '{prompt}'.",
                where=str(self.path),
                remedy=did_you_mean(prompt, self.prompts) or f"its prompts: {_some(self.prompts)}",
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

    def names(self, rows: NDArray[Any]) -> str:
        """A few images' names, for a message."""
        return _some([str(name) for name in self.keys[rows[:_SHOWN]]], total=len(rows))

    def _require(self, good: NDArray[np.bool_], fault: str, remedy: str) -> None:
        bad = np.flatnonzero(~good)
        if bad.size:
            raise ScoresError(f"{fault} for {bad.size} images: {self.names(bad)}.", where=str(self.path), remedy=remedy)

    def _numbers(self, prompt: str) -> Floats:
        import pyarrow as pa

        column = self._arrow.column(prompt)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type)):
            first = next((value for value in column.to_pylist() if value is not None), None)
            raise ScoresError(
                f"column '{prompt}' does not hold numbers (such as {first!r}).",
                where=str(self.path),
                remedy="write one number a row",
            )
        chunks = column.cast(pa.float64()).fill_null(float("nan")).chunks
        return np.concatenate([np.empty(0), *map(np.from_dlpack, chunks)])  # to_numpy() would import pandas


def read_table(path: Path, index: ImageIndex) -> ScoreTable:
    """Open a CSV or Parquet table and match its rows to the dataset's images, one to one. Raises ScoresError."""
    arrow = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    names: list[str] = arrow.column_names
    keyed_by = _key_columns(names, path)
    wanted = [index.path] if len(keyed_by) == 1 else [index.set_id, index.member]
    keys = _joined([np.asarray(column, dtype=np.str_) for column in wanted])
    found = _joined([np.asarray(arrow.column(name).cast("string").to_pylist(), dtype=np.str_) for name in keyed_by])
    prompts = tuple(name for name in names if name not in keyed_by)
    return ScoreTable(path, prompts, keys, _match(keys, found, keyed_by, path), arrow)


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        _unreadable(path, error)


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            header = next(csv.reader(handle), [])
        doubled = sorted({name for name in header if header.count(name) > 1})
        if doubled:
            raise ScoresError(
                f"column '{doubled[0]}' stands twice in the table.", where=str(path), remedy="keep one of the two"
            )
        # names of images stay text: "0012" is not 12
        text = dict.fromkeys(("set_id", "member", *PATH_COLUMNS), pa.string())
        return arrow_csv.read_csv(
            path,
            convert_options=arrow_csv.ConvertOptions(column_types=text),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError, csv.Error, OSError) as error:
        _unreadable(path, error)


def _unreadable(path: Path, error: Exception) -> NoReturn:
    raise ScoresError(
        f"the table cannot be read ({error}).", where=str(path), remedy="write it as UTF-8 CSV or as Parquet"
    ) from error


def _key_columns(names: Sequence[str], path: Path) -> list[str]:
    if {"set_id", "member"} <= set(names):
        return ["set_id", "member"]
    by_path = [name for name in PATH_COLUMNS if name in names]
    if not by_path:
        raise ScoresError(
            "no column says which image a row belongs to.",
            where=str(path),
            remedy=f"add `set_id` and `member`, or one of {', '.join(PATH_COLUMNS)}; found: {_some(names)}",
        )
    return by_path[:1]


def _joined(columns: list[NDArray[np.str_]]) -> NDArray[np.str_]:
    first, *rest = columns
    for column in rest:
        first = np.strings.add(np.strings.add(first, "/"), column)
    return first


def _match(keys: NDArray[np.str_], found: NDArray[np.str_], keyed_by: list[str], path: Path) -> Rows:
    """Row of the table for each image; raises ScoresError unless the two lists of names are equal as sets."""
    by = " and ".join(f"`{name}`" for name in keyed_by)
    if _doubled(keys):
        raise ScoresError(
            f"the table matches by {by}, and images of the dataset share one: {_some(_doubled(keys))}.",
            where=str(path),
            remedy="match by `set_id` and `member`",
        )
    if _doubled(found):
        raise ScoresError(
            f"images stand more than once in the table, by {by}: {_some(_doubled(found))}.",
            where=str(path),
            remedy="keep one row an image",
        )
    for left, right, problem in (
        (keys, found, "the table lacks {} of the dataset's images"),
        (found, keys, "the table scores {} images that the dataset does not have"),
    ):
        absent = sorted({str(name) for name in left} - {str(name) for name in right})
        if absent:
            raise ScoresError(
                f"{problem.format(len(absent))}, by {by}: {_some(absent)}.",
                where=str(path),
                remedy=f"score exactly the dataset's images, named as it names them (such as {_some(list(keys[:1]))})",
            )
    order = np.argsort(found)
    return np.asarray(order[np.searchsorted(found, keys, sorter=order)], dtype=np.int64)


def _doubled(names: NDArray[np.str_]) -> list[str]:
    values, counts = np.unique(names, return_counts=True)
    return [str(name) for name in values[counts > 1]]


def _some(names: Sequence[Any], total: int | None = None) -> str:
    count = len(names) if total is None else total
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    return f"{shown} and {count - _SHOWN} more" if count > _SHOWN else shown
