"""A footer of Parquet that ends the process inside Arrow ends a child process: what asked is told, and goes on."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from imported_photographs import import_images
from toy_repository import Toy
from trust_world import check, shut

from fairgate.data import CaptionFile, open_dataset, parquet_file
from fairgate.data.parquet_file import require_sound, wrote
from fairgate.ground.errors import DatasetError


@pytest.mark.parametrize("options", [{}, {"version": "1.0"}, {"row_group_size": 1}, {"write_page_index": True}])
def test_footers_that_arrow_writes_are_sound(tmp_path: Path, options: dict[str, Any]) -> None:
    columns = {"image": [{"bytes": b"x", "path": None}, None], "lists": [[[1]], None], "flag": [True, None]}
    columns |= {"time": pa.array([1, 2], pa.timestamp("us", "UTC")), "code": pa.array(["a", "b"]).dictionary_encode()}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet", **options)
    require_sound(tmp_path / "f.parquet")


def forged(table: pa.Table, name: str) -> bytes:
    """A file whose schema calls a column required, and whose statistics are of one that may be missing.

    pyarrow 25: `row_group(0).column(0)` of it ends the process with "Definition level histogram size mismatch".
    """
    held = io.BytesIO()
    pq.write_table(table, held)
    optional = b"\x25\x02\x18" + bytes([len(name)]) + name.encode()  # field 3, 1; field 4, the name
    assert held.getvalue().count(optional) == 1
    return held.getvalue().replace(optional, b"\x25\x00" + optional[2:])


def test_a_child_asks_once_and_a_file_of_other_content_is_asked_again(tmp_path: Path) -> None:
    path, children = tmp_path / "f.parquet", list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fork", lambda fork=os.fork: children.append(fork()) or children[-1])
        pq.write_table(pa.table({"a": ["x"]}), path)
        require_sound(path)
        require_sound(path)
        assert len(children) == 1
        path.write_bytes(forged(pa.table({"a": ["x"]}), "a"))
        for _ in range(2):
            with pytest.raises(ValueError, match="Arrow breaks down over it"):
                require_sound(path)
    assert len(children) == 3


def test_a_file_that_this_process_wrote_is_asked_by_no_child_until_its_footer_is_another(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": ["own"]}), path)
    wrote(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(os, "fork")
        require_sound(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_file, "_LONGEST_FOOTER", 8)
        patch.delattr(os, "fork")
        with pytest.raises(AttributeError, match="fork"):  # too long to be known again
            require_sound(path)
    path.write_bytes(forged(pa.table({"a": ["own"]}), "a"))
    with pytest.raises(ValueError, match="Arrow breaks down over it"):
        require_sound(path)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(20), b"PAR1" + b"\x19" * 5_000 + b"\x88\x13\0\0PAR1"])
def test_what_is_no_parquet_is_an_error_of_arrow(toy: Toy, data: bytes) -> None:
    (toy.root / "l.parquet").write_bytes(data)
    with pytest.raises(DatasetError, match="cannot be read"):
        import_images(toy.root / "l.parquet", None, "l", attributes=["gender"], subject="person", root=toy.root / "out")


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
    with pytest.raises(DatasetError, match="Arrow breaks down") as caught:
        use(toy, pa.table({"file": ["1.png"], "gender": ["m"]}))
    assert ".parquet" in str(caught.value.where)


def test_a_forged_table_of_scores_ends_the_gate_without_a_verdict(toy: Toy) -> None:
    table = pa.table({"file": ["1.png"], "score": [0.5]})
    (toy.root / "t.parquet").write_bytes(forged(table, "file"))
    assert "Arrow breaks down" in shut(toy, check(toy, "--model", "scores:t.parquet?values=logit"))
