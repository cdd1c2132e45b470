"""A release and its export: what other tools read is what was released, and an import of it is the same content."""

from __future__ import annotations

import csv
import gc
import io
import json
import tarfile
from itertools import chain

import datasets
import pandas as pd
import pytest
from imported_photographs import import_images

from fairgate.data import export_dataset, open_dataset
from fairgate.ground.errors import DatasetError

SETS = {"set_column": "set_id", "member_column": "member", "subject_column": "subject"}
TONES = {"tone": ["light", "dark"], "gender": ["man", "woman"]}


@pytest.fixture
def people(root):
    """people@v1: 6 sets of 4 members in 3 shards."""
    return open_dataset("people", root)


@pytest.fixture
def back(tmp_path):
    """Imports a table with the columns of a release as a release of its own."""

    def back(labels, **options):
        said = {"attributes": TONES, "root": tmp_path / "again"} | SETS
        manifest = import_images(labels, None, "people", **(said | options))
        assert open_dataset("people", tmp_path / "again").verify() == []
        return manifest

    return back


@pytest.fixture
def archive(tmp_path):
    """Writes an archive of (name or header, content) and returns its path."""

    def archive(*members, name="train-0.tar"):
        path = tmp_path / name
        with tarfile.open(path, "w:") as held:
            for named, content in members:
                header = named if isinstance(named, tarfile.TarInfo) else tarfile.TarInfo(named)
                header.size = len(content)
                held.addfile(header, io.BytesIO(content))
        return path

    return archive


