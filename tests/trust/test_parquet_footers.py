"""Footers of Parquet files that would end the process inside Arrow are refused before Arrow is asked."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toy_repository import Toy
from trust_world import check, shut

from fairgate.data import CaptionFile, import_images, open_dataset
from fairgate.data.parquet_footer import LARGEST, require_sound_footer
from fairgate.ground.errors import DatasetError

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def number(value: int) -> bytes:
    """Thrift's compact protocol: a number without a sign."""
    return bytes([value & 127 | 128]) + number(value >> 7) if value > 127 else bytes([value])


def field(at: int, kind: int, content: bytes) -> bytes:
    return bytes([kind]) + number(2 * at if at >= 0 else -2 * at - 1) + content


def i32(value: int) -> bytes:
    return number(2 * value if value >= 0 else -2 * value - 1)


def of(kind: int, *items: bytes) -> bytes:
    return bytes([0xF0 | kind]) + number(len(items)) + b"".join(items)


def struct(*fields: bytes) -> bytes:
    return b"".join(fields) + b"\0"


ROOT = struct(field(4, BINARY, number(1) + b"r"), field(5, I32, i32(1)))


def leaf(kind: int = 6, how: int = 1, *more: bytes) -> bytes:
    return struct(field(1, I32, i32(kind)), field(3, I32, i32(how)), field(4, BINARY, number(1) + b"a"), *more)


def sizes(*levels: list[int], bytes_of: int | None = None) -> bytes:
    told = [field(at, LIST, of(I64, *map(i32, one))) for at, one in zip((2, 3), levels, strict=True)]
    return struct(*([] if bytes_of is None else [field(1, I64, i32(bytes_of))]), *told)


def chunk(held: bytes | None = None, *more: bytes) -> bytes:
    return struct(field(3, STRUCT, struct(*([] if held is None else [field(16, STRUCT, held)]))), *more)


def footer(elements: list[bytes], *chunks: bytes) -> bytes:
    group = struct(field(1, LIST, of(STRUCT, *chunks)))
    return struct(field(2, LIST, of(STRUCT, *elements)), field(4, LIST, of(STRUCT, group)))


def placed(path: Path, data: bytes) -> Path:
    path.write_bytes(b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1")
    return path


@pytest.mark.parametrize(
    "data",
    [
        footer([ROOT, leaf()], chunk()),
        footer([ROOT, leaf()], chunk(sizes([3], [1, 2], bytes_of=4))),
        footer([ROOT, leaf(6, 0)], chunk(sizes([3], [3]))),
        footer([ROOT, leaf(6, 2)], chunk(sizes([1, 2], [1, 2]))),
        footer([ROOT, leaf(1)], chunk(sizes([], []))),
        footer([ROOT, struct(field(3, I32, i32(2)), field(5, I32, i32(1))), leaf()], chunk(sizes([1, 1], [1, 1, 1]))),
        struct(field(2, LIST, of(STRUCT, ROOT, leaf())), field(99, 11, number(1) + bytes([0x85]) + b"\1x" + i32(1))),
    ],
)
def test_a_footer_whose_columns_are_its_schema_s_is_sound(tmp_path: Path, data: bytes) -> None:
    require_sound_footer(placed(tmp_path / "f.parquet", data))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (footer([ROOT, leaf()], chunk(sizes([3], [1, 2, 3]))), "other levels"),
        (footer([ROOT, leaf()], chunk(sizes([3, 3], [1, 2]))), "other levels"),
        (footer([ROOT, leaf(1)], chunk(sizes([3], [1, 2], bytes_of=4))), "other levels"),
        (footer([ROOT, leaf()], chunk(), chunk()), "has 2 columns, and the schema 1"),
        (footer([ROOT, leaf()]), "has 0 columns"),
        (footer([ROOT, leaf()], chunk(None, field(8, STRUCT, struct()))), "encrypted"),
        (footer([ROOT, leaf()], struct()), "encrypted, or in another file"),
        (footer([ROOT]), "fewer columns"),
        (footer([ROOT, leaf(), leaf()], chunk()), "more columns"),
        (footer([ROOT, leaf(6, 3)], chunk()), "not one"),
        (struct(), "no schema"),
        (footer([ROOT, leaf(6, 1, field(3, I32, i32(0)))], chunk()), "a field twice"),
        (footer([ROOT, struct(field(1, I64, i32(6)))], chunk()), "another kind"),
        (struct(field(2, LIST, of(BINARY, b"\0", b"\0"))), "list of another kind"),
        (footer([ROOT, leaf(1 << 32)], chunk()), "too large"),
        (struct(field(70_000, I32, i32(0))), "of no number"),
        (struct(field(9, LIST, bytes([0xF5]) + number(1 << 40))), "of no length"),
        (struct(field(9, 11, number(1 << 40))), "map of no length"),
        (struct(field(9, 14, b"")), "of no kind"),
        (struct(field(9, BINARY, number(1 << 40))), "ends early"),
        (field(9, I32, b"\xff" * 11), "does not end"),
        (field(9, STRUCT, b"") * 40, "too deeply"),
        (bytes([0x99]) + bytes([0x19]) * 5_000 + b"\0", "too deeply"),
        (bytes([0x9B]) + bytes([1, 0xBB]) * 5_000 + b"\0", "too deeply"),
        (footer([ROOT, leaf()], chunk())[:-3], "ends early"),
    ],
)
def test_a_footer_of_columns_that_cannot_be_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        require_sound_footer(placed(tmp_path / "f.parquet", data))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"PAR1", "too short"),
        (b"PAR1" + bytes(20), "does not end"),
        (b"PAR1" + bytes(8) + (9).to_bytes(4, "little") + b"PAR1", "would have 9 bytes"),
        (b"PAR1" + bytes(20) + (LARGEST + 1).to_bytes(4, "little") + b"PAR1", "would have 16,777,217 bytes"),
    ],
)
def test_a_file_without_a_footer_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    (tmp_path / "f.parquet").write_bytes(data)
    with pytest.raises(ValueError, match=problem):
        require_sound_footer(tmp_path / "f.parquet")


