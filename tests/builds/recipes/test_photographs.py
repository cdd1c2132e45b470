"""What `gensynth` and `genswap` take of a COCO-style folder: one person, one gender named, and why others are left."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import edit_fakes
import pytest
from in_memory_build import run_part
from PIL import Image

from fairgate.builds.recipes import open_recipe
from fairgate.builds.recipes.genswap import faces_of
from fairgate.builds.steps.person_photographs import whole_box
from fairgate.data.coco import read_coco
from fairgate.ground.errors import DatasetError
from fairgate.models.generation import registry
from fairgate.portraits.photos import KINDS, write_photos
from fairgate.portraits.world import SUBJECTS

PHOTOS = 40
WHY = {
    "two": "several_persons",
    "crowd": "several_persons",
    "empty": "no_person",
    "unnamed": "no_gender_named",
    "mixed": "both_genders_named",
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn") / "photos"
    write_photos(folder, photos=PHOTOS)
    return folder


def recipe_of(folder, **options):
    settings = {"captions": folder / "captions.json", "instances": folder / "instances.json"}
    return open_recipe("genswap", {**settings, "images": folder / "images", **options})


def test_of_drawn_rooms_those_with_one_person_and_one_gender_are_kept_and_the_rest_say_why(drawn):
    truth = {f"{each['id']:012d}": each for each in json.loads((drawn / "drawn.json").read_text())["photos"]}
    recipe = recipe_of(drawn, subjects={subject: [subject] for subject in SUBJECTS})
    kinds = Counter()
    for subject in recipe.subjects():
        photos = run_part(recipe.parts()[0], subject, None)
        assert len(photos.traces) == PHOTOS
        for trace in photos.traces:
            told = truth[trace.set_id]
            kinds[told["kind"]] += 1
            assert told["subject"] == subject
            if told["kind"] == "one":
                assert trace.kept
                rows = photos.kept[trace.set_id]
                assert rows.columns["original_gender"] == told["gender"]
                assert rows.columns["box_right"] - rows.columns["box_left"] == 32
                assert rows.columns["box_bottom"] - rows.columns["box_top"] == 32
            else:
                assert trace.drop.reason == WHY[told["kind"]]
    assert set(kinds) == set(KINDS)


def test_small_persons_are_left_out_where_asked(drawn):
    photos = run_part(recipe_of(drawn, min_side=33).parts()[0], "person", None)
    assert {trace.drop.reason for trace in photos.traces} == {*WHY.values(), "small_person"} - {
        "no_gender_named",
        "both_genders_named",
    }


def _resized(path):
    Image.open(path).resize((20, 18)).save(path)


def _turned(path):
    image = Image.open(path)
    image.getexif()[0x0112] = 6  # a viewer turns it by 90 degrees
    image.save(path, exif=image.getexif())


@pytest.mark.parametrize(("change", "size"), [(_resized, "20 x 18"), (_turned, "36 x 40")])
def test_a_photograph_of_another_size_than_its_annotations_is_refused(tmp_path, change, size):
    settings = edit_fakes.write_folder(tmp_path, 3)
    change(settings["images"] / "2.png")
    with pytest.raises(DatasetError, match=f"is {size} px, and 40 x 36 px in its annotations") as told:
        run_part(open_recipe("genswap", settings).parts()[0], "person", None)
    assert told.value.where == str(settings["images"] / "2.png")


def test_an_image_goes_to_the_first_subject_that_its_captions_name(tmp_path):
    settings = edit_fakes.write_folder(tmp_path, 6)
    subjects = {"dog": ["dogs", "dog"], "doctor": ["doctor"], "rest": []}
    recipe = open_recipe("genswap", {**settings, "subjects": subjects})
    assert len(run_part(recipe.parts()[0], "dog", None).traces) == 6
    swapped = open_recipe("genswap", {**settings, "subjects": {"do": ["do"], "rest": []}})
    assert len(run_part(swapped.parts()[0], "rest", None).traces) == 6


def test_what_a_face_reader_perceives_is_noted_and_drops_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.ADAPTERS, "fake.face_reader", "edit_fakes")
    settings = {**edit_fakes.write_folder(tmp_path, 9), "perceived": ["gender"], "face_reader": "fake:reader"}
    recipe = open_recipe("genswap", settings)
    photos = run_part(recipe.parts()[0], "person", None)
    noted = [rows.columns["perceived_gender"] for rows in photos.kept.values()]
    assert noted == ["" if number % 3 == 1 else ("male", "female")[number % 2 == 0] for number in range(1, 10)]
    assert recipe.models()["face_reader"] == "fake:reader"
    assert "face_reader" not in open_recipe("genswap", {}).models()


def test_the_same_photographs_are_drawn_every_time(drawn, tmp_path):
    write_photos(tmp_path / "again", photos=2)
    for subject in range(2):
        name = f"images/{subject + 1:012d}.png"
        assert (tmp_path / "again" / name).read_bytes() == (drawn / name).read_bytes()
    with pytest.raises(DatasetError, match="remove the folder"):
        write_photos(tmp_path / "again", photos=2)


def test_faces_for_genswap_come_with_labels_and_some_are_too_young(drawn):
    options = recipe_of(
        drawn, faces=drawn, face_labels=drawn / "faces.csv", face_genders={"male": "male", "female": "female"}
    ).settings
    with (drawn / "faces.csv").open(newline="") as table:
        ages = Counter(row["age"] for row in csv.DictReader(table))
    assert ages["10-19"] == 16
    faces = faces_of(options)
    assert {group: len(paths) for group, paths in faces.of.items()} == {"male": 40, "female": 40}
    assert faces.open(faces.of["male"][0]).size[0] in range(24, 32)


def test_boxes_are_rounded_outwards_and_stay_inside_the_image():
    assert whole_box((0.4, 7.6, 31.01, 48.2), 40, 48) == (0, 7, 32, 48)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole.pop("images"), "have no list 'images'"),
        (lambda whole: whole["annotations"][0].pop("caption"), "an entry has no 'caption'"),
        (lambda whole: whole["images"][0].update(file_name="../../secret.png"), "leads out|inside|absolute|relative"),
    ],
)
def test_annotations_that_are_none_are_refused(tmp_path: Path, change, message):
    paths = edit_fakes.write_folder(tmp_path, 2)
    whole = json.loads(paths["captions"].read_text())
    change(whole)
    paths["captions"].write_text(json.dumps(whole))
    with pytest.raises(DatasetError, match=message):
        read_coco(paths["captions"], paths["instances"])


@pytest.mark.parametrize(
    ("file", "key", "entry", "problem"),
    [
        ("captions", "images", {"id": "abc"}, "'id' of an entry is not a whole number"),
        ("captions", "images", {"width": None}, "'width' of an entry is not a whole number"),
        ("captions", "images", {"height": 36.5}, "'height' of an entry is not a whole number"),
        ("captions", "images", {"file_name": 7}, "'file_name' of an entry is not text"),
        ("captions", "images", None, "an entry is no object"),
        ("captions", "annotations", {"image_id": "abc"}, "'image_id' of an entry is not a whole number"),
        ("captions", "annotations", {"caption": None}, "'caption' of an entry is not text"),
        ("captions", "annotations", None, "an entry is no object"),
        ("instances", "annotations", None, "an entry is no object"),
        ("instances", "annotations", {"category_id": [1]}, "'category_id' of an entry is not a whole number"),
        ("instances", "annotations", {"bbox": [1, 2]}, "'bbox' of an entry is not four numbers"),
        ("instances", "annotations", {"bbox": ["1", "2", "3", "4"]}, "'bbox' of an entry is not four numbers"),
        ("instances", "annotations", {"bbox": [float("nan"), 0, 5, 5]}, "'bbox' of an entry is not four numbers"),
        ("instances", "annotations", {"bbox": None}, "'bbox' of an entry is not four numbers"),
        ("instances", "categories", "person", "an entry is no object"),
        ("instances", "categories", {"name": None}, "'name' of an entry is not text"),
    ],
)
def test_an_entry_that_is_not_as_cocos_is_named_with_its_file(tmp_path, file, key, entry, problem):
    paths = edit_fakes.write_folder(tmp_path, 2)
    whole = json.loads(paths[file].read_text())
    whole[key][0] = whole[key][0] | entry if isinstance(entry, dict) else entry
    paths[file].write_text(json.dumps(whole))
    with pytest.raises(DatasetError) as told:
        read_coco(paths["captions"], paths["instances"])
    assert problem in told.value.problem
    assert (told.value.where or "").startswith(f"{paths[file]}: {json.dumps(whole[key][0])[:20]}")


def test_a_category_that_is_not_there_is_told(tmp_path):
    paths = edit_fakes.write_folder(tmp_path, 2)
    with pytest.raises(DatasetError, match="there is no category 'cat'") as told:
        read_coco(paths["captions"], paths["instances"], category="cat")
    assert "person, dog" in (told.value.remedy or "")
