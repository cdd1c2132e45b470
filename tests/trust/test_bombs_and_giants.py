"""Small files that unpack to gigabytes, and values of a size that no honest file has, are refused before they hurt."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import resource
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toy_repository import PROMPTS, SUITE, Toy
from trust_world import check, parts_of, png_of, refused, shut

from fairgate.data import open_dataset, write_dataset
from fairgate.data.labels import read_labels
from fairgate.ground import pixels
from fairgate.ground.errors import BaselineError, DatasetError
from fairgate.models.decoding import decode_rgb
from fairgate.reports import read_results
from fairgate.reports.run_page import album


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """A refusal costs less than a gigabyte and half a minute, on a machine that is busy with other things."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20
    assert time.monotonic() - started < 120


def repeated(text: str, rows: int) -> pa.Array:
    """One text in every row, as a code: a few bytes of Parquet."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array([text]))


def write(path: Path, columns: dict[str, pa.Array]) -> Path:
    pq.write_table(pa.table(columns), path, compression="zstd")
    assert path.stat().st_size < 1 << 20
    return path


def test_a_score_table_of_millions_of_rows_in_a_kilobyte_is_refused(toy: Toy) -> None:
    rows = 20_000_000
    zeros = pa.array(np.zeros(rows))
    write(toy.root / "t.parquet", {"file": repeated("a.png", rows), **dict.fromkeys(PROMPTS[:1], zeros)})
    assert "the table has 20,000,000 rows" in shut(toy, check(toy, "--model", "scores:t.parquet?values=logit"))


def test_a_name_of_a_megabyte_in_every_row_is_refused(toy: Toy) -> None:
    write(toy.root / "t.parquet", {"file": repeated("x" * (1 << 20), 3000)})
    reason = shut(toy, check(toy, "--model", "scores:t.parquet?values=logit"))
    assert "names an image with more than 4,096 bytes" in reason


def test_a_column_that_unpacks_to_hundreds_of_megabytes_is_refused(toy: Toy) -> None:
    note = pa.array(["x" * (60 << 20), "y" * (60 << 20)])
    pq.write_table(
        pa.table({"file": ["a", "b"], "note": note}), toy.root / "t.parquet", use_dictionary=False, compression="zstd"
    )
    assert "column 'note' unpacks to" in shut(toy, check(toy, "--model", "scores:t.parquet?values=logit"))


def test_a_table_of_a_million_columns_is_refused(toy: Toy) -> None:
    (toy.root / "t.csv").write_text("file," + ",".join(f"c{number}" for number in range(200_000)) + "\n")
    assert "has 200,001 columns" in shut(toy, check(toy, "--model", "scores:t.csv?values=logit"))


def test_kept_scores_of_millions_of_rows_are_refused(toy: Toy) -> None:
    check(toy, "--baseline", "none")
    (toy.root / "out").rename(toy.root / "base")
    rows = 20_000_000
    text = {name: repeated("x", rows) for name in ("probe", "set_id", "member", "predicted")}
    truth = pa.array(np.ones(rows, dtype=bool))
    write(toy.root / "base" / "scores.parquet", {**text, "value": pa.array(np.zeros(rows)), "correct": truth})
    reason = shut(toy, check(toy, "--model", "scores:base.csv?values=logit", "--baseline", "file:base"))
    assert "it holds 20,000,000 rows for 320 images" in reason


def forge_shard(toy: Toy, table: pa.Table, rows: int) -> None:
    """Put a shard into the release whose manifest vouches for it."""
    folder = toy.root / "datasets/toy/v1"
    (path,) = folder.glob("*.parquet")
    pq.write_table(table, path, compression="zstd", store_schema=False)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"][0] |= {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bytes": path.stat().st_size,
        "rows": rows,
    }
    manifest["n_rows"] = rows
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_shard_of_millions_of_rows_in_a_kilobyte_is_refused(toy: Toy) -> None:
    rows = 20_000_000
    forge_shard(toy, pa.table({"set_id": repeated("x", rows)}), 200_000_000)
    assert "a dataset has at most 100,000,000 images" in refused(check(toy))
    forge_shard(toy, pa.table({"set_id": repeated("x", rows)}), 320)
    assert "it promises 20,000,000 rows" in refused(check(toy))


def test_a_caption_of_a_megabyte_in_every_row_costs_a_megabyte(toy: Toy) -> None:
    dataset = open_dataset("toy", toy.root / "datasets")
    table = dataset.parquet(dataset.manifest.shards[0]).read()
    place = table.column_names.index("caption")
    forge_shard(toy, table.set_column(place, "caption", repeated("x" * (4 << 20), len(table))), len(table))
    dataset = open_dataset("toy", toy.root / "datasets")
    assert len(set(map(id, dataset.index.caption))) == 1
    assert any("repeats a text of 4,194,304 characters" in problem.what for problem in dataset.verify())


def test_captions_that_unpack_to_more_than_a_row_group_holds_are_refused_before(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairgate.data.shard_reader.GROUP_BYTES", 4 << 20)  # of a gigabyte
    dataset = open_dataset("toy", toy.root / "datasets")
    table = dataset.parquet(dataset.manifest.shards[0]).read()
    long = pa.array([f"{row}".ljust(1 << 16) for row in range(len(table))])
    forge_shard(toy, table.set_column(table.column_names.index("caption"), "caption", long), len(table))
    with pytest.raises(DatasetError, match="column 'caption' of row group 0 unpacks to"):
        assert open_dataset("toy", toy.root / "datasets").index


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"a" * (1 << 26), 1), (b"image,job\n" + b"a," * (1 << 25), 2), (b"image,job\n" + b'"a\n",' * (1 << 23), 2)],
    ids=["a field", "fields", "fields over many lines"],
)
def test_a_list_of_labels_with_a_row_of_megabytes_is_refused_before_it_is_unpacked(
    tmp_path: Path, content: bytes, line: int
) -> None:
    path = tmp_path / "labels.csv.gz"
    path.write_bytes(gzip.compress(content, 1))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError, match=f"the row at line {line} has more than 1,048,576 characters"):
            read_labels(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 26


def test_one_picture_in_every_row_by_a_code_is_refused(toy: Toy) -> None:
    dataset = open_dataset("toy", toy.root / "datasets")
    table = dataset.parquet(dataset.manifest.shards[0]).read()
    coded = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(table), dtype=np.int32)), pa.array([bytes(8 << 20)]))
    image = pa.StructArray.from_arrays([coded, pa.nulls(len(table), pa.string())], ["bytes", "path"])
    forge_shard(toy, table.set_column(0, "image", image), len(table))
    dataset = open_dataset("toy", toy.root / "datasets")
    with pytest.raises(DatasetError, match="unpacks to"):
        next(dataset.image_batches(2))


def picture_row(data: bytes) -> dict[str, object]:
    return {"image": data, "path": "a.png", "set_id": "1", "member": "a", "subject": "chef", "caption": "", "hue": "x"}


@pytest.mark.parametrize("size", [(30_000, 30_000), (12_000, 8_000), (1_000_000, 70)])
def test_a_picture_of_a_kilobyte_and_a_billion_pixels_is_refused(tmp_path: Path, size: tuple[int, int]) -> None:
    data = (
        png_of(*size)
        if max(size) < 10**6
        else png_of(9000, 1000).replace((9000).to_bytes(4, "big"), size[0].to_bytes(4, "big"))
    )
    with pytest.raises(DatasetError) as caught:
        write_dataset(
            tmp_path / "d",
            [picture_row(data)],
            name="d",
            version="v1",
            attributes={"hue": ["x"]},
            recipe={},
            licence="x",
            counterfactual=False,
        )
    assert "the image cannot be read" in parts_of(caught.value)


def test_a_report_hands_no_such_picture_to_a_browser() -> None:
    bomb, good = png_of(30_000, 30_000), png_of(3, 3)
    shown = album({"s": [("a", bomb), ("b", good)]}, ["s"], 10**6)
    assert ("s", "a") in shown.unreadable
    assert ("s", "b") in shown.uris


def test_what_is_verified_and_what_a_model_is_shown_is_bounded_alike() -> None:
    index = SimpleNamespace(set_id=["s"], member=["a"], path=[""])
    with pytest.raises(DatasetError, match="cannot be decoded"):
        decode_rgb(png_of(30_000, 30_000), SimpleNamespace(index=index, folder=Path()), 0)


def test_a_format_that_runs_other_programs_is_not_read(tmp_path: Path) -> None:
    postscript = (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(%pipe%touch pwned) (r) file\n%%EOF\n"
    )
    with pytest.raises(pixels.UnreadableImage):
        pixels.pixels_of(postscript)


@pytest.mark.parametrize(
    "text",
    [
        '{"schema_version": 1, "x": ' + "9" * 5000 + "}",
        '{"schema_version": 1, "seconds": ' + "1" * 400 + "}",
        '{"schema_version": 1, "seconds": NaN}',
        '{"schema_version": 1, "seconds": -Infinity}',
        '{"schema_version": 1, "seconds": 1e999}',
        '{"schema_version": 1, "x": 1, "x": 2}',
        "[" * 200_000,
        '{"a":' * 50_000,
        '"\\ud800"',
        "\ufeff{}",
        "\0",
        "",
        "null",
    ],
)
def test_json_beyond_reason_is_no_record_and_no_manifest(toy: Toy, tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BaselineError) as caught:
        read_results(path)
    parts_of(caught.value)
    (toy.root / "datasets/toy/v1/manifest.json").write_text(text, encoding="utf-8")
    refused(check(toy))


def test_a_record_and_a_manifest_of_a_hundred_megabytes_are_not_read(toy: Toy, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with path.open("wb") as handle:
        handle.truncate(100 << 20)
    with pytest.raises(BaselineError, match="cannot be read: it has more than 50 MB"):
        read_results(path)
    manifest = toy.root / "datasets/toy/v1/manifest.json"
    manifest.write_bytes(b" " * (70 << 20))
    assert "cannot be read: it has more than 64 MB." in refused(check(toy))


@pytest.mark.parametrize("change", [{"shards": []}, {"n_rows": 10**30}, {"subjects": [None]}, {"name": 1}])
def test_a_manifest_that_says_what_no_release_says_is_refused(toy: Toy, change: dict[str, object]) -> None:
    path = toy.root / "datasets/toy/v1/manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert "manifest is not valid" in refused(check(toy))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &a [x]\nb: [*a, *a]", "aliases"),
        ("a: &a {x: 1}\nb: {<<: *a}", "aliases"),
        ("suite: !!python/object/apply:os.system ['touch pwned']", "tags"),
        ("!!set {a: 1}", "tags"),
        ("suite: !<tag:yaml.org,2002:python/name:os.system> x", "tags"),
        ("[" * 100_000, "nested too deeply"),
        ("{a: " * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ("? " * 100_000, "nested too deeply"),
        ("a: 1" + ":1" * 200_000, "at most 2,000"),
        ("a: " + "9" * 100_000, "at most 2,000"),
        ("a: '" + "x" * 100_000 + "'", "at most 2,000"),
        ("a:\n" + "- 1\n" * 100_000, "more than 20,000 values"),
        ("x: 1\n" * 3, "is given twice"),
        ('a: "\\UFFFFFFFF"', "names no character"),
        ("a: \0", "not valid YAML"),
        ("a: 1\n---\nb: 2", "not valid YAML"),
        ("a: 2001-99-99", "not plain data"),
    ],
)
def test_yaml_that_unfolds_runs_or_never_ends_is_refused(toy: Toy, text: str, problem: str) -> None:
    toy.write_suite(text)
    output = refused(check(toy))
    assert problem in output
    assert len(output) < 1000
    assert not (toy.root / "pwned").exists()


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-32"])
def test_a_suite_in_another_encoding_is_refused_and_a_mark_before_it_is_not(toy: Toy, encoding: str) -> None:
    toy.suite.write_bytes(SUITE.replace("line cook", "kök").encode(encoding))
    assert "not UTF-8" in refused(check(toy))
    toy.suite.write_bytes(b"\xef\xbb\xbf" + SUITE.encode())
    assert check(toy).exit_code == 0


def test_a_parquet_file_that_pickles_its_types_is_not_unpickled(toy: Toy) -> None:
    table = pa.table({"file": ["a"], "x": [1.0]})
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": b"cos\nmkdir\n(S'pwned'\ntR.",
    }
    schema = pa.schema([table.schema.field(0), table.schema.field(1).with_metadata(metadata)])
    held = io.BytesIO()
    pq.write_table(table.cast(schema), held)
    (toy.root / "t.parquet").write_bytes(held.getvalue())
    shut(toy, check(toy, "--model", "scores:t.parquet?values=logit"))
    assert not Path("pwned").exists()
