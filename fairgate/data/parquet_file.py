"""Parquet and Arrow: files of strangers, opened and read with care; columns of their tables as numpy arrays.

Neither `to_numpy` nor `fill_null` (pandas: 0.3 s). A kilobyte of Parquet can promise a terabyte of table: what would
unpack to more than it should is not read.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import stat
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairgate.data.labels import reading
from fairgate.ground.hashing import sha256_bytes

GROUP_BYTES = 1 << 30
"""What one row group of a shard, or one column of a row group, may hold unpacked."""
PICTURES: Final = 8
"""Pictures that are unpacked at once: a dictionary of pictures may be repeated in every row."""
ROWS: Final = 1 << 14
"""Rows without pictures that are read at once."""
LONGEST_TEXT: Final = 1 << 16
"""Characters of one text of a table: a few bytes of Parquet may repeat a long one in every row."""
_PATIENCE: Final = 60
"""Seconds that Arrow gets to read a footer."""
_MOST_NAMES: Final = 100_000
_END: Final = b"PAR1"
_LONGEST_FOOTER: Final = 1 << 26
"""Bytes of a footer that are read to know it again: a longer one is tried each time."""
_sound: Final = set[str]()
"""SHA-256 of the footers that this process tried or wrote: a file is opened often."""


def arrow_file(path: Path, mode: Literal["rb", "wb"] = "rb") -> Any:
    """An open file for Arrow, which itself opens only paths that are UTF-8."""
    import pyarrow as pa

    return pa.OSFile(os.fsencode(path), mode)


def require_sound(path: Path) -> None:
    """Raise ValueError for a file over whose footer Arrow ends the process (SIGABRT) instead of raising an error.

    A footer can describe a column that cannot be. So a child process asks about every column first. OSError for a file
    that is not there.
    """
    import pyarrow.parquet  # noqa: F401 - the child imports nothing

    footer = _footer(path)
    if footer in _sound:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: the child takes no lock of theirs
        child = os.fork()
    if not child:
        _ask_about_every_column(path)
    if os.waitpid(child, 0)[1]:
        raise ValueError("its footer describes columns that cannot be: Arrow breaks down over it")
    if footer is not None:
        _sound.add(footer)


def wrote(path: Path) -> None:
    """Note that this process has written a file: no child has to try its footer."""
    if (footer := _footer(path)) is not None:
        _sound.add(footer)


def _footer(path: Path) -> str | None:
    """SHA-256 of a file's length and footer, all that `_ask_about_every_column` reads; None for one without, or with a
    very long one. OSError for a file that is not there."""
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would keep this process waiting
        return None
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _END or length > min(size - 8, _LONGEST_FOOTER):
            return None
        file.seek(size - 8 - length)
        return sha256_bytes(b"%d:" % size + file.read(length))


def _ask_about_every_column(path: Path) -> NoReturn:
    """Ends this process: by a signal where Arrow breaks down; what it raises, the parent meets too."""
    import pyarrow.parquet as pq

    code = 1
    try:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_PATIENCE)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        code = 0
        facts = pq.ParquetFile(arrow_file(path)).metadata
        for group in map(facts.row_group, range(facts.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                _ = column.path_in_schema, column.total_uncompressed_size, column.has_dictionary_page
    finally:
        os._exit(code)


def open_parquet(path: Path) -> Any:
    """An open `pyarrow.parquet.ParquetFile`, text as codes of its different texts.

    Raises ValueError for one in which a column is there twice, and as `require_sound` does; ArrowException.
    """
    import pyarrow.parquet as pq

    require_sound(path)
    schema = pq.read_schema(arrow_file(path))
    if len(set(schema.names)) < len(schema.names):
        raise ValueError("a column is there twice")
    return pq.ParquetFile(arrow_file(path), read_dictionary=[field.name for field in schema if is_text(field.type)])


def batches(parquet: Any, columns: Collection[str], size: int = ROWS, groups: Sequence[int] | None = None) -> Any:
    """Batches of at most `size` rows of some columns (`image.bytes` is one of a struct), of all row groups or of some.

    Raises ValueError for a column that unpacks to more than `GROUP_BYTES` in a row group.
    """
    for group in range(parquet.num_row_groups) if groups is None else groups:
        facts = parquet.metadata.row_group(group)
        for column in map(facts.column, range(facts.num_columns)):
            name, bytes_unpacked = column.path_in_schema, column.total_uncompressed_size
            if bytes_unpacked > GROUP_BYTES and not {name, name.partition(".")[0]}.isdisjoint(columns):
                raise ValueError(f"column '{name}' unpacks to {bytes_unpacked >> 20:,} MB: write smaller row groups")
        for batch in parquet.iter_batches(size, row_groups=[group], columns=list(columns)):
            batch.validate(full=True)
            yield batch


@contextmanager
def parquet_reading(what: str, path: Path, kind: str = "a Parquet file") -> Iterator[None]:
    """Raises DatasetError where the block cannot read `what`, a Parquet file."""
    import pyarrow as pa

    with reading(what, path, kind):
        try:
            yield
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise ValueError(str(error)) from error


def class_names(schema: Any) -> dict[str, list[str]]:
    """Names of the ids of every ClassLabel, as `datasets` writes them into a schema's metadata. Raises ValueError."""
    described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = described.get("info", {}).get("features", {}) if isinstance(described, dict) else {}
    names_by_column = dict[str, list[str]]()
    for name, feature in features.items() if isinstance(features, dict) else ():
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and name in schema.names:
            names = feature.get("names")
            if not isinstance(names, list) or not all(isinstance(text, str) for text in names):
                raise ValueError(f"column '{name}' is a ClassLabel without a list of names")
            if len(names) > _MOST_NAMES:
                raise ValueError(f"column '{name}' is a ClassLabel of {len(names):,} names")
            names_by_column[name] = names
    return names_by_column


