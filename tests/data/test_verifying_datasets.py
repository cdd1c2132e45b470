"""verify and check_shards: each kind of damage is found, and its shard, set or row is named."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairgate.data import open_dataset, read_dataset
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import sha256_file


@pytest.fixture
def dataset(root):
    return open_dataset("people", root)


def _shard(dataset, number):
    return dataset.folder / dataset.manifest.shards[number].file


def _kinds(dataset):
    return [problem.kind for problem in dataset.verify()]


def _one(dataset, kind):
    [problem] = [problem for problem in dataset.verify() if problem.kind == kind]
    assert problem.remedy
    return problem


def _flip(path, place, bits=0xFF):
    data = bytearray(path.read_bytes())
    data[place] ^= bits
    path.write_bytes(bytes(data))


def _change(path, change):
    table = pq.read_table(path)
    rows = change(table.to_pylist())
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def _reseal(dataset):
    """Make the manifest agree with the shards' bytes, as a careless tool would, and open it again."""
    path = dataset.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for shard in manifest["shards"]:
        shard["sha256"] = sha256_file(dataset.folder / shard["file"])
    path.write_text(json.dumps(manifest))
    return read_dataset(dataset.folder)


def test_a_good_dataset_has_no_problems(dataset):
    assert dataset.verify() == []


