"""Parquet that unpacks to more than it should: a kilobyte of file can promise a terabyte of table."""

from __future__ import annotations

from typing import Any

GROUP_BYTES = 1 << 30
"""What one row group of a shard may hold unpacked; the writer closes one at 4 MiB, a single large set may exceed it."""


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text, coded or not."""
    import pyarrow as pa

    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(held) or pa.types.is_large_string(held))


def require_bounded(parquet: Any, group: int) -> None:
    """Raise ValueError for a row group that says it unpacks to more than `GROUP_BYTES`.

    A dictionary-encoded column may repeat its whole dictionary in every row. Text is read as codes, and `plain_text`
    checks it against the bound.
    """
    facts = parquet.metadata.row_group(group)
    for number in range(facts.num_columns):
        column = facts.column(number)
        nested = "." in column.path_in_schema
        size = column.total_uncompressed_size * (facts.num_rows if nested and column.has_dictionary_page else 1)
        if size > GROUP_BYTES:
            raise ValueError(f"column '{column.path_in_schema}' of row group {group} unpacks to {size >> 20:,} MB")


def plain_text(table: Any) -> Any:
    """A table with its coded text written out. Raises ValueError where that would exceed `GROUP_BYTES`."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(number)
            longest = max(
                (len(text or "") for chunk in column.chunks for text in chunk.dictionary.to_pylist()), default=0
            )
            if longest * len(table) > GROUP_BYTES:
                raise ValueError(
                    f"column '{field.name}' repeats a text of {longest:,} characters in {len(table):,} rows"
                )
            table = table.set_column(number, field.name, column.cast(field.type.value_type))
    return table
