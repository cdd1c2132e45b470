"""Large columns in files without a name: memory that the system takes back when it needs it, and reads again.

Millions of images have a few numbers each for every probe and run, and a check reads some of them at a time. The files
are in `TMPDIR`, or else in `/var/tmp`, which unlike `/tmp` is never in memory. If there is no room, memory it is.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE = 16 << 20
"""Bytes from which on columns are on disk: of two million numbers."""

_FOLDER = "/var/tmp"  # noqa: S108 - the file has no name that anybody could know

_mapped = weakref.WeakSet[mmap.mmap]()


def on_disk(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers (any shape), read-only and on disk if they are many. Read-only ones are there, or somebody's."""
    if values.nbytes < LARGE or not values.flags.writeable:
        return values
    by_column = values.flags.f_contiguous
    rows = values.T if by_column else np.ascontiguousarray(values)
    if (mapped := _file(rows.tofile)) is None:
        return values
    read = np.frombuffer(mapped, dtype=values.dtype).reshape(rows.shape)
    return read.T if by_column else read


def texts_on_disk(texts: Any) -> Any:
    """The same Arrow array of strings, on disk if they are many."""
    import pyarrow as pa

    if texts.nbytes < LARGE:
        return texts
    table = pa.table([texts], ["texts"])
    mapped = _file(partial(_write_tables, [table]))
    return texts if mapped is None else _tables_of(mapped)["texts"].chunk(0)


def columns_on_disk(parquet: Any, columns: list[str]) -> Any:
    """The Arrow table of some columns of an open Parquet file, found valid; on disk if it is large."""
    groups = map(partial(_row_group, parquet, columns), range(parquet.num_row_groups))
    size = np.dtype(np.float64).itemsize * len(columns) * parquet.metadata.num_rows
    small = size < LARGE or not parquet.num_row_groups  # a stranger's file may count rows that it has not
    if small or (mapped := _file(partial(_write_tables, groups))) is None:
        return read_columns(parquet, columns)
    return _tables_of(mapped)


def read_columns(parquet: Any, columns: list[str]) -> Any:
    """The Arrow table of some columns of an open Parquet file, found valid.

    By one thread: several take four times its time, which the system spends on their memory.
    """
    return _valid(parquet.read(columns, use_threads=False))


def _row_group(parquet: Any, columns: list[str], group: int) -> Any:
    give_back()  # of the group before
    return _valid(parquet.read_row_group(group, columns, use_threads=False))


def _valid(table: Any) -> Any:
    """A table, whose damaged pages can hold codes of texts that there are not. Raises ArrowInvalid."""
    table.validate(full=True)
    return table


def _write_tables(tables: Iterable[Any], file: Any) -> None:
    import pyarrow as pa

    first = next(rest := iter(tables))
    with pa.ipc.new_stream(file, first.schema) as writer:
        for table in chain([first], rest):
            writer.write_table(table)


def _tables_of(mapped: mmap.mmap) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()


def give_back() -> None:
    """Hand back the memory of all that is on disk, which is read from there again, and what Arrow holds without use."""
    for mapped in list(_mapped):
        mapped.madvise(mmap.MADV_DONTNEED)
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()


def _file(write: Callable[[Any], object]) -> mmap.mmap | None:
    """What is written into a file, mapped; None if the disk has no room for it."""
    with suppress(OSError), tempfile.TemporaryFile(dir=os.environ.get("TMPDIR", _FOLDER)) as file:
        write(file)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        _mapped.add(mapped)
        return mapped
    return None
