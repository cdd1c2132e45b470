"""open_dataset, Index and pictures: by name only, lazily, and with errors that name the command to run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from fairgate.data import open_dataset, read_dataset, release, releases_folder, shadowed_library, versions
from fairgate.ground.errors import DatasetError


def test_a_plain_name_is_the_newest_version_by_number(root, write):
    for version in ("v2", "v10"):
        write(folder=root / "people" / version, version=version)
    assert open_dataset("people", root).version == "v10"
    assert open_dataset("people@v2", root).version == "v2"
    assert versions("people", root) == ["v1", "v2", "v10"]


@pytest.mark.parametrize("ref", ["../people", "people/v1", "/etc", ".", "", "People", "people@../v1", "people@", "a b"])
def test_a_path_is_not_a_name(root, ref):
    with pytest.raises(DatasetError, match="is not a dataset"):
        open_dataset(ref, root)


def test_an_absent_dataset_names_the_command_and_the_nearest_name(root):
    (root.parent / "datasets.dvc").touch()
    with pytest.raises(DatasetError) as caught:
        open_dataset("peopel", root)
    assert (
        caught.value.remedy
        == "did you mean 'people'? run `fairgate dataset pull datasets.dvc`, `fairgate dataset import` or "
        "`fairgate dataset get`"
    )


def test_without_a_pointer_the_remedy_does_not_name_one_to_pull(tmp_path):
    with pytest.raises(DatasetError) as caught:
        open_dataset("people", tmp_path / "datasets")
    assert (
        caught.value.remedy
        == "run `fairgate dataset import` or `fairgate dataset get`; of a clone: who has it runs `dvc add datasets` "
        "and `dvc push`, and commits datasets.dvc"
    )


def test_an_absent_version_names_those_that_exist(root):
    with pytest.raises(DatasetError, match="there is v1; run `fairgate dataset import`") as caught:
        open_dataset("people@v3", root)
    assert "no version 'v3'" in caught.value.problem


def test_a_version_without_manifest_is_not_passed_over_for_an_older_one(root):
    (root / "people" / "v2").mkdir()
    with pytest.raises(DatasetError, match="dataset pull"):
        open_dataset("people", root)


def _edit(root, **values):
    path = root / "people" / "v1" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"schema_version": 2}, "update fairgate"),
        ({"schema_version": 0}, "release the dataset again"),
        ({"schema_version": None}, "not a manifest of fairgate"),
        ({"n_rows": "24"}, "n_rows"),
        ({"surprise": 1}, "surprise"),
        ({"shards": [{"file": "../x.parquet", "sha256": "0" * 64, "bytes": 1, "sets": 1, "rows": 1}]}, "shards.0.file"),
        ({"name": "persons"}, "call the folder 'persons/v1'"),
    ],
)
def test_a_manifest_that_is_not_good_is_refused_with_its_reason(root, values, told):
    _edit(root, **values)
    with pytest.raises(DatasetError) as caught:
        open_dataset("people", root)
    assert told in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_an_unparsable_manifest_is_refused(root, text):
    (root / "people" / "v1" / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(DatasetError, match="manifest"):
        open_dataset("people", root)


def test_opening_reads_the_manifest_only(root):
    for shard in (root / "people" / "v1").glob("*.parquet"):
        shard.unlink()
    dataset = open_dataset("people", root)
    assert len(dataset) == 24
    with pytest.raises(DatasetError, match="is missing"):
        _ = dataset.index


def test_codes_of_one_attribute_follow_the_declared_order(root):
    codes, names = open_dataset("people", root).index.codes("gender")
    assert names == ["man", "woman"]
    assert codes.tolist() == [0, 1, 0, 1] * 6


def test_intersections_are_named_in_declared_order_and_absent_ones_too(write, rows, tmp_path):
    lacking = [row for row in rows() if (row["tone"], row["gender"]) != ("dark", "man")]
    write(rows=lacking)
    codes, names = open_dataset("people", tmp_path / "datasets").index.codes(("tone", "gender"))
    assert names == ["light × man", "light × woman", "dark × man", "dark × woman"]
    assert np.bincount(codes, minlength=4).tolist() == [6, 6, 0, 6]


def test_an_unrecorded_attribute_names_the_recorded_ones(root):
    with pytest.raises(DatasetError, match=r"did you mean 'gender'\? recorded attributes: tone, gender"):
        open_dataset("people", root).index.codes("gendre")


def test_an_undeclared_group_in_the_columns_is_an_error(root):
    _edit(root, attributes={"tone": ["light", "dark"], "gender": ["man"]})
    with pytest.raises(DatasetError, match=r"'woman' is not a declared group of 'gender'.\s+where:  set 'set-0'"):
        open_dataset("people", root).index.codes("gender")


@pytest.mark.parametrize("size", [1, 5, 24, 100])
def test_image_batches_pass_every_image_once_in_stored_order(root, rows, size):
    numbers, images = zip(*open_dataset("people", root).image_batches(size), strict=True)
    assert np.concatenate(numbers).tolist() == list(range(24))
    assert [image for batch in images for image in batch] == [row["image"] for row in rows()]
    assert {len(batch) for batch in images[:-1]} <= {size}


def test_image_batches_read_shard_by_shard(root):
    dataset = open_dataset("people", root)
    (dataset.folder / dataset.manifest.shards[-1].file).unlink()
    batches = dataset.image_batches(4)
    assert next(batches)[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(DatasetError, match=r"shard-00002-of-00003.parquet' .* is missing"):
        list(batches)


def test_the_images_of_some_sets_come_with_their_members(root, rows):
    given = list(rows())
    found = open_dataset("people", root).images_of(["set-4", "set-1"])
    assert list(found) == ["set-4", "set-1"]
    assert found["set-4"] == [(row["member"], row["image"]) for row in given[16:20]]


def test_pictures_are_read_from_their_own_shard_only(root):
    dataset = open_dataset("people", root)
    assert len(dataset.index) == 24
    (dataset.folder / dataset.manifest.shards[0].file).unlink()
    last = dataset.index.set_id[-1]
    assert len(dataset.images_of([last])[last]) == 4


def test_the_pictures_of_an_unknown_set_are_an_error(root):
    with pytest.raises(DatasetError, match="no set 'set-99'"):
        open_dataset("people", root).images_of(["set-0", "set-99"])


def test_labels_without_images_have_an_index_and_no_pictures(write, rows, tmp_path):
    write(rows=rows(images=False))
    dataset = open_dataset("people", tmp_path / "datasets")
    assert dataset.manifest.image_encoding == "none"
    assert dataset.index.path[0] == "0/0.png"
    with pytest.raises(DatasetError, match="scores:FILE"):
        next(dataset.image_batches(4))
    with pytest.raises(DatasetError, match="scores:FILE"):
        dataset.images_of(["set-0"])


def test_check_shards_is_silent_on_a_good_release(root):
    open_dataset("people", root).check_shards()


def test_a_release_of_other_shards_than_rows_is_refused_by_its_index(root):
    _edit(root, n_rows=25)
    with pytest.raises(DatasetError, match="has 24 rows, and its manifest says 25"):
        _ = open_dataset("people", root).index


def test_reading_columns_imports_no_pandas(root):
    program = (
        "import sys, pathlib; from fairgate.data import open_dataset\n"
        "assert not {'pyarrow', 'PIL', 'torch', 'pandas', 'yaml'} & set(sys.modules), 'at import'\n"
        f"dataset = open_dataset('people', pathlib.Path({str(root)!r}))\n"
        "dataset.check_shards(); dataset.index.codes(('tone', 'gender')); dataset.images_of(['set-1'])\n"
        "assert not {'torch', 'pandas', 'pyarrow.dataset'} & set(sys.modules), 'at use'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_release_is_a_verified_copy_under_the_next_version(root, write, rows, tmp_path):
    build = tmp_path / "build"
    manifest = write(folder=build, rows=rows(8), name="made", version="v1", shard_bytes=3000)
    dataset = release(build, "people", root)
    assert dataset.manifest.ref == "people@v2"
    assert open_dataset("people", root).fingerprint == manifest.fingerprint
    assert open_dataset("people", root).verify() == []
    assert "# people v2" in (dataset.folder / "README.md").read_text()
    for shard in manifest.shards:
        assert (dataset.folder / shard.file).read_bytes() == (build / shard.file).read_bytes()


def test_the_first_release_is_v1(write, tmp_path):
    write(folder=tmp_path / "build")
    assert release(tmp_path / "build", "crowd", tmp_path / "datasets").manifest.ref == "crowd@v1"


def test_the_same_content_is_not_released_twice(root, write, tmp_path):
    write(folder=tmp_path / "build")
    with pytest.raises(DatasetError, match="released already, as 'people@v1'"):
        release(tmp_path / "build", "people", root)


def test_a_build_with_problems_is_not_released(root, write, rows, tmp_path):
    manifest = write(folder=tmp_path / "build", rows=rows(8))
    (tmp_path / "build" / manifest.shards[0].file).unlink()
    with pytest.raises(DatasetError, match=r"First: shard 'shard-00000-of-00001\.parquet' is missing"):
        release(tmp_path / "build", "people", root)
    assert versions("people", root) == ["v1"]


def test_a_copied_folder_is_the_same_dataset(root, tmp_path):
    shutil.copytree(root / "people" / "v1", tmp_path / "elsewhere")
    assert read_dataset(tmp_path / "elsewhere").fingerprint == open_dataset("people", root).fingerprint


def test_new_repositories_have_fairness_data_and_old_ones_keep_their_datasets(root, tmp_path):
    assert releases_folder(root.parent) == root.parent / "datasets"
    new = tmp_path / "new"
    (new / "datasets").mkdir(parents=True)
    (new / "datasets" / "loading.py").touch()  # a package of the team's own
    assert releases_folder(new) == new / "fairness_data"
    (new / "datasets.dvc").touch()  # not pulled yet
    assert releases_folder(new) == new / "datasets"


def test_a_folder_that_python_takes_for_the_library_datasets_is_told(root, tmp_path, monkeypatch):
    assert shadowed_library(root.parent) is None  # the library is installed
    monkeypatch.setattr("fairgate.data.releases.metadata.distributions", lambda **_: iter(()))
    assert "which is not installed" in shadowed_library(root.parent)
    (tmp_path / "elsewhere").mkdir()
    assert shadowed_library(tmp_path / "elsewhere") is None
