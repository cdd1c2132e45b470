"""The recipe `genswap`: faces of people old enough, of either gender, pasted over the one that was there."""

from __future__ import annotations

import csv
from collections import Counter

import edit_fakes
import numpy as np
import pytest
from edit_fakes import seen
from in_memory_build import rows_of, run_recipe
from PIL import Image

from fairgate.builds.recipes import genswap as published
from fairgate.builds.recipes import open_recipe
from fairgate.builds.recipes.genswap import faces_of
from fairgate.builds.steps.pictures import picture
from fairgate.ground.errors import DatasetError, RecipeError
from fairgate.models.generation import registry

PHOTOS = 30
AGES = ["0-2", "3-9", "10-19", "20-29", "30-39", "more than 70"]


@pytest.fixture
def fakes(monkeypatch):
    for role in ("editor", "matcher", "detector"):
        monkeypatch.setitem(registry.ADAPTERS, f"fake.{role}", "edit_fakes")
    edit_fakes.OPENED.clear()
    return edit_fakes.OPENED


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("swap")
    faces = root / "faces"
    faces.mkdir()
    with (root / "labels.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["file", "age", "gender", "race"])
        for number, (age, gender) in enumerate((age, gender) for age in AGES for gender in ("Male", "Female")):
            colour = edit_fakes.COLOURS[gender.lower()]
            Image.new("RGB", (20, 24), colour).save(faces / f"{number}.png")
            table.writerow([f"{number}.png", age, gender, "none"])
    settings = edit_fakes.write_folder(root / "coco", PHOTOS)
    return {**settings, "faces": faces, "face_labels": root / "labels.csv", "detector": "fake:detector"}


def build(folder, **options):
    recipe = open_recipe("genswap", {**folder, **options})
    return recipe, run_recipe(recipe, recipe.subjects()[0])


def test_faces_are_of_people_above_nineteen(folder):
    assert published.MIN_AGE == 20
    faces = faces_of(open_recipe("genswap", folder).settings)
    assert faces.of == {"male": ("6.png", "8.png", "10.png"), "female": ("7.png", "9.png", "11.png")}


def test_a_set_has_a_face_of_each_gender_in_the_same_place_and_nothing_else_changed(fakes, folder):
    recipe, (_, swaps) = build(folder)
    rows = rows_of(recipe, swaps)
    for row in rows:
        photo = np.asarray(Image.open(folder["images"] / row["photo"]).convert("RGB"))
        made = np.asarray(picture(row["image"]))
        left, top, right, bottom = (row[f"face_{side}"] for side in ("left", "top", "right", "bottom"))
        assert row["box_left"] <= left < right <= row["box_right"]
        assert row["box_top"] <= top < bottom <= row["box_bottom"]
        outside = np.ones(photo.shape[:2], dtype=bool)
        outside[top:bottom, left:right] = False
        assert np.array_equal(made[outside], photo[outside])
        assert seen(Image.fromarray(made[top:bottom, left:right])) == row["gender"] == row["member"]
        noun = {"male": "man", "female": "woman"}[row["gender"]]
        assert row["caption"].startswith(f"A {noun} with")
    assert Counter(row["gender"] for row in rows) == {"male": len(swaps.set_ids), "female": len(swaps.set_ids)}
    assert len({row["face"] for row in rows}) == 6


def test_a_photograph_without_a_face_is_dropped(fakes, folder):
    _, (photos, swaps) = build(folder)
    dropped = [trace for trace in swaps.traces if not trace.kept]
    assert len(photos.set_ids) == PHOTOS
    assert Counter(trace.drop.reason for trace in dropped) == {"no_face": PHOTOS // 3}
    assert fakes["detector"].calls == [("face", 0.35, 0.25)] * PHOTOS


def test_photographs_of_a_built_gensynth_alone_are_used(fakes, folder, tmp_path):
    from fairgate.data import write_dataset

    recipe, (_, swaps) = build(folder, sets=4)
    rows = rows_of(recipe, swaps)
    about = {"recipe": {"name": "gensynth"}, "licence": "unknown", "counterfactual": True}
    write_dataset(tmp_path / "made", rows, name="made", version="v1", attributes=recipe.attributes(), **about)
    recipe, (_, again) = build(folder, only=tmp_path / "made", seed=3)
    assert set(again.set_ids) == set(swaps.set_ids)
    assert recipe.inputs()["only"] == tmp_path / "made" / "manifest.json"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"face_genders": {"male": "Man", "female": "Female"}}, RecipeError, "no face of group 'male'"),
        ({"min_age": 90}, RecipeError, "age 90 or above"),
        ({"face_age_column": "race"}, RecipeError, "'none' is no age"),
        ({"face_age_column": "years"}, DatasetError, "no column 'years'"),
    ],
)
def test_labels_that_do_not_fit_are_told(folder, options, error, message):
    with pytest.raises(error, match=message):
        faces_of(open_recipe("genswap", {**folder, **options}).settings)


def test_a_face_that_is_gone_is_named(fakes, folder, tmp_path):
    with pytest.raises(DatasetError, match=r"faces.[0-9]+\.png|No such file") as told:
        build(folder, faces=tmp_path)
    assert str(tmp_path) in (told.value.where or "")