def named(ids: Sequence[Any], names: Sequence[str], column: str) -> list[str | None]:
    """Names of class ids; None for -1 and for what is missing. Raises ValueError for an id without a name."""
    for number in ids:
        if number is not None and not (isinstance(number, int) and -1 <= number < len(names)):
            raise ValueError(f"column '{column}' holds the id {number}, and its schema names {len(names)} classes")
    return [None if number is None or number < 0 else names[number] for number in ids]


def encoded(image: object) -> bytes | None:
    """The bytes of a picture as Parquet and frames hold it, plain or as `{"bytes": ...}`; of anything else none."""
    content = image.get("bytes") if isinstance(image, dict) else image
    return content if isinstance(content, bytes) else None


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text, coded or not."""
    import pyarrow as pa

    coded = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(coded) or pa.types.is_large_string(coded))


def texts(column: Any, missing: str | None = "") -> NDArray[np.object_]:
    """A text column, coded or not, as Python strings: (rows,) dtype object. Null becomes `missing`.

    Equal texts are one string, unless most differ: a few bytes of Parquet may repeat a long one a billion times.
    """
    import pyarrow as pa

    shared: dict[str | None, str | None] = {None: missing}
    parts = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        own = coded.dictionary.to_pylist()
        if 2 * len(own) < len(coded) or coded.dictionary.null_count:
            own = list(map(shared.setdefault, own, own))
        values = np.array([*own, missing], dtype=object)
        gaps, codes = coded.indices.null_count, coded.indices
        at = [-1 if code is None else code for code in codes.to_pylist()] if gaps else np.from_dlpack(codes)
        parts.append(values[at])
    return np.concatenate(parts)


def numbers(column: Any) -> NDArray[np.float64]:
    """A column of numbers: (rows,) float64, NaN for what is missing."""
    import pyarrow as pa

    values, start = np.empty(len(column)), 0
    for chunk in column.chunks:
        own = values[start : start + len(chunk)]
        if chunk.null_count or not (pa.types.is_floating(chunk.type) or pa.types.is_integer(chunk.type)):
            own[:] = chunk.cast(pa.float64(), safe=False).to_pylist()  # which makes NaN of None
        else:
            own[:] = np.from_dlpack(chunk)
        start += len(chunk)
    return values


def batch_texts(column: Any, missing: str | None = "", longest: int | None = None) -> list[Any]:
    """A coded text column of a batch; null becomes `missing`. Raises ValueError for texts longer than `longest`.

    Equal texts are one string, and only the batch's are made: its codes are those of a whole row group.
    """
    codes = np.array([-1 if code is None else code for code in column.indices.to_pylist()])
    used, at = np.unique(codes, return_inverse=True)
    values = column.dictionary.take([code if code >= 0 else None for code in used.tolist()]).to_pylist()
    if longest is not None and (most := max((len(text or "") for text in values), default=0)) > longest:
        raise ValueError(f"a text has {most:,} characters; at most {longest:,} are read")
    return [missing if values[place] is None else values[place] for place in at.tolist()]