def test_a_flipped_byte_is_found_and_the_shard_is_named(dataset):
    path = _shard(dataset, 1)
    _flip(path, path.stat().st_size // 2)
    problem = _one(dataset, "changed_shard")
    assert path.name in problem.what
    assert problem.where == str(path)
    assert "fairgate dataset pull --force` on its pointer" in problem.remedy
    with pytest.raises(DatasetError, match=r"(?s)shard-00001-of-00003.*fairgate dataset verify people@v1"):
        dataset.check_shards()


def test_a_byte_flipped_anywhere_names_its_shard_and_never_crashes(dataset, tmp_path):
    whole = _shard(dataset, 0).read_bytes()
    for place in [*range(0, 8), *range(8, len(whole), 97), *range(len(whole) - 12, len(whole))]:
        _shard(dataset, 0).write_bytes(whole)
        _flip(_shard(dataset, 0), place)
        problems = dataset.verify()
        assert problems[0].kind == "changed_shard"
        assert str(problems[0].where) == str(_shard(dataset, 0))


def test_a_flipped_byte_in_an_image_names_the_row(dataset):
    path = _shard(dataset, 0)
    _flip(path, path.read_bytes().index(b"IDAT") + 6)
    problem = _one(dataset, "unreadable_image")
    assert problem.where == f"{path.name}, row 0, set 'set-0', member '0'"


def test_a_missing_shard_is_named(dataset):
    path = _shard(dataset, 2)
    path.unlink()
    assert _kinds(dataset) == ["missing_shard"]
    assert path.name in _one(dataset, "missing_shard").what
    with pytest.raises(DatasetError, match=f"shard '{path.name}' of dataset 'people@v1' is missing"):
        dataset.check_shards()


def test_a_shard_cut_short_is_unreadable(dataset):
    path = _shard(dataset, 0)
    path.write_bytes(path.read_bytes()[:200])
    assert _kinds(dataset) == ["changed_shard", "unreadable_shard"]


def test_an_extra_shard_is_named(dataset):
    shutil.copy(_shard(dataset, 0), dataset.folder / "shard-00009-of-00009.parquet")
    assert _kinds(dataset) == ["extra_shard"]
    assert "shard-00009" in _one(dataset, "extra_shard").what


def test_an_incomplete_set_is_named_with_its_missing_member(dataset):
    _change(_shard(dataset, 1), lambda rows: [row for place, row in enumerate(rows) if place != 2])
    problem = _one(_reseal(dataset), "incomplete_set")
    assert problem.what == "set 'set-2' is incomplete: member '2' is missing."
    assert "shard-00001-of-00003.parquet" in problem.where
    assert "wrong_counts" in _kinds(dataset)


def test_a_doubled_member_is_named(dataset):
    _change(_shard(dataset, 0), lambda rows: [rows[0], *rows])
    assert _one(_reseal(dataset), "doubled_member").what == "set 'set-0' has member '0' more than once."


def test_a_member_that_other_sets_lack_is_named(dataset):
    _change(_shard(dataset, 0), lambda rows: [rows[0] | {"member": "7"}, *rows[1:]])
    whats = [problem.what for problem in _reseal(dataset).verify() if problem.kind == "incomplete_set"]
    assert whats == [
        "set 'set-0' is incomplete: member '0' is missing.",
        "set 'set-0' has member '7', which other sets do not have.",
    ]


def test_members_in_another_order_are_named(dataset):
    _change(_shard(dataset, 0), lambda rows: [rows[1], rows[0], *rows[2:]])
    assert "in the order '1', '0', '2', '3'" in _one(_reseal(dataset), "member_order").what


def test_a_set_split_over_shards_is_named_with_both(dataset):
    moved = pq.read_table(_shard(dataset, 0)).to_pylist()[-2:]
    _change(_shard(dataset, 0), lambda rows: rows[:-2])
    _change(_shard(dataset, 1), lambda rows: [*moved, *rows])
    problem = _one(_reseal(dataset), "split_set")
    assert "over the shards shard-00000-of-00003.parquet, shard-00001-of-00003.parquet" in problem.what
    assert not any(problem.kind == "incomplete_set" for problem in dataset.verify())


def test_a_set_that_comes_twice_is_split_and_doubled(dataset):
    _change(_shard(dataset, 0), lambda rows: [*rows, *rows[:4]])
    resealed = _reseal(dataset)
    assert "within its shard" in _one(resealed, "split_set").what
    assert "'0', '1', '2', '3' more than once" in _one(resealed, "doubled_member").what


def test_an_undeclared_group_is_named_with_its_row(dataset):
    _change(_shard(dataset, 0), lambda rows: [rows[0], rows[1] | {"tone": "drak"}, *rows[2:]])
    problem = _one(_reseal(dataset), "undeclared_group")
    assert "'drak' is not a declared group of 'tone' (light, dark)" in problem.what
    assert problem.where == "shard-00000-of-00003.parquet, row 1, set 'set-0', member '1'"


def test_a_changed_label_is_found_though_every_hash_agrees(dataset):
    _change(_shard(dataset, 0), lambda rows: [rows[0] | {"tone": "dark"}, *rows[1:]])
    assert {"wrong_counts", "wrong_fingerprint"} == set(_kinds(_reseal(dataset)))
    counts = _one(_reseal(dataset), "wrong_counts")
    assert "the manifest counts 12 for tone 'light', and there are 11" in counts.what


def test_a_changed_caption_moves_the_fingerprint_alone(dataset):
    _change(_shard(dataset, 0), lambda rows: [rows[0] | {"caption": "another"}, *rows[1:]])
    assert _kinds(_reseal(dataset)) == ["wrong_fingerprint"]


def test_a_missing_image_is_named(dataset):
    _change(_shard(dataset, 0), lambda rows: [rows[0] | {"image": None}, *rows[1:]])
    resealed = _reseal(dataset)
    assert "row 0" in _one(resealed, "unreadable_image").where
    with pytest.raises(DatasetError, match="a row has no image"):
        list(resealed.image_batches(8))


def test_pictures_in_a_page_of_unknown_kind_are_not_skipped(dataset):
    """Parquet skips pages of kinds it does not know: the column is empty then, and every picture another row's."""
    _flip(_shard(dataset, 0), 5, 0x10)  # the kind of the first page, the pictures'
    resealed = _reseal(dataset)
    for read in (lambda: list(resealed.image_batches(8)), lambda: resealed.images_of(["set-0"])):
        with pytest.raises(DatasetError, match="row group 0 holds 0 rows and promises 8"):
            read()
    assert "unreadable_shard" in _kinds(resealed)


@pytest.mark.parametrize("change", [lambda rows: rows[:-4], lambda rows: [*rows, *rows[:4]]], ids=["fewer", "more"])
def test_pictures_of_a_shard_with_other_rows_than_promised_are_not_read(dataset, change):
    _change(_shard(dataset, 0), change)
    resealed = _reseal(dataset)
    with pytest.raises(DatasetError, match="and the manifest says 8"):
        list(resealed.image_batches(8))


def test_a_value_that_has_no_fingerprint_is_named(dataset):
    _change(_shard(dataset, 0), lambda rows: [rows[0] | {"sharpness": float("inf")}, *rows[1:]])
    assert "row 0" in _one(_reseal(dataset), "bad_value").where


def test_a_shard_without_a_needed_column_is_unreadable(dataset):
    path = _shard(dataset, 0)
    pq.write_table(pq.read_table(path).drop_columns(["tone"]), path)
    resealed = _reseal(dataset)
    assert "no column 'tone'" in _one(resealed, "unreadable_shard").what
    with pytest.raises(DatasetError, match="cannot be read"):
        _ = resealed.index


def test_images_in_a_dataset_of_labels_are_a_problem(write, rows, tmp_path, image):
    write(rows=rows(images=False))
    dataset = open_dataset("people", tmp_path / "datasets")
    with_image = {"image": {"bytes": image((1, 1, 1)), "path": None}}
    _change(_shard(dataset, 0), lambda stored: [stored[0] | with_image, *stored[1:]])
    assert "labels only" in _one(_reseal(dataset), "unreadable_image").what


def test_many_problems_of_a_kind_are_counted_and_not_all_told(write, rows, tmp_path):
    write(rows=rows(20))
    dataset = open_dataset("people", tmp_path / "datasets")
    _change(_shard(dataset, 0), lambda stored: [row | {"tone": "drak"} for row in stored])
    told = [problem for problem in _reseal(dataset).verify() if problem.kind == "undeclared_group"]
    assert len(told) == 51
    assert told[-1].what == "30 more of this kind."


def test_a_problem_reads_as_problem_place_and_remedy(dataset):
    _shard(dataset, 2).unlink()
    lines = str(dataset.verify()[0]).splitlines()
    assert [line.split()[0] for line in lines] == ["shard", "where:", "remedy:"]
