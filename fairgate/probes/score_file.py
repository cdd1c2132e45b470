"""The Parquet table that holds what probes returned: one row per probe and image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairgate.data import TextColumn, TextRows, arrow_file, arrow_texts, give_back, is_text, numbers, texts
from fairgate.ground.atomic import atomic
from fairgate.ground.errors import ScoresError
from fairgate.ground.hashing import require_regular
from fairgate.probes.answers import ProbeScores, Rows, further_numbers, text_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_PROBES = 5000
"""Most probes and words in a file of scores; a file with more is refused."""
MORE = "more."
"""Before the names of further numbers, in a file of scores."""
_FURTHER = re.compile(r"more\.[a-z0-9_]{1,40}")
_MOST_FURTHER = 64
_TEXT = ["probe", "set_id", "member", "predicted", "truth"]
_LATER = ("rank", "truth")
"""Columns that older files lack; of truths, also files in which no probe has any."""
_ROW_BYTES = 1024
_AT_ONCE = 1 << 20
"""Rows that are written at once, a row group."""


def write_scores(path: Path, rows: Rows, scores: Mapping[str, ProbeScores]) -> None:
    """Write the scores of a run: one row per probe and image, in Parquet, atomically."""
    import pyarrow.parquet as pq

    with atomic(path) as draft, arrow_file(draft, "wb") as file:
        first = next(tables := _tables(rows, scores))
        coded = [key for key in first.column_names if key not in ("set_id", "value")]  # numbers and names all differ
        how: dict[str, Any] = {"compression": "zstd", "use_dictionary": coded, "write_page_checksum": True}
        with pq.ParquetWriter(file, first.schema, write_statistics=False, **how) as writer:  # a fifth of the time
            for table in chain([first], tables):
                writer.write_table(table)
                give_back()


def _tables(rows: Rows, scores: Mapping[str, ProbeScores]) -> Iterator[Any]:
    """What is written, as tables of about `_AT_ONCE` rows."""
    import pyarrow as pa

    further = sorted({name for probe in scores.values() for name in probe.more})
    kinds = {"value": pa.float64(), "predicted": pa.string(), "correct": pa.bool_(), "rank": pa.int64()}
    if any(probe.truth is not None for probe in scores.values()):
        kinds["truth"] = pa.string()
    parts = list[Any]()
    for name, probe in scores.items():
        n, probe_name = len(probe.value), arrow_texts([name])
        for start in range(0, n, _AT_ONCE):
            some = slice(start, min(start + _AT_ONCE, n))
            columns = {
                "probe": _coded(TextColumn(probe_name, np.zeros(n, dtype=np.uint8)), some),
                "set_id": _arrow(rows.set_id, pa.string(), some),
                "member": _arrow(rows.member, pa.string(), some),
                "subject": _coded(rows.subject, some),
                **{key: _coded(groups, some) for key, groups in rows.attributes.items()},
                **{key: _arrow(getattr(probe, key), kind, some) for key, kind in kinds.items()},
                **{MORE + key: _arrow(probe.more.get(key), pa.float64(), some) for key in further},
            }
            parts.append(pa.table(columns))
            if sum(map(len, parts)) >= _AT_ONCE:
                yield pa.concat_tables(parts).unify_dictionaries()
                parts.clear()
    if parts:
        yield pa.concat_tables(parts).unify_dictionaries()


def _arrow(values: TextRows | None, kind: Any, some: slice) -> Any:
    """Some rows of a column of text, truth or numbers as Arrow lays it out; nulls if there is no column. `pa.array`
    would import pandas, which takes 0.3 s."""
    import pyarrow as pa

    if values is None:
        return pa.nulls(some.stop - some.start, kind)
    if kind == pa.string():
        return _coded(values, some).dictionary_decode()
    values = values[some]
    if kind == pa.bool_():
        buffers = [np.packbits(values.astype(bool), bitorder="little")]
    else:
        buffers = [np.ascontiguousarray(values, dtype=np.float64 if kind == pa.float64() else np.int64)]
    return pa.Array.from_buffers(kind, len(values), [None, *map(pa.py_buffer, buffers)])


def _coded(values: TextRows, some: slice) -> Any:
    """Some rows of text as Arrow codes it, every text once."""
    import pyarrow as pa

    if isinstance(values, TextColumn):
        names, codes = values.names, values.codes[some]
    else:
        different, codes = text_codes(values[some])
        names = arrow_texts(different.tolist())
    indices = pa.Array.from_buffers(pa.int32(), len(codes), [None, pa.py_buffer(codes.astype(np.int32))])
    return pa.DictionaryArray.from_arrays(indices, names)


def read_scores(path: Path, rows: Rows) -> dict[str, ProbeScores]:
    """Read scores from a file, in the order of `rows` by set_id and member.

    Raises ScoresError for a file that is unreadable, or does not hold each image exactly once per probe.
    """
    wanted = ["probe", "set_id", "member", "value", "predicted", "correct", *_LATER]
    columns = _columns(path, len(rows.set_id), wanted)
    of_probe: dict[str, list[int]] = {}
    for row, name in enumerate(columns["probe"].tolist()):
        of_probe.setdefault(name, []).append(row)
    return {
        name: _aligned(name, {key: column[places] for key, column in columns.items()}, rows, path)
        for name, places in of_probe.items()
    }


def read_set_ids(path: Path, images: int) -> frozenset[str]:
    """The ids of the sets in a file of scores of so many images. Raises ScoresError for an unreadable file."""
    return frozenset(_columns(path, images, ["set_id"])["set_id"].tolist())


def _columns(path: Path, images: int, wanted: list[str]) -> dict[str, NDArray[Any]]:
    """Columns of a file of scores, checked; without those that it may lack."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_regular(path, ScoresError)
    try:
        # not read_table, which would import pyarrow.dataset: 0.2 s
        # text stays codes of its different texts: a few bytes may repeat a long one a billion times
        columns = pq.read_schema(arrow_file(path)).names
        coded = [name for name in _TEXT if name in columns]
        file = pq.ParquetFile(arrow_file(path), page_checksum_verification=True, read_dictionary=coded)
        _require_bounded(file.metadata, images)
        names = [name for name in wanted if name not in _LATER or name in columns]
        if "value" in wanted:
            names += [name for name in columns if _FURTHER.fullmatch(name)][:_MOST_FURTHER]
        table = file.read(columns=names)
        table.validate(full=True)
        _require_kinds(table)
        return {name: _entries(table.column(name)) for name in names}
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ScoresError(
            f"the per-image scores cannot be read: {error}.",
            where=str(path),
            remedy="run the baseline again with `--fairness-report DIR`, and keep scores.parquet next to results.json",
        ) from error


