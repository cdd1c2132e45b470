"""Sets as a Parquet file, and back: a row per member, the set's own columns in its first row, images as PNG."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL.Image import Image

from fairgate.builds.steps import SetRows, mask_png, png
from fairgate.data import UnreadableImage, pixels_of
from fairgate.ground.errors import RecipeError
from fairgate.ground.hashing import sha256_bytes

if TYPE_CHECKING:
    import pyarrow as pa


def stored(value: Any, where: str) -> Any:
    """A value of a row in the form that is stored. Raises RecipeError for one that cannot be.

    PIL images become PNG bytes, masks (2-d arrays of booleans) 1-bit PNG, vectors float32 or int64 arrays.
    """
    if value is None or isinstance(value, str | bool | int | float | bytes):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _array(value, where)
    if isinstance(value, list | tuple):
        return [stored(each, where) for each in value]
    if isinstance(value, dict):
        return {str(key): stored(each, where) for key, each in value.items()}
    if isinstance(value, Image):
        return png(value)
    raise RecipeError(
        f"a value of type {type(value).__name__} cannot be stored.",
        where=where,
        remedy="give text, numbers, booleans, bytes, lists, PIL images or numpy vectors",
    )


def _array(value: np.ndarray[Any, Any], where: str) -> Any:
    if value.ndim == 2 and value.dtype == np.bool_:
        return mask_png(value)
    if value.ndim == 1 and value.dtype.kind in "fiu":
        return value.astype(np.float32 if value.dtype.kind == "f" else np.int64)
    raise RecipeError(
        f"an array of {value.dtype} with {value.ndim} axes cannot be stored.",
        where=where,
        remedy="give vectors of numbers, masks as 2-d arrays of booleans, and pictures as PIL images",
    )


def pixel_digest(original: Any, encoded: Any) -> str | None:
    """What a picture shows, as `fairgate.data` names it; None for what is no picture."""
    if isinstance(original, Image) and original.mode in ("L", "RGB"):
        content = hashlib.sha256(f"{original.mode} {original.width}x{original.height}\n".encode())
        content.update(original.tobytes())
        return content.hexdigest()
    if not isinstance(encoded, bytes):
        return None
    try:
        return pixels_of(encoded).sha256
    except UnreadableImage:
        return None


def content_digest(columns: dict[str, Any]) -> bytes:
    """The name of some stored columns, whatever their order."""

    def named(value: Any) -> str:
        return sha256_bytes(value.tobytes() if isinstance(value, np.ndarray) else value)

    return bytes.fromhex(sha256_bytes(json.dumps(columns, sort_keys=True, default=named).encode()))


GROUP_BYTES = 1 << 20
"""A row group is what a reader of one set must load."""
SET, ROW = "set.", "row."


@dataclass(frozen=True, slots=True)
class Encoded:
    """A Parquet file as bytes (None for no set) and the digest of its content."""

    parquet: bytes | None
    content: str


@dataclass(frozen=True, slots=True)
class StoredSet:
    """A stored set, and the pixel digest of each member's `image`, None where it has none."""

    rows: SetRows
    pixels: tuple[str | None, ...]


def encode(sets: Sequence[SetRows]) -> Encoded:
    """The sets of one shard as a file. Raises RecipeError for values that cannot be stored, or columns that differ."""
    content = hashlib.sha256()
    groups: list[list[dict[str, Any]]] = [[]]
    size = 0
    for rows in sets:
        lines = _lines(rows, content)
        more = 0
        for value in (each for line in lines for each in line.values()):
            more += value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, bytes) else 16
        if size and size + more > GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1] += lines
        size += more
    return Encoded(_file(groups) if sets else None, content.hexdigest())


