"""Large columns are on disk: the same numbers and texts, whose memory can be handed back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairgate.data import large_columns
from fairgate.data.large_columns import columns_on_disk, give_back, on_disk, texts_on_disk


@pytest.fixture(autouse=True)
def _all_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_columns, "LARGE", 1)


@pytest.mark.parametrize(
    "values",
    [np.arange(7), np.random.default_rng(0).normal(size=(50, 3)), np.asfortranarray(np.ones((4, 2))), np.ones(9) > 0],
    ids=["numbers", "a table", "a table by column", "truths"],
)
def test_an_array_on_disk_is_the_same_also_when_its_memory_was_handed_back(values: np.ndarray) -> None:
    there = on_disk(values)
    assert there is not values
    assert not there.flags.writeable
    for _ in range(2):
        np.testing.assert_array_equal(there, values)
        assert (there.dtype, there.flags.f_contiguous) == (values.dtype, values.flags.f_contiguous)
        give_back()


def test_small_arrays_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_columns, "LARGE", 1000)
    values = np.arange(10)
    assert on_disk(values) is values


def test_what_has_no_room_on_disk_stays_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp_path / "table.parquet")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    values, names = np.arange(10), pa.array(["a", "b"])
    assert on_disk(values) is values
    assert texts_on_disk(names) is names
    assert columns_on_disk(pq.ParquetFile(tmp_path / "table.parquet"), ["a"])["a"].to_pylist() == [1.0, 2.0]


def test_texts_on_disk_are_the_same() -> None:
    names = pa.array(["woman", "", "Ärztin", "man"])
    there = texts_on_disk(names.slice(1))
    give_back()
    assert there.to_pylist() == ["", "Ärztin", "man"]


def test_columns_of_a_parquet_file_are_read_by_row_group(tmp_path: Path) -> None:
    table = pa.table({"a": np.arange(50.0), "file": [f"{at % 9}.jpg" for at in range(50)], "b": list(range(50))})
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=20)
    parquet = pq.ParquetFile(tmp_path / "table.parquet", read_dictionary=["file"])
    read = columns_on_disk(parquet, ["file", "b"])
    give_back()
    assert read["file"].cast(pa.string()).to_pylist() == table["file"].to_pylist()
    assert read.select(["b"]).to_pydict() == table.select(["b"]).to_pydict()


def test_a_parquet_file_without_rows_has_none_on_disk(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.float64())}), tmp_path / "table.parquet")
    assert len(columns_on_disk(pq.ParquetFile(tmp_path / "table.parquet"), ["a"])) == 0


def test_a_parquet_file_that_counts_rows_without_having_any_has_none_on_disk(tmp_path: Path) -> None:
    pq.ParquetWriter(path := tmp_path / "table.parquet", pa.schema([("a", pa.float64())])).close()
    content = path.read_bytes()
    no_rows, a_million = b"\x16\x00\x19\x0c", b"\x16\x80\x89\x7a\x19\x0c"  # and no group of rows, in Thrift's terms
    assert content.count(no_rows) == 1
    footer = content[4:-8].replace(no_rows, a_million)
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    parquet = pq.ParquetFile(path)
    assert parquet.metadata.num_rows == 1_000_000
    assert len(columns_on_disk(parquet, ["a"])) == 0