def _require_bounded(facts: Any, images: int) -> None:
    """Raise ValueError for a file that unpacks to more than scores of these images can be."""
    if facts.num_rows > MAX_PROBES * images:
        raise ValueError(f"it holds {facts.num_rows:,} rows for {images:,} images")
    size = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))
    if size > (64 << 20) + _ROW_BYTES * facts.num_rows:
        raise ValueError(f"it unpacks to {size / 2**20:,.0f} MB")


def _entries(column: Any) -> NDArray[Any]:
    """A column as an array: float64, or objects with None for what is missing."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return numbers(column)
    return texts(column, None) if is_text(column.type) else np.array(column.to_pylist(), dtype=object)


def _require_kinds(table: Any) -> None:
    """Raise TypeError for a column that does not hold what `write_scores` writes: text, numbers, truth, places."""
    import pyarrow as pa

    kinds = {"value": pa.types.is_float64, "correct": pa.types.is_boolean, "rank": pa.types.is_int64}
    for column in table.schema:
        value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        wanted = pa.types.is_float64 if column.name.startswith(MORE) else pa.types.is_string
        if not kinds.get(column.name, wanted)(value_type):
            raise TypeError(f"column '{column.name}' is of type {value_type}")


def _aligned(name: str, columns: dict[str, Any], rows: Rows, path: Path) -> ProbeScores:
    back = _order_of(name, columns, rows, path)
    value = columns["value"][back]
    if not np.isfinite(value).all():
        raise ScoresError(f"probe '{name}' has scores that are not finite.", where=str(path), remedy="run it again")
    stored = {key: columns[key][back] for key in ("predicted", "correct", *_LATER) if key in columns}
    stored = {key: column for key, column in stored.items() if column[0] is not None}
    if any(entry is None for column in stored.values() for entry in column.tolist()):
        raise ScoresError(f"probe '{name}' has columns with gaps.", where=str(path), remedy="run the baseline again")
    kinds: dict[str, Any] = {"predicted": object, "correct": bool, "rank": np.int64, "truth": object}
    more = further_numbers({key.removeprefix(MORE): columns[key][back] for key in columns if key.startswith(MORE)})
    if any(np.isinf(numbers).any() for numbers in more.values()):
        raise ScoresError(f"probe '{name}' has infinite numbers.", where=str(path), remedy="run the baseline again")
    return ProbeScores(value, **{key: column.astype(kinds[key]) for key, column in stored.items()}, more=more)


def _order_of(name: str, columns: dict[str, Any], rows: Rows, path: Path) -> NDArray[np.int64]:
    """The table's row for every image, (images,). Raises ScoresError unless the two name the same images, each once."""
    if np.array_equal(columns["set_id"], rows.set_id) and np.array_equal(columns["member"], rows.member):
        return np.arange(len(columns["value"]))
    order = {key: row for row, key in enumerate(zip(rows.set_id.tolist(), rows.member.tolist(), strict=True))}
    keys = list(zip(columns["set_id"].tolist(), columns["member"].tolist(), strict=True))
    unknown = [key for key in keys if key not in order]
    if unknown or len(set(keys)) < len(keys) or len(keys) < len(order):
        example = f"set '{unknown[0][0]}'" if unknown else "an image missing or doubled"
        raise ScoresError(
            f"probe '{name}' has {len(keys):,} scores, the dataset {len(order):,} images; they differ ({example}).",
            where=str(path),
            remedy="the record belongs to other data: run the baseline again on this dataset release",
        )
    return np.argsort(np.fromiter((order[key] for key in keys), dtype=np.int64, count=len(keys)))
