"""import_images: photographs and labels that no recipe made; every error names file and line."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from imported_photographs import import_images
from typer.testing import CliRunner

from fairgate.data import open_dataset
from fairgate.data.labels import unique_ids
from fairgate.ground.errors import DatasetError
from fairgate.interfaces.cli.main import app

REAL = Path(__file__).parents[2].parent / "shared" / "real"
needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason="the real data lie beside the checkout only")

LABELS = [
    {"file": "a/1.png", "gender": "Female", "age": "10-19", "job": "chef"},
    {"file": "a/2.jpg", "gender": "Male", "age": "3-9", "job": "doctor"},
    {"file": "3.png", "gender": "Female", "age": "more than 70", "job": "chef"},
]


@pytest.fixture
def labels(tmp_path):
    """Writes a CSV of labels and returns its path."""

    def labels(rows=LABELS, name="labels.csv"):
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return path

    return labels


@pytest.fixture
def photos(tmp_path, image):
    """The folder that LABELS speak of."""
    folder = tmp_path / "photos"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "1.png").write_bytes(image((1, 0, 0)))
    (folder / "a" / "2.jpg").write_bytes(image((2, 0, 0), "JPEG"))
    (folder / "3.png").write_bytes(image((3, 0, 0)))
    return folder


@pytest.fixture
def take(tmp_path, labels):
    """`import_images` with everything that a test does not speak of already said."""

    def take(csv_file=None, images=None, **options):
        said = {"attributes": ["gender", "age"], "subject": "person", "root": tmp_path / "datasets"}
        if "subject_column" in options:
            del said["subject"]
        return import_images(csv_file or labels(), images, "faces", **(said | options))

    return take


def test_each_photograph_is_a_set_of_its_own_and_its_bytes_are_untouched(take, photos, tmp_path):
    manifest = take(images=photos, subject_column="job")
    dataset = open_dataset("faces", tmp_path / "datasets")
    assert not manifest.counterfactual
    assert manifest.image_encoding == "JPEG+PNG"
    assert dataset.index.path.tolist() == ["a/1.png", "a/2.jpg", "3.png"]
    assert dataset.index.set_id.tolist() == ["a-1", "a-2", "3"]
    assert dataset.index.subject.tolist() == ["chef", "doctor", "chef"]
    assert set(dataset.index.member) == {"only"}
    [(_, images)] = dataset.image_batches(10)
    assert images == [(photos / path).read_bytes() for path in ("a/1.png", "a/2.jpg", "3.png")]
    assert dataset.verify() == []


def test_groups_are_those_of_the_file_in_natural_order_or_as_declared(take, labels, tmp_path):
    assert take().attributes == {"gender": ["Female", "Male"], "age": ["3-9", "10-19", "more than 70"]}
    declared = {"gender": ["Male", "Female", "other"], "age": []}
    manifest = take(attributes=declared, version="v2")
    assert manifest.attributes["gender"] == ["Male", "Female", "other"]
    assert manifest.counts.groups["gender"] == {"Male": 1, "Female": 2, "other": 0}


def test_labels_without_images_keep_the_path_that_scores_are_joined_on(take, tmp_path):
    manifest = take()
    assert manifest.image_encoding == "none"
    assert open_dataset("faces", tmp_path / "datasets").index.path.tolist() == ["a/1.png", "a/2.jpg", "3.png"]


def test_other_columns_come_along_as_text_under_names_that_are_free(take, labels, tmp_path):
    rows = [{**row, "caption": "words", "member": "7", "": str(n)} for n, row in enumerate(LABELS)]
    take(labels(rows))
    dataset = open_dataset("faces", tmp_path / "datasets")
    stored = dataset.parquet(dataset.manifest.shards[0]).read().to_pylist()
    assert stored[0]["job"] == "chef"
    assert stored[0]["label_member"] == "7"
    assert stored[0]["caption"] == "words"
    assert "" not in stored[0]


def test_progress_is_told_row_by_row(take):
    told = []
    take(progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_paths_that_meet_in_one_stem_get_different_ids():
    ids = unique_ids(["a/1.jpg", "a/1.png", "a-1.gif", "b.jpg", "???"])
    assert len(set(ids.values())) == 5
    assert ids["b.jpg"] == "b"
    assert ids["a/1.jpg"].startswith("a-1-")


def test_images_of_flattened_folders_are_found_by_file_name_and_the_manifest_says_so(take, photos, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in photos.rglob("*.*"):
        (flat / path.name).write_bytes(path.read_bytes())
    moved = [{**row, "file": f"val/{row['file']}"} for row in LABELS]
    path = tmp_path / "moved.csv"
    path.write_text("\n".join(["file,gender,age", *(f"{r['file']},{r['gender']},{r['age']}" for r in moved)]))
    manifest = take(path, flat)
    assert manifest.recipe["images_found_by"] == "file name"
    assert open_dataset("faces", tmp_path / "datasets").index.path[0] == "val/a/1.png"


def test_a_gzipped_file_with_a_byte_order_mark_is_read(take, tmp_path):
    path = tmp_path / "labels.csv.gz"
    path.write_bytes(gzip.compress("\ufefffile,gender,age\n1.png,Male,3-9\n\n2.png,Male,3-9\n".encode()))
    assert take(path).n_rows == 2


def test_outputs_of_a_generator_need_no_attribute(labels, photos, tmp_path):
    words = [
        "dataset",
        "import",
        "painted",
        "--labels",
        str(labels()),
        "--images",
        str(photos),
        "--subject-column",
        "job",
    ]
    done = CliRunner().invoke(app, [*words, "--root", str(tmp_path / "datasets")])
    assert done.exit_code == 0, done.output
    assert "no groups to compare, except those that a reader perceives" in done.output
    painted = open_dataset("painted", tmp_path / "datasets")
    assert (painted.manifest.attributes, painted.manifest.subjects) == ({}, ["chef", "doctor"])
    assert painted.verify() == []


def test_two_imports_of_the_same_files_have_one_fingerprint(take, photos):
    first = take(images=photos)
    assert take(images=photos, version="v2").fingerprint == first.fingerprint


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ({"attributes": ["gendre"]}, "no column 'gendre'", "did you mean 'gender'? columns: file, gender, age, job"),
        ({"subject_column": "jobs"}, "no column 'jobs'", "did you mean 'job'?"),
        ({"image_column": "img"}, "no column 'img'", "columns: file"),
        ({"subject": None}, "said in one way", "--subject-column"),
        ({"subject": "x", "subject_column": "job"}, "said in one way", "--subject-column"),
        ({"attributes": {"gender": ["Male"], "age": []}}, "'Female' is not a declared group", "declared groups: Male"),
    ],
)
def test_a_column_that_is_not_there_is_told_with_the_nearest(take, options, problem, remedy):
    with pytest.raises(DatasetError) as caught:
        take(**options)
    assert problem in caught.value.problem
    assert remedy in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("text", "problem", "where"),
    [
        ("", "label file is empty", "labels.csv"),
        ("file,gender,age\n", "label file is empty", "labels.csv"),
        ("file,gender,gender\n1.png,a,b\n", "named twice", "labels.csv:1"),
        ("file,gender,age\n1.png,Male\n", "2 fields, and the header names 3", "labels.csv:2"),
        ("file,gender,age\n1.png,Male,1\n2.png,,1\n", "column 'gender' is empty", "labels.csv:3"),
        ("file,gender,age\n,Male,1\n", "names no image", "labels.csv:2"),
        ("file,gender,age\n1.png,Male,1\n2.png,Male,1\n./1.png,Male,1\n", "has two lines", "labels.csv:4"),
        ("file,gender,age\n../1.png,Male,1\n", "leads out of the images folder", "labels.csv:2"),
        ("file,gender,age\n/etc/passwd,Male,1\n", "leads out of the images folder", "labels.csv:2"),
        ("file,gender,age\nC:/1.png,Male,1\n", "leads out of the images folder", "labels.csv:2"),
        ('file,gender,age\n"1.png,Male,1\n', "cannot be read", "labels.csv"),
        ("who,gender,age\n1.png,Male,1\n", "none does by its name", "labels.csv:1"),
        ("file,image,gender,age\n1.png,1.png,Male,1\n", "2 could: file, image", "labels.csv:1"),
    ],
)
def test_a_bad_label_file_is_refused_with_its_line(take, tmp_path, text, problem, where):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(DatasetError) as caught:
        take(path)
    assert problem in caught.value.problem
    assert where in (caught.value.where or "")
    assert caught.value.remedy
    assert not (tmp_path / "datasets" / "faces" / "v1").exists()


@pytest.mark.parametrize("content", [b"file,gender,age\n\xff\xfe,Male,1\n", None])
def test_labels_that_are_no_text_or_not_there_are_refused(take, tmp_path, content):
    path = tmp_path / "labels.csv"
    if content:
        path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"labels\.csv"):
        take(path)


def test_labels_with_a_damaged_gzip_are_refused(take, tmp_path):
    path = tmp_path / "labels.csv.gz"
    path.write_bytes(gzip.compress(b"file,gender,age\n1.png,Male,1\n" * 50)[:-20])
    with pytest.raises(DatasetError, match="cannot be read"):
        take(path)


def test_a_missing_image_is_named_with_its_line(take, photos):
    (photos / "a" / "2.jpg").unlink()
    with pytest.raises(DatasetError, match=r"1 of 3 images are not in the folder") as caught:
        take(images=photos)
    assert "2.jpg" in caught.value.where
    assert "labels.csv:3" in caught.value.where


def test_a_missing_images_folder_is_told(take, tmp_path):
    with pytest.raises(DatasetError, match="images folder does not exist"):
        take(images=tmp_path / "nowhere")


@pytest.mark.parametrize("keep", [0, 30, 200])
def test_an_image_cut_short_is_named_with_its_line_and_nothing_is_left(take, photos, tmp_path, keep):
    path = photos / "a" / "2.jpg"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DatasetError, match="image cannot be read") as caught:
        take(images=photos)
    assert f"{path}" in caught.value.where
    assert "labels.csv:3" in caught.value.where
    assert list((tmp_path / "datasets" / "faces").iterdir()) == []


def test_an_image_that_vanishes_during_the_import_is_named(take, photos):
    with pytest.raises(DatasetError, match="image file cannot be read") as caught:
        take(images=photos, progress=lambda *_: (photos / "3.png").unlink(missing_ok=True))
    assert "labels.csv:4" in caught.value.where


def test_a_second_import_does_not_write_over_the_first(take):
    take()
    with pytest.raises(DatasetError, match="write it as v2"):
        take()


@needs_real_data
def test_the_fairface_labels_import_whole_without_images(take, tmp_path):
    manifest = take(
        REAL / "fairface_clip" / "fairface_val_labels.csv.gz", attributes={"gender": [], "race": [], "age": []}
    )
    assert manifest.n_rows == 10_954
    assert manifest.counts.groups["gender"] == {"Female": 5162, "Male": 5792}
    assert manifest.attributes["age"][:3] == ["0-2", "3-9", "10-19"]
    index = open_dataset("faces", tmp_path / "datasets").index
    assert index.path[0] == "val/1.jpg"
    assert len(np.unique(index.set_id.astype(str))) == 10_954


@needs_real_data
def test_the_fairface_photographs_import_balanced_and_verify(take, tmp_path):
    folder = REAL / "fairface_photos"
    manifest = take(folder / "labels.csv", folder, attributes=["race", "gender"])
    assert (manifest.n_rows, manifest.image_encoding) == (252, "JPEG")
    assert set(manifest.counts.intersections["race × gender"].values()) == {18}
    assert open_dataset("faces", tmp_path / "datasets").verify() == []
