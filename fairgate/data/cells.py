"""Cells of a table of labels, whatever kind of table it is: plain values, names, and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from fairgate.ground.errors import DatasetError

Fields = Mapping[str, object]
"""Column -> text, number, truth value or None."""


class TableLine(NamedTuple):
    """A row of a table: its number, its fields, and its picture where it brings one and pictures were wanted."""

    number: int
    fields: Fields
    picture: bytes | None = None
    named: str | None = None
    """What the picture is called in the table."""


def plain(value: object, column: str, place: str) -> object:
    """A cell as text, a whole number, a finite number or a truth value; None where it is missing.

    Raises DatasetError for other kinds and for infinities.
    """
    if hasattr(value, "item") and not isinstance(value, bytes):
        value = value.item()  # a number of numpy
    if isinstance(value, str) and not _is_utf8(value):
        raise DatasetError(
            f"column '{column}' holds half of a character (a surrogate), which is no text.",
            where=place,
            remedy="write the file again in UTF-8",
        )
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and not math.isinf(value):
        return None if math.isnan(value) else value
    raise DatasetError(
        f"column '{column}' holds {str(value)[:40]!r}, of type {type(value).__name__}.",
        where=place,
        remedy="write text, finite numbers or truth values (for a date, its text), or leave the column out",
    )


def _is_utf8(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def text_of(value: object) -> str:
    """A cell as a name: 34.0 is 34, since a column of whole numbers with a gap is one of fractions; None is empty.

    >>> [text_of(value) for value in ("0012", 34, 34.0, 0.5, True, None)]
    ['0012', '34', '34', '0.5', 'True', '']
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def picture_of(value: object) -> tuple[bytes | None, str | None]:
    """Bytes and path of a picture as frames and Parquet hold it: bytes, or `{"bytes": ..., "path": ...}`."""
    if isinstance(value, dict):
        data, name = value.get("bytes"), value.get("path")
        return data if isinstance(data, bytes) else None, name if isinstance(name, str) else None
    return (value, None) if isinstance(value, bytes) else (None, None)
