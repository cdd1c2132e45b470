"""The recipe `faces`: labelled photographs become sets; what cannot be used is dropped with its reason."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from in_memory_build import Finished, rows_of, run_recipe
from PIL import Image

from fairgate.builds.recipes import open_recipe
from fairgate.builds.recipes.faces import ListedPhotographs
from fairgate.data import write_dataset
from fairgate.ground.errors import DatasetError, RecipeError
from fairgate.ground.randomness import stream

PHOTOGRAPHS = Path(__file__).parents[4] / "shared/real/fairface_photos"


def photograph(path, seed, size=(80, 70)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = stream(seed, "photograph").integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def run(settings):
    recipe = open_recipe("faces", settings)
    [finished] = run_recipe(recipe, "person")
    drops = {trace.set_id: trace.drop.reason for trace in finished.traces if trace.drop}
    return recipe, rows_of(recipe, finished), drops


@pytest.fixture
def fairface(tmp_path):
    """A FairFace-like folder: three good photographs, and one of everything that is not."""
    lines = ["file,age,gender,race,service_test"]
    for number, (age, gender, race) in enumerate(
        [
            ("20-29", "Male", "White"),
            ("more than 70", "Female", "Latino_Hispanic"),
            ("3-9", "Female", "East Asian"),
            ("20-29", "Male", "Martian"),
            ("20-29", "", "White"),
            ("20-29", "Male", "White"),
            ("20-29", "Male", "White"),
            ("20-29", "Male", "White"),
            ("20-29", "Male", "White"),
        ],
        start=1,
    ):
        lines.append(f"val/{number}.png,{age},{gender},{race},{number % 2 == 0}")
        if number != 6:
            photograph(
                tmp_path / f"val/{number}.png", 1 if number == 9 else number, (40, 80) if number == 8 else (80, 70)
            )
    whole = (tmp_path / "val/7.png").read_bytes()
    (tmp_path / "val/7.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    return {"folder": str(tmp_path), "labels": str(tmp_path / "labels.csv")}


def test_fairface_photographs_come_in_untouched_and_every_other_line_has_its_reason(fairface, tmp_path):
    recipe, rows, drops = run(fairface)
    assert drops == {
        "val-4": "no_label",
        "val-5": "no_label",
        "val-6": "absent",
        "val-7": "unreadable",
        "val-8": "too_small",
    }
    assert [row["set_id"] for row in rows] == ["val-1", "val-2", "val-3"]  # val-9 is val-1 once more
    assert rows[1]["image"] == (tmp_path / "val/2.png").read_bytes()
    assert (rows[1]["race"], rows[1]["service_test"]) == ("Latino_Hispanic", "True")
    manifest = write_dataset(
        tmp_path / "out",
        rows,
        name="faces",
        version="v1",
        attributes=recipe.attributes(),
        recipe={},
        licence="CC BY 4.0",
        counterfactual=recipe.counterfactual,
    )
    assert manifest.n_sets == 3
    assert len(manifest.attributes["race"]) == 7


@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the real FairFace photographs are not there")
def test_real_fairface_photographs_come_in_balanced_and_whole():
    labels = str(PHOTOGRAPHS / "labels.csv")
    recipe, rows, drops = run({"folder": str(PHOTOGRAPHS), "labels": labels, "found_by": "file name"})
    assert drops == {}
    cells = Counter((row["race"], row["gender"]) for row in rows)
    assert cells == dict.fromkeys(itertools.product(*(recipe.attributes()[name] for name in ("race", "gender"))), 18)


def test_other_columns_of_a_table_can_be_the_attributes(fairface):
    recipe, rows, drops = run(fairface | {"attributes": {"service_test": ["True", "False"]}})
    assert recipe.attributes() == {"service_test": ["True", "False"]}
    assert len(rows) == 5
    assert "no_label" not in drops.values()


def test_names_of_the_chicago_face_database_are_read(tmp_path):
    names = ["CFD-WM-001-014-N", "CFD-BF-002-007-HC", "CFD-IF-601-517-N", "CFD-MM-310-002-HO", "notes", "CFD-XM-1-1-N"]
    for number, name in enumerate(names):
        photograph(tmp_path / f"CFD/{name[4:6]}/{name}.jpg", number)
    _, rows, drops = run({"layout": "cfd", "folder": str(tmp_path)})
    read = {row["path"].split("/")[-1]: (row["race"], row["gender"], row["expression"], row["model"]) for row in rows}
    assert read == {
        "CFD-WM-001-014-N.jpg": ("White", "Male", "neutral", "WM-001"),
        "CFD-BF-002-007-HC.jpg": ("Black", "Female", "happy, closed mouth", "BF-002"),
        "CFD-IF-601-517-N.jpg": ("Indian", "Female", "neutral", "IF-601"),
        "CFD-MM-310-002-HO.jpg": ("Multiracial", "Male", "happy, open mouth", "MM-310"),
    }
    assert sorted(drops.values()) == ["no_label", "no_label"]
    _, neutral, _ = run({"layout": "cfd", "folder": str(tmp_path), "expressions": ["neutral"]})
    assert len(neutral) == 2


def test_the_chicago_face_database_is_narrowed_to_neutral_faces_of_white_and_black_people(tmp_path):
    names = ["WM-001-014-N", "BF-002-007-N", "BF-002-008-A", "AF-003-001-N"]
    for number, name in enumerate(names):
        photograph(tmp_path / f"CFD-{name}.jpg", number)
    of_the_paper = {"race": ["White", "Black"], "gender": ["Male", "Female"]}
    given = {"layout": "cfd", "folder": str(tmp_path), "attributes": of_the_paper, "expressions": ["neutral"]}
    _, rows, drops = run(given)
    assert {(row["race"], row["gender"]) for row in rows} == {("White", "Male"), ("Black", "Female")}
    assert list(drops.values()) == ["no_label"]


def coco(tmp_path):
    images, boxes, captions = [], [], []
    for number, (persons, told) in enumerate(
        [
            ([[5, 5, 70, 65]], ["A man rides.", "A person on a horse"]),
            ([[5, 5, 70, 65], [0, 0, 9, 9]], ["A woman and her dog"]),
            ([], ["A woman is told of"]),
            ([[5, 5, 70, 65]], ["Someone cooks"]),
            ([[5, 5, 6, 65]], ["A woman cooks"]),
        ],
        start=1,
    ):
        photograph(tmp_path / f"{number:012d}.jpg", number)
        images.append({"id": number, "file_name": f"{number:012d}.jpg", "width": 80, "height": 70})
        boxes += [{"image_id": number, "category_id": 1, "bbox": box, "iscrowd": 0} for box in persons]
        boxes.append({"image_id": number, "category_id": 18, "bbox": [0, 0, 5, 5], "iscrowd": 0})
        captions += [
            {"image_id": number, "id": 10 * number + place, "caption": text} for place, text in enumerate(told)
        ]
    categories = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
    for name, listed in (("instances", boxes), ("captions", captions)):
        text = json.dumps({"images": images, "annotations": listed, "categories": categories})
        (tmp_path / f"{name}.json").write_text(text)
    files = {"labels": str(tmp_path / "instances.json"), "captions": str(tmp_path / "captions.json")}
    return {"layout": "coco", "folder": str(tmp_path), **files}


def test_coco_photographs_of_one_person_take_the_gender_that_their_captions_name(tmp_path):
    _, rows, drops = run(coco(tmp_path))
    assert [(row["path"], row["gender"], row["caption"]) for row in rows] == [
        ("000000000001.jpg", "male", "A man rides.")
    ]
    assert drops == {
        "000000000002": "several_persons",
        "000000000003": "no_person",
        "000000000004": "no_label",
        "000000000005": "small_person",
    }


def test_a_photograph_of_another_size_than_its_annotations_is_refused(tmp_path):
    settings = coco(tmp_path)
    photograph(tmp_path / "000000000001.jpg", 1, size=(160, 140))
    with pytest.raises(DatasetError, match="is 160 x 140 px, and 80 x 70 px in its annotations"):
        run(settings)


def test_annotations_are_read_once(tmp_path, monkeypatch):
    options = open_recipe("faces", coco(tmp_path)).settings
    read = []
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *how, **more: read.append(path.name) or opened(path, *how, **more))
    [sets] = ListedPhotographs(options).shards("person", Finished())
    assert len(sets) == 5
    assert sorted(read) == ["captions.json", "instances.json"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"layout": "table"}, "`labels` names the CSV file"),
        ({"layout": "coco", "labels": "instances.json"}, "`captions` names the captions file"),
        ({"layout": "cfd", "expressions": ["smiling"]}, "has 'smiling'; there are: neutral"),
    ],
)
def test_a_layout_without_its_files_is_refused(settings, told):
    with pytest.raises(RecipeError, match=told):
        open_recipe("faces", {"folder": "photographs"} | settings)


def test_an_empty_folder_and_a_path_that_leads_out_of_it_are_refused(tmp_path):
    with pytest.raises(DatasetError, match="holds no JPEG or PNG files"):
        run({"layout": "cfd", "folder": str(tmp_path)})
    (tmp_path / "labels.csv").write_text("file,age,gender,race\n../secret.png,20-29,Male,White\n")
    with pytest.raises(DatasetError, match="leads out of the images folder"):
        run({"folder": str(tmp_path), "labels": str(tmp_path / "labels.csv")})
