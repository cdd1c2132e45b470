"""Builds `gensynth-embedded` and `genswap-embedded` of params.yaml on a few photographs, with the shipped models."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import yaml
from in_memory_build import rows_of, run_recipe
from PIL import Image

from fairgate.builds.build import read_build
from fairgate.builds.recipes import open_recipe
from fairgate.builds.steps.person_photographs import BOX
from fairgate.builds.steps.pictures import picture
from fairgate.ground.errors import ModelError
from fairgate.models.generation import open_model
from fairgate.portraits.photos import write_photos

REPOSITORY = Path(__file__).parents[3]
PHOTOS = 10


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded") / "photos"
    write_photos(folder, photos=PHOTOS, faces=6)
    return {"captions": folder / "captions.json", "instances": folder / "instances.json", "images": folder / "images"}


def built(name, drawn, params="params.yaml", **options):
    """The build's recipe for doctors alone, on these photographs."""
    recipe = read_build(name, REPOSITORY / params)
    settings = recipe.settings.model_dump() | drawn | {"subjects": {"doctor": ["doctor"]}} | options
    return open_recipe(recipe.name, settings)


@pytest.mark.parametrize("params", ["params.yaml", "examples/gensynth/params.yaml"])
def test_every_build_that_the_repository_names_is_read(params):
    path = REPOSITORY / params
    for name in yaml.safe_load(path.read_text(encoding="utf-8"))["builds"]:
        assert read_build(name, path).name


@pytest.mark.nightly  # test_tiny_editor.py shows that it edits gender, test_gensynth.py that nothing else is changed
def test_the_shipped_editor_turns_people_into_who_was_asked_for_and_leaves_the_room_alone(drawn, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    few = {"pilot_photos": 3, "neighbours": 16, "tau_real": 0.0, "sets": 3, "edit_steps": 5, "guidances": [9.5]}
    recipe = built("gensynth-embedded", drawn, **few, perceived=[])
    _, pilot, edits = run_recipe(recipe, "doctor")
    rows = rows_of(recipe, edits)
    assert len(rows) == 6
    crops = [picture(row["image"]).crop(tuple(row[column] for column in BOX)) for row in rows]
    matcher = open_model("matcher", recipe.settings.matcher)
    groups = ["male", "female"]
    asked = matcher.embed_texts([f"a photo of a {group} doctor" for group in groups])
    seen = (matcher.embed_images(crops) @ asked.T).argmax(axis=1)
    assert [groups[place] for place in seen] == [row["gender"] for row in rows]
    for row in rows:
        photo, made = (np.asarray(picture(each)) for each in (_photo(drawn, row), row["image"]))
        inside = np.zeros(photo.shape[:2], dtype=bool)
        inside[row["box_top"] : row["box_bottom"], row["box_left"] : row["box_right"]] = True
        assert np.array_equal(made[~inside], photo[~inside])
        assert not np.array_equal(made[inside], photo[inside])
    made = pilot.meter.counts["edits"] + edits.meter.counts["edits"]
    assert pilot.meter.counts["unet"] + edits.meter.counts["unet"] == made * 5 * 3


def test_the_shipped_finder_finds_faces_to_swap_and_the_reader_notes_skin_tones(drawn, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    folder = drawn["images"].parent
    recipe = built("genswap-embedded", drawn, faces=folder, face_labels=folder / "faces.csv")
    photos, swaps = run_recipe(recipe, "doctor")
    assert len(swaps.set_ids) >= len(photos.set_ids) - 1
    for row in rows_of(recipe, swaps):
        assert 8 <= row["face_right"] - row["face_left"] <= 14  # a drawn face is 9 px wide at this size
        assert row["box_top"] <= row["face_top"] < row["face_bottom"] <= row["box_bottom"]
        assert row["perceived_skin_tone"] in ("light", "tan", "brown", "dark")


@pytest.mark.nightly
def test_edits_are_filtered_by_a_dino_that_sees_pictures_alone(drawn, monkeypatch, tmp_path):
    monkeypatch.chdir(REPOSITORY)
    example = run_path(str(REPOSITORY / "examples/gensynth/train_dino.py"))
    example["save"](example["train"](example["people"](4), 5), tmp_path / "dino")
    uri = f"hf:{tmp_path / 'dino'}"
    with pytest.raises(ModelError, match="embeds images alone"):
        open_model("matcher", uri).embed_texts(["a doctor"])
    shares = example["alike"](uri, photos=4, neighbours=3)
    assert shares["subject by chance"] < 0.3
    assert all(0 <= share <= 1 for share in shares.values())
    few = {"pilot_photos": 3, "group_neighbours": 16, "tau_real": 0.0, "tau_group": 0.0, "sets": 3, "edit_steps": 5}
    recipe = built(
        "gensynth-dino-embedded",
        drawn,
        params="examples/gensynth/params.yaml",
        **few,
        guidances=[9.5],
        perceived=[],
        matcher=uri,
    )
    _, pilot, edits = run_recipe(recipe, "doctor")
    assert pilot.meter.counts["edits"] == 3 * 8
    rows = rows_of(recipe, edits)
    assert [row["gender"] for row in rows] == ["male", "female"] * 3
    for row in rows:
        assert row["p_real"] * 9 == pytest.approx(round(row["p_real"] * 9)), "of nine neighbours"
        assert row["p_real"] > 0
        assert row["p_group"] * 16 == pytest.approx(round(row["p_group"] * 16)), "of sixteen"


def _photo(drawn, row):
    return Image.open(drawn["images"] / row["photo"])
