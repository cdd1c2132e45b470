"""FairFace in both layouts: names of groups, never their numbers; what spreadsheets did to ages; two paddings."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import pytest
from small_originals import drawn, write_hub_parquet

from fairgate.data.published import find_published
from fairgate.data.published.fairface import AGES, COUNTS, RACES
from fairgate.ground.errors import DatasetError

ROWS = [
    {"file": "val/1.jpg", "age": "3-9", "gender": "Male", "race": "East Asian", "service_test": "False"},
    {"file": "val/2.jpg", "age": "more than 70", "gender": "Female", "race": "White", "service_test": "True"},
    {"file": "val/10.jpg", "age": "10-19", "gender": "Female", "race": "Latino_Hispanic", "service_test": "True"},
]
CLASSES = {"age": list(AGES), "gender": ["Male", "Female"], "race": list(RACES)}


def authors(folder: Path, rows=ROWS, zipped: str | None = "fairface-img-margin025-trainval.zip") -> Path:
    """The authors' files: a table of labels, and a zip of images that has those of both splits."""
    folder.mkdir(exist_ok=True)
    with (folder / "fairface_label_val.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(rows)
    images = {row["file"]: drawn(number, "JPEG") for number, row in enumerate(ROWS)} | {"train/1.jpg": drawn(9, "JPEG")}
    if zipped:
        with zipfile.ZipFile(folder / zipped, "w") as archive:
            for name, data in images.items():
                archive.writestr(name, data)
    else:
        for name, data in images.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
    return folder


def hub_folder(folder: Path, classes=CLASSES, padding="0.25", first: int = 0) -> Path:
    """The hub's files, with numbers for groups in another order where `classes` has another."""
    order = {name: (classes or CLASSES)[name] for name in CLASSES}
    columns = {name: [order[name].index(row[name]) for row in ROWS] for name in CLASSES}
    pictures = [{"bytes": drawn(first + number, "JPEG"), "path": None} for number in range(len(ROWS))]
    write_hub_parquet(
        folder / padding / "validation-00000-of-00001-951dbd63c8724ee1.parquet",
        {"image": pictures, **columns, "service_test": [False, True, True]},
        classes,
    )
    return folder


@pytest.mark.parametrize("zipped", ["fairface-img-margin025-trainval.zip", None])
def test_the_authors_files_become_rows_with_untouched_bytes(take, opened, tmp_path, zipped):
    made = take("fairface", authors(tmp_path / "given", zipped=zipped))
    index = opened("fairface").index
    assert index.path.tolist() == ["val/1.jpg", "val/2.jpg", "val/10.jpg"]
    assert index.set_id.tolist() == ["val-1", "val-2", "val-10"]
    assert index.attributes["race"].tolist() == ["East Asian", "White", "Latino_Hispanic"]
    [(_, images)] = opened("fairface").image_batches(10)
    assert images == [drawn(number, "JPEG") for number in range(3)]
    assert made.manifest.recipe["counts_as_published"] is False
    assert made.manifest.recipe["published_images"] == 10_954
    assert set(made.manifest.lineage) == {"source", "fairface_label_val.csv", *([zipped] if zipped else [])}
    assert opened("fairface").verify() == []
    assert not made.manifest.counterfactual


def test_ages_that_a_spreadsheet_made_dates_are_mended_and_counted(take, opened, tmp_path):
    damaged = [{**row, "age": {"3-9": "9-Mar", "10-19": "Oct-19"}.get(row["age"], row["age"])} for row in ROWS]
    made = take("fairface", authors(tmp_path / "given", damaged))
    assert opened("fairface").index.attributes["age"].tolist() == ["3-9", "more than 70", "10-19"]
    assert made.manifest.recipe["ages_repaired"] == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"age": "4-Jul"}, "'4-Jul' is no age of this dataset"),
        ({"race": "Asian"}, "'Asian' is no race of this dataset"),
        ({"file": "val/2.jpg"}, "'val/2.jpg' has two lines"),
        ({"file": "val/77.jpg"}, "there is no image 'val/77.jpg'"),
        ({"file": "../2.jpg"}, "leads out of the images folder"),
    ],
)
def test_labels_that_are_not_the_authors_are_refused_with_their_line(take, tmp_path, change, problem):
    with pytest.raises(DatasetError) as caught:
        take("fairface", authors(tmp_path / "given", [*ROWS[:2], {**ROWS[2], **change}]))
    assert problem in caught.value.problem
    assert "fairface_label_val.csv:4" in str(caught.value.where)
    assert not (tmp_path / "datasets").exists()


def test_images_of_another_padding_are_not_taken_for_those_that_were_named(take, tmp_path):
    folder = authors(tmp_path / "given", zipped="fairface-img-margin125-trainval.zip")
    with pytest.raises(DatasetError, match=r"another padding than 0\.25"):
        take("fairface", folder)
    assert take("fairface", folder, part="val-1.25").manifest.ref == "fairface_val_125@v1"


def test_class_numbers_of_the_hub_are_read_by_the_names_in_the_file(take, opened, tmp_path):
    """The authors' classifier has White first: a table in that order gives the same groups."""
    take("fairface", hub_folder(tmp_path / "given"))
    swapped = {**CLASSES, "race": list(reversed(RACES)), "gender": ["Female", "Male"]}
    take("fairface", hub_folder(tmp_path / "swapped", swapped), release="swapped")
    for name in ("fairface", "swapped"):
        attributes = opened(name).index.attributes
        assert attributes["race"].tolist() == ["East Asian", "White", "Latino_Hispanic"]
        assert attributes["gender"].tolist() == ["Male", "Female", "Female"]
    assert opened("fairface").manifest.fingerprint == opened("swapped").manifest.fingerprint


def test_class_numbers_without_names_count_only_where_all_groups_have_the_published_size(take, tmp_path, monkeypatch):
    folder = hub_folder(tmp_path / "given", classes=None)
    with pytest.raises(DatasetError, match="does not name its classes"):
        take("fairface", folder)
    small = {
        name: {group: sum(row[name] == group for row in ROWS) for group in groups} for name, groups in CLASSES.items()
    }
    monkeypatch.setattr("fairgate.data.published.fairface.COUNTS", small)
    assert take("fairface", folder).manifest.recipe["counts_as_published"] is True


def test_both_paddings_in_one_folder_are_told_apart_by_its_name(take, opened, tmp_path):
    folder = hub_folder(hub_folder(tmp_path / "given"), padding="1.25", first=100)
    take("fairface", folder)
    take("fairface", folder, part="val-1.25")
    [(_, near)] = opened("fairface").image_batches(10)
    [(_, wide)] = opened("fairface_val_125").image_batches(10)
    assert near[0] == drawn(0, "JPEG")
    assert wide[0] == drawn(100, "JPEG")


def test_published_sizes_of_groups_add_up_to_the_validation_set():
    assert {sum(counts.values()) for counts in COUNTS.values()} == {10_954}
    assert "10,954" in find_published("fairface").parts["val"].about
