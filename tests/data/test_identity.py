"""A dataset's fingerprint is computed from what is read, and remembered by content."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fairgate.data import open_dataset, read_dataset, verify
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import sha256_file
from fairgate.ground.seals import SealedNotes


def forge(folder, change=lambda rows: rows, **said):
    """Change rows and renew what the manifest says of the shards' bytes; its `fingerprint` stays."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for shard in manifest["shards"]:
        path = folder / shard["file"]
        table = pq.read_table(path)
        pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema), path, use_dictionary=False)
        shard |= {"sha256": sha256_file(path), "bytes": path.stat().st_size}
    (folder / "manifest.json").write_text(json.dumps(manifest | said))


class Forgetful(set):
    def add(self, name):
        """Every opening is that of a process of its own."""


@pytest.fixture(autouse=True)
def _processes(monkeypatch):
    monkeypatch.setattr(verify, "_intact", Forgetful())


@pytest.fixture
def dataset(root):
    return open_dataset("people", root)


@pytest.fixture
def decoded(monkeypatch):
    """How often a dataset was read whole."""
    calls, found = [], verify.find_problems
    monkeypatch.setattr(
        verify, "find_problems", lambda read, watch=None: calls.append(read.folder) or found(read, watch)
    )
    return calls


def test_an_honest_release_has_the_fingerprint_of_its_manifest(dataset):
    assert dataset.identity is None
    assert dataset.fingerprint == dataset.manifest.fingerprint == dataset.identity


def test_a_claim_is_not_a_fingerprint(dataset):
    forge(dataset.folder, lambda rows: [row | {"caption": "another"} for row in rows])
    forged = read_dataset(dataset.folder)
    forged.check_shards()
    with pytest.raises(DatasetError, match=r"(?s)cannot be scored: the content's fingerprint is.*verify"):
        _ = forged.fingerprint
    assert forged.identity is None


def test_labels_alone_have_an_identity_too(write, rows, tmp_path):
    write(rows=rows(images=False))
    folder = tmp_path / "datasets" / "people" / "v1"
    assert read_dataset(folder).fingerprint == read_dataset(folder).manifest.fingerprint
    forge(folder, lambda rows: [row | {"seed": 99} for row in rows])
    with pytest.raises(DatasetError, match="the content's fingerprint"):
        _ = read_dataset(folder).fingerprint


@pytest.fixture
def memory(tmp_path):
    return SealedNotes(tmp_path / "memory", b"a key")


def test_a_release_is_read_once_and_remembered_by_content(dataset, memory, decoded):
    for _ in range(3):
        read_dataset(dataset.folder).require_intact(memory)
    assert len(decoded) == 1
    assert dataset.require_intact() == dataset.fingerprint == dataset.manifest.fingerprint
    assert len(decoded) == 2


def test_a_process_reads_a_release_once_and_other_content_again(dataset, decoded, monkeypatch):
    monkeypatch.setattr(verify, "_intact", set())
    for _ in range(2):
        read_dataset(dataset.folder).require_intact()
    assert len(decoded) == 1
    forge(dataset.folder, lambda rows: [row | {"caption": "x"} for row in rows])
    with pytest.raises(DatasetError, match="the content's fingerprint"):
        read_dataset(dataset.folder).require_intact()


def test_what_is_remembered_is_of_no_other_content_and_of_no_other_manifest(dataset, memory, decoded):
    dataset.require_intact(memory)
    forge(dataset.folder, subjects=["doctor"])
    with pytest.raises(DatasetError, match="counts"):
        read_dataset(dataset.folder).require_intact(memory)
    forge(dataset.folder, lambda rows: [row | {"caption": "x"} for row in rows], subjects=["doctor", "nurse"])
    with pytest.raises(DatasetError, match="the content's fingerprint"):
        read_dataset(dataset.folder).require_intact(memory)
    assert len(list(memory.folder.iterdir())) == 1


def test_shards_are_hashed_also_where_the_release_is_remembered(dataset, memory):
    dataset.require_intact(memory)
    path = dataset.folder / dataset.manifest.shards[0].file
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DatasetError, match="is not the file that was released"):
        read_dataset(dataset.folder).require_intact(memory)


def test_what_a_killed_or_careless_process_left_in_the_memory_counts_for_nothing(dataset, memory, decoded):
    dataset.require_intact(memory)
    (mark,) = memory.folder.iterdir()
    for left in (b"", b"\xff\xfe", b"people@v1 " + b"0" * 64 + b"\n"):
        mark.write_bytes(left)
        read_dataset(dataset.folder).require_intact(memory)
    mark.unlink()
    mark.mkdir()
    read_dataset(dataset.folder).require_intact(memory)
    assert len(decoded) == 5


def test_what_another_key_sealed_is_read_again(dataset, memory, decoded):
    read_dataset(dataset.folder).require_intact(SealedNotes(memory.folder, b"another key"))
    read_dataset(dataset.folder).require_intact(memory)
    assert len(decoded) == 2


def test_a_memory_that_cannot_be_written_costs_time_and_no_verdict(dataset, tmp_path, decoded):
    (tmp_path / "file").write_text("in the way")
    for _ in range(2):
        read_dataset(dataset.folder).require_intact(SealedNotes(tmp_path / "file" / "memory", b"a key"))
    assert len(decoded) == 2


def test_a_stray_parquet_file_is_no_part_of_the_release(dataset):
    (dataset.folder / "shard-00009-of-00009.parquet").write_bytes(b"not read")
    assert dataset.fingerprint == dataset.manifest.fingerprint


def test_progress_counts_the_pictures(dataset):
    seen = []
    dataset.require_intact(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (24, 24)
    assert len(seen) == 24


def reencoded(**options):
    """Every picture written again with another header."""

    def change(rows):
        for row in rows:
            buffer = io.BytesIO()
            Image.open(io.BytesIO(row["image"]["bytes"])).save(buffer, "PNG", **options)
            yield row | {"image": row["image"] | {"bytes": buffer.getvalue()}}

    return lambda rows: list(change(rows))


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


@pytest.fixture
def tall(write, rows, image, tmp_path):
    """A release of pictures that are taller than wide."""
    write(rows=[row | {"image": image((number, 3, 7), size=(4, 6))} for number, row in enumerate(rows())])
    return tmp_path / "datasets" / "people" / "v1"


def test_a_header_that_turns_pictures_is_other_content(tall):
    forge(tall, reencoded(exif=turned()))
    with pytest.raises(DatasetError, match="the content's fingerprint"):
        _ = read_dataset(tall).fingerprint


def test_a_header_that_no_model_is_shown_is_the_same_content(tall):
    before = read_dataset(tall).fingerprint
    forge(tall, reencoded(icc_profile=b"\0" * 200, dpi=(300, 300), compress_level=0))
    assert read_dataset(tall).fingerprint == before


def test_pictures_that_the_manifest_denies_are_found(dataset):
    forge(dataset.folder, image_encoding="none")
    with pytest.raises(DatasetError, match="there is an image in a dataset of labels only"):
        _ = read_dataset(dataset.folder).fingerprint