def _lines(rows: SetRows, content: Any) -> list[dict[str, Any]]:
    """The rows of a table for one set; a set without members takes one."""
    where = f"set '{rows.set_id}'"
    frame = {"set_id": rows.set_id, "subject": rows.subject, "names": json.dumps(rows.names), "seed": rows.seed}
    own = {SET + name: stored(value, f"{where}, column '{name}'") for name, value in rows.columns.items()}
    content.update(content_digest({**frame, **own, "members": len(rows.rows)}))
    lines: list[dict[str, Any]] = []
    for row in rows.rows or [{}]:
        values = {ROW + name: stored(value, f"{where}, column '{name}'") for name, value in row.items()}
        pixels = pixel_digest(row.get("image"), values.get(f"{ROW}image"))
        content.update(content_digest({**values, f"{ROW}image": pixels} if pixels else values))
        of_set = dict.fromkeys(own) if lines else own
        lines.append({**frame, "members": len(rows.rows), "pixels": pixels, **of_set, **values})
    return lines


def _file(groups: list[list[dict[str, Any]]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = [line for group in groups for line in group]
    schema = pa.schema([_field(name, lines) for name in _columns(lines)])
    sink = BytesIO()
    pictures = {name for name in schema.names if pa.types.is_binary(schema.field(name).type)}
    plain = [name for name in schema.names if name not in pictures]
    compression = {name: "NONE" if name in pictures else "ZSTD" for name in schema.names}
    with pq.ParquetWriter(
        sink, schema, compression=compression, use_dictionary=plain, write_statistics=False
    ) as writer:
        for group in groups:
            writer.write_table(pa.Table.from_pylist(group, schema=schema), row_group_size=len(group))
    return sink.getvalue()


def _columns(lines: list[dict[str, Any]]) -> list[str]:
    """The columns of all rows. Raises RecipeError where two sets of one shard differ in them."""
    model = next((line for line in lines if line["members"]), lines[0])
    of_sets = {name for name in model if not name.startswith(ROW)}
    for line in lines:
        expected = set(model) if line["members"] else of_sets  # a set without members has no columns of theirs
        if odd := sorted(expected.symmetric_difference(line)):
            raise RecipeError(
                f"column '{odd[0].partition('.')[2]}' is not in every set or member.",
                where=f"sets '{model['set_id']}' and '{line['set_id']}'",
                remedy="fill a step's columns in all sets that it keeps, with None where nothing was measured",
            )
    return list(model)


def _field(name: str, lines: list[dict[str, Any]]) -> pa.Field:
    import pyarrow as pa

    values = [line[name] for line in lines if line.get(name) is not None]
    if name in ("members", "seed"):
        return pa.field(name, pa.int64())
    if values and isinstance(values[0], np.ndarray):
        kind = pa.float32() if any(value.dtype == np.float32 for value in values) else pa.int64()
        return pa.field(name, pa.list_(kind), metadata={"fairgate": "array"})
    try:
        kind = pa.array(values).type
    except (ValueError, TypeError, OverflowError) as error:
        raise RecipeError(
            f"column '{name.partition('.')[2] or name}' changes its type within a shard: {error}.",
            where=f"sets '{lines[0]['set_id']}' to '{lines[-1]['set_id']}'",
            remedy="give a column one type in all rows (1.0, not 1, where fractions follow)",
        ) from error
    return pa.field(name, kind)


def decode(table: pa.Table) -> Iterator[StoredSet]:
    """The sets of a table that `encode` wrote, in order; pictures as bytes, vectors as arrays."""
    arrays = [field.name for field in table.schema if (field.metadata or {}).get(b"fairgate") == b"array"]
    kinds = {name: table.schema.field(name).type.value_type.to_pandas_dtype() for name in arrays}
    lines = table.to_pylist()
    start = 0
    while start < len(lines):
        first = lines[start]
        stop = start + max(first["members"], 1)
        for line in lines[start:stop]:
            for name in arrays:
                if line[name] is not None:
                    line[name] = np.array(line[name], dtype=kinds[name])
        members = lines[start : start + first["members"]]
        rows = SetRows(
            set_id=first["set_id"],
            subject=first["subject"],
            names=tuple(json.loads(first["names"])),
            seed=first["seed"],
            rows=[
                {name[len(ROW) :]: value for name, value in line.items() if name.startswith(ROW)} for line in members
            ],
            columns={name[len(SET) :]: value for name, value in first.items() if name.startswith(SET)},
        )
        yield StoredSet(rows, tuple(line["pixels"] for line in members))
        start = stop