@pytest.mark.parametrize("options", [{}, {"version": "1.0"}, {"row_group_size": 1}, {"write_page_index": True}])
def test_footers_that_arrow_writes_are_sound(tmp_path: Path, options: dict[str, Any]) -> None:
    columns = {"image": [{"bytes": b"x", "path": None}, None], "lists": [[[1]], None], "flag": [True, None]}
    columns |= {"time": pa.array([1, 2], pa.timestamp("us", "UTC")), "code": pa.array(["a", "b"]).dictionary_encode()}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet", **options)
    require_sound_footer(tmp_path / "f.parquet")


def forged(table: pa.Table, name: str) -> bytes:
    """A file whose schema calls a column required, and whose statistics are of one that may be missing.

    pyarrow 25: `row_group(0).column(0)` of it ends the process with "Definition level histogram size mismatch".
    """
    held = io.BytesIO()
    pq.write_table(table, held)
    optional = b"\x25\x02\x18" + bytes([len(name)]) + name.encode()  # field 3, 1; field 4, the name
    assert held.getvalue().count(optional) == 1
    return held.getvalue().replace(optional, b"\x25\x00" + optional[2:])


def shard(toy: Toy, table: pa.Table) -> None:
    (path,) = (toy.root / "datasets/toy/v1").glob("*.parquet")
    path.write_bytes(forged(pq.read_table(path), "set_id"))
    open_dataset("toy", toy.root / "datasets").index.codes("gender")


def labels(toy: Toy, table: pa.Table) -> None:
    (toy.root / "l.parquet").write_bytes(forged(table, "gender"))
    import_images(toy.root / "l.parquet", None, "l", attributes=["gender"], subject="person", root=toy.root / "out")


def captions(toy: Toy, table: pa.Table) -> None:
    (toy.root / "c.parquet").write_bytes(forged(table, "gender"))
    list(CaptionFile(toy.root / "c.parquet", "gender"))


@pytest.mark.parametrize("use", [shard, labels, captions])
def test_a_forged_file_is_an_error_that_names_it(toy: Toy, use: Callable[[Toy, pa.Table], None]) -> None:
    with pytest.raises(DatasetError, match="statistics of other levels") as caught:
        use(toy, pa.table({"file": ["1.png"], "gender": ["m"]}))
    assert ".parquet" in str(caught.value.where)


def test_a_forged_table_of_scores_ends_the_gate_without_a_verdict(toy: Toy) -> None:
    table = pa.table({"file": ["1.png"], "score": [0.5]})
    (toy.root / "t.parquet").write_bytes(forged(table, "file"))
    assert "statistics of other levels" in shut(toy, check(toy, "--model", "scores:t.parquet?values=logit"))