@pytest.fixture
def loaded(monkeypatch, tmp_path):
    """What Hugging Face's datasets make of a folder, nothing but its path given."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")

    def loaded(folder, split="test"):
        return datasets.load_dataset(str(folder), split=split)

    return loaded


def test_a_release_that_is_imported_again_has_the_same_fingerprint(people, back):
    assert back(people.folder).fingerprint == people.fingerprint


def test_an_export_to_csv_that_is_imported_again_has_the_same_pixels_and_labels(people, back, rows, write, tmp_path):
    write(tmp_path / "text", rows=({**row, "seed": "0012", "sharpness": 'a;b,"c"\nd'} for row in rows()))
    from fairgate.data import read_dataset

    texts = read_dataset(tmp_path / "text")
    export_dataset(texts, f"csv:{tmp_path / 'out'}")
    assert back(tmp_path / "out").fingerprint == texts.fingerprint
    export_dataset(people, f"csv:{tmp_path / 'numbers'}")
    again = back(tmp_path / "numbers", version="v2")
    assert again.counts == people.manifest.counts


def test_datasets_load_the_parquet_as_it_was_released(people, loaded):
    found = loaded(people.folder)
    assert found["tone"] == people.index.attributes["tone"].tolist()
    assert found["seed"][4] == 1
    assert found[5]["image"].getpixel((0, 0)) == (1, 1, 7)
    frame = pd.read_parquet(people.folder / people.manifest.shards[0].file)
    assert frame["sharpness"].tolist() == [row // 4 * 0.5 for row in range(len(frame))]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # datasets leaves metadata.csv open
def test_datasets_and_pandas_load_the_folder_of_pictures(people, loaded, tmp_path):
    export_dataset(people, f"csv:{tmp_path / 'out'}")
    found = loaded(tmp_path / "out")
    assert found["set_id"] == people.index.set_id.tolist()
    assert found[5]["image"].getpixel((0, 0)) == (1, 1, 7)
    gc.collect()
    frame = pd.read_csv(tmp_path / "out" / "test" / "metadata.csv")
    assert frame["file_name"].tolist() == people.index.path.tolist()
    assert frame["tone"].tolist() == people.index.attributes["tone"].tolist()


def test_what_datasets_save_is_imported(loaded, people, back, tmp_path):
    saved = tmp_path / "saved"
    saved.mkdir()
    found = loaded(people.folder).cast_column("tone", datasets.ClassLabel(names=["dark", "light"]))
    half = len(found) // 2
    found.select(range(half)).to_parquet(str(saved / "train-00000-of-00002.parquet"))
    found.select(range(half, len(found))).to_parquet(str(saved / "train-00001-of-00002.parquet"))
    assert back(saved).fingerprint == people.fingerprint
    assert back(saved / "train-*.parquet", version="v2").fingerprint == people.fingerprint
    (saved / "train-00001-of-00002.parquet").rename(saved / "validation-00000-of-00001.parquet")
    with pytest.raises(DatasetError, match="holds 2 tables: train, validation"):
        back(saved, version="v3")


def test_a_frame_of_the_release_is_imported_unchanged(people, back):
    frame = pd.concat([pd.read_parquet(people.folder / shard.file) for shard in people.manifest.shards])
    assert back(frame).fingerprint == people.fingerprint


def test_archives_of_a_release_s_rows_are_read_as_one_table_with_the_same_content(people, archive, back):
    shards = [pd.read_parquet(people.folder / shard.file) for shard in people.manifest.shards]
    frame = pd.concat(shards, ignore_index=True)
    for place, (_, rows) in enumerate(frame.groupby("set_id", sort=False)):
        samples = [(number, row.pop("image")["bytes"], row) for number, row in rows.to_dict("index").items()]
        files = [[(f"{n}.png", picture), (f"{n}.json", json.dumps(row).encode())] for n, picture, row in samples]
        archive(*chain.from_iterable(files), name=f"test-{place:05d}.tar")
    again = back(people.folder.parents[2] / "test-*.tar")
    assert again.fingerprint == people.fingerprint
    assert list(again.lineage) == [f"labels/test-{number:05d}.tar" for number in range(6)]


@pytest.mark.parametrize("paths", ["unsafe", "doubled", "folder", "kind"])
def test_pictures_whose_paths_are_no_safe_names_are_files_by_their_row(write, rows, back, tmp_path, paths):
    def named(row, number):
        return {
            "unsafe": f"../../{number}.png",
            "doubled": ["A.png", "a.png"][number % 2],
            "folder": ["a.png", "a.png/b.png"][number % 2] if number < 2 else f"{number}.png",
            "kind": f"{number}.sh",
        }[paths]

    write(rows=({**row, "path": named(row, number)} for number, row in enumerate(rows())))
    export_dataset(open_dataset("people", tmp_path / "datasets"), f"csv:{tmp_path / 'out'}")
    names = sorted(path.name for path in (tmp_path / "out" / "test").iterdir())
    assert names == [*(f"{number:08d}.png" for number in range(1, 25)), "metadata.csv"]
    back(tmp_path / "out")
    assert (
        open_dataset("people", tmp_path / "again").index.path.tolist()
        == open_dataset("people", tmp_path / "datasets").index.path.tolist()
    )


@pytest.mark.parametrize("target", ["csv", "csv:", "hf:out", "webdataset:out", "out", "s3://bucket"])
def test_a_place_that_is_none_is_refused(people, target):
    with pytest.raises(DatasetError, match="no place to export to"):
        export_dataset(people, target)


def test_an_export_never_writes_over_a_folder(people, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(DatasetError, match="never written over"):
        export_dataset(people, f"csv:{tmp_path / 'out'}")


def test_a_column_that_csv_cannot_hold_is_named_and_nothing_is_left(write, rows, tmp_path):
    write(rows=({**row, "blob": b"x"} for row in rows()))
    with pytest.raises(DatasetError, match="'blob' holds what CSV cannot"):
        export_dataset(open_dataset("people", tmp_path / "datasets"), f"csv:{tmp_path / 'out'}")
    assert not list(tmp_path.glob("*out*"))


def test_labels_without_pictures_go_to_a_table_alone(write, rows, tmp_path):
    write(rows=rows(images=False))
    dataset = open_dataset("people", tmp_path / "datasets")
    export_dataset(dataset, f"csv:{tmp_path / 'table'}")
    assert [path.name for path in (tmp_path / "table" / "test").iterdir()] == ["metadata.csv"]
    with (tmp_path / "table" / "test" / "metadata.csv").open(newline="", encoding="utf-8") as handle:
        told = list(csv.DictReader(handle))
    assert [row["set_id"] for row in told] == dataset.index.set_id.tolist()
    assert [row["member"] for row in told] == dataset.index.member.tolist()
    assert "file_name" not in told[0]


def test_a_release_that_is_not_what_its_manifest_says_is_not_exported(people, tmp_path):
    shard = people.folder / people.manifest.shards[0].file
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DatasetError, match="not the file that was released"):
        export_dataset(open_dataset("people", people.folder.parents[1]), f"csv:{tmp_path / 'out'}")
    assert not (tmp_path / "out").exists()


def test_a_stranger_s_archive_brings_captions_classes_and_pictures(archive, tmp_path, image):
    path = archive(
        ("a/1.cls", b"3"), ("a/1.jpg", image((1, 0, 0), "JPEG")), ("a/1.txt", b"a man\n"), ("a/1.pyd", b"\x80\x04"),
        ("a/2.cls", b"4"), ("a/2.jpg", image((2, 0, 0), "JPEG")), ("a/2.txt", b"a woman"), ("a/2.pyd", b"\x80\x04"),
    )  # fmt: skip
    manifest = import_images(path, None, "faces", attributes=["cls"], subject="person", root=tmp_path / "datasets")
    dataset = open_dataset("faces", tmp_path / "datasets")
    assert manifest.recipe["left_out"] == ".pyd"
    assert dataset.index.path.tolist() == ["a/1.jpg", "a/2.jpg"]
    assert dataset.index.caption.tolist() == ["a man", "a woman"]
    assert manifest.attributes == {"cls": ["3", "4"]}


def _header(name, kind=tarfile.REGTYPE, **facts):
    header = tarfile.TarInfo(name)
    header.type = kind
    for fact, value in facts.items():
        setattr(header, fact, value)
    return header


GOOD = ("1.json", b'{"file": "1", "gender": "m"}')


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([("../1.json", b"{}")], "leads out"),
        ([("/etc/1.json", b"{}")], "leads out"),
        ([(_header("1.json", tarfile.SYMTYPE, linkname="/etc/passwd"), b"")], "is a link"),
        ([(_header("1.json", tarfile.LNKTYPE, linkname="/etc/passwd"), b"")], "is a link"),
        ([(_header("1.json", tarfile.FIFOTYPE), b"")], "is a link, a device"),
        ([GOOD, ("2.json", b"{")], "cannot be read"),
        ([GOOD, ("2.json", b"[]")], "its .json is no object"),
        ([GOOD, ("2.json", b"\xff")], "cannot be read"),
        ([GOOD, ("2.json", b'{"file": "2", "gender": "m", "age": 3}')], "a column 'age', which the first one has not"),
        ([GOOD, ("2.json", b'{"file": "1", "gender": "m"}'), ("1.txt", b"x")], "not one after another"),
        ([GOOD, GOOD], "there twice"),
        ([GOOD, ("1.png", b"x"), ("1.jpg", b"x")], "has two pictures"),
        ([GOOD, ("2.json", b'{"file": "2", "gender": "' + b"m" * (1 << 20) + b'"}')], "at most 1,048,576 are read"),
        ([GOOD, ("2.json", b'{"file": "\\ud800", "gender": "m"}')], "half of a character"),
        ([("\udcff.json", b"{}")], "cannot be read"),
        ([], "no samples"),
    ],
)
def test_an_archive_that_is_not_plain_is_refused(archive, tmp_path, members, problem):
    with pytest.raises(DatasetError, match=problem):
        import_images(
            archive(*members), None, "faces", attributes=["gender"], subject="person", root=tmp_path / "datasets"
        )


@pytest.mark.parametrize("damage", ["end", "middle", "header", "packed", "negative", "long"])
def test_an_archive_that_is_cut_or_damaged_is_refused_and_never_read_in_part(archive, tmp_path, damage):
    path = archive(GOOD, ("2.json", b'{"file": "2", "gender": "w"}'), ("3.json", b'{"file": "2", "gender": "w"}'))
    data = bytearray(path.read_bytes())
    if damage == "end":
        data = data[: 6 * 512]  # after the last sample
    elif damage == "middle":
        data = data[: 5 * 512 + 7]
    elif damage == "header":
        data[2 * 512 + 150] ^= 0xFF  # the second sample's checksum
    elif damage == "packed":
        import gzip

        data = bytearray(gzip.compress(bytes(data)))
    else:
        header = tarfile.TarInfo.frombuf(bytes(data[1024:1536]), "utf-8", "strict")
        if damage == "negative":
            data[1024:1536] = _forged(header, -1024)
        else:
            header.type = tarfile.GNUTYPE_LONGNAME
            data[1024:1536] = _forged(header, 1 << 40)
    path.write_bytes(bytes(data))
    with pytest.raises(DatasetError, match="cannot be read"):
        import_images(path, None, "faces", attributes=["gender"], subject="person", root=tmp_path / "datasets")


def _forged(header, size):
    """A header that says another size, in base 256 as GNU tar writes negative ones."""
    data = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    data[124:136] = (b"\xff" if size < 0 else b"\x80") + (size % (1 << 88)).to_bytes(11, "big")
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data):06o}\0 ".encode()
    return bytes(data)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_an_image_folder_of_others_is_imported(tmp_path, image, kind):
    folder = tmp_path / "faces" / "train"
    (folder / "sub").mkdir(parents=True)
    rows = [{"file_name": f"sub/{number}.png", "gender": "mw"[number % 2], "age": number} for number in range(4)]
    for number, row in enumerate(rows):
        (folder / row["file_name"]).write_bytes(image((number, 0, 0)))
    if kind == "csv":
        with (folder / "metadata.csv").open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        (folder / "metadata.jsonl").write_text("".join(json.dumps({**row, "boxes": [1]}) + "\n" for row in rows))
    said = {"attributes": ["gender"], "subject": "person", "root": tmp_path / "datasets"}
    manifest = import_images(tmp_path / "faces", None, "faces", **said)
    dataset = open_dataset("faces", tmp_path / "datasets")
    assert dataset.index.path.tolist() == [row["file_name"] for row in rows]
    assert manifest.counts.groups == {"gender": {"m": 2, "w": 2}}
    (folder / "sub" / "3.png").unlink()
    (folder / "sub" / "3.png").symlink_to("/etc/hostname")
    with pytest.raises(DatasetError, match="has no picture") as caught:
        import_images(tmp_path / "faces", None, "faces", **said, version="v2")
    assert caught.value.where.endswith(f"metadata.{kind}:{5 if kind == 'csv' else 4}")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "no table that is read"),
        ({"metadata.csv": "file,gender\n1.png,m\n"}, "no column is called 'file_name'"),
        ({"metadata.csv": "file_name\n1.png\n", "metadata.jsonl": "{}\n"}, "2 tables"),
        ({"a/train-0.parquet": "", "b/train-0.parquet": ""}, "2 tables"),
        ({"x.parquet": "", "x.tar": ""}, "several kinds"),
        ({"metadata.jsonl": ""}, "empty"),
        ({"metadata.csv": "file_name,gender\n1.png,m\n./1.png,m\n"}, "has two lines"),
        ({"metadata.jsonl": "[]\n"}, "no object"),
        ({"metadata.csv": '{"file_name": "1.png"}\n'}, "holds JSON, and its name ends in '.csv'"),
        ({"metadata.jsonl": '{"file_name": "1.png", "gender": "m"}\n{"file_name": "2.png", "age": 1}\n'}, "'age'"),
    ],
)
def test_a_folder_that_is_no_table_is_refused(tmp_path, files, problem):
    folder = tmp_path / "held"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with pytest.raises(DatasetError, match=problem):
        import_images(folder, None, "faces", attributes=["gender"], subject="person", root=tmp_path / "datasets")


def test_a_name_that_fits_no_file_is_told(tmp_path):
    with pytest.raises(DatasetError, match="fits no Parquet file"):
        import_images(tmp_path / "*.parquet", None, "faces", attributes=["gender"], subject="x", root=tmp_path)
