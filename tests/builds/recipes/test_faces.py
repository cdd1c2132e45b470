"""The recipe `faces`: labelled photographs become sets; what cannot be used is dropped with its reason."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from in_memory_build import rows_of, run_recipe
from PIL import Image

from fairgate.builds.recipes import open_recipe
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


def test_labels_are_needed():
    with pytest.raises(RecipeError, match="labels"):
        open_recipe("faces", {"folder": "photographs"})


def test_a_path_that_leads_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("file,age,gender,race\n../secret.png,20-29,Male,White\n")
    with pytest.raises(DatasetError, match="leads out of the images folder"):
        run({"folder": str(tmp_path), "labels": str(tmp_path / "labels.csv")})
