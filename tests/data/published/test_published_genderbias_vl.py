"""GenderBias-VL: tables of edits name the gender before the edit, a Waiter becomes a Waitress, and tables differ."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from small_originals import drawn

from fairgate.data.published.genderbias_vl import ALONE, TREES
from fairgate.data.published.source_files import ABSENT
from fairgate.ground.errors import DatasetError

KEYS = [("Waiter", "female", "3_1.png"), ("Waiter", "male", "5_2.png"), ("Civil_engineer", "male", "1_0.png")]


def question(kind: str, key: tuple[str, str, str], occupation: str) -> dict[str, object]:
    return {
        **{"query": "What is ...?", "gt_choice": 0, "gt_choices": [occupation, "Chef"], "id": 1, "occ": occupation},
        **{"filename": key[2].split(".")[0], "occ_sim": "Chef", "gender": key[1], "image_type": kind},
        "image": "/".join((TREES[kind], *key)),
    }


def given(folder: Path, packed: bool = False) -> Path:
    """Questions about three pairs, one of them twice; one picture that only the base table names."""
    tables = folder / "test_meta_file" / "VLbias"
    tables.mkdir(parents=True)
    waiters = {"base": {"female": "Waitress", "male": "Waiter"}, "cf": {"female": "Waiter", "male": "Waitress"}}
    for kind in TREES:
        asked = [question(kind, key, waiters[kind][key[1]] if key[0] == "Waiter" else "Civil engineer") for key in KEYS]
        asked.append(asked[0])
        if kind == "base":
            asked.append(question(kind, ("Chef", "male", "9_9.png"), "Chef"))
        (tables / f"occ_test_{kind}_ask_gender.json").write_text(json.dumps(asked))
        (tables / f"occ_test_{kind}_ask_gender_swap_option.json").write_text("[]")
        files = {"/".join((TREES[kind], *key)): picture(kind, number) for number, key in enumerate(KEYS)}
        if packed:
            with tarfile.open(folder / f"{TREES[kind]}.tar.gz", "w:gz") as archive:
                for name, data in files.items():
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    archive.addfile(entry, BytesIO(data))
        else:
            for name, data in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
    return folder


def picture(kind: str, number: int) -> bytes:
    return drawn(number + (100 if kind == "cf" else 0))


@pytest.mark.parametrize("packed", [True, False])
def test_the_edit_of_a_woman_is_the_man_of_her_set(take, opened, tmp_path, packed):
    made = take("genderbias_vl", given(tmp_path / "given", packed))
    dataset = opened("genderbias_vl")
    assert made.manifest.members == ["male", "female"]
    assert made.left_out == {ALONE: 1}
    [(_, images)] = dataset.image_batches(99)
    at = {(dataset.index.set_id[row], dataset.index.member[row]): row for row in range(6)}
    assert images[at["Waiter-female-3_1", "female"]] == picture("base", 0)
    assert images[at["Waiter-female-3_1", "male"]] == picture("cf", 0)
    assert images[at["Waiter-male-5_2", "male"]] == picture("base", 1)
    assert images[at["Waiter-male-5_2", "female"]] == picture("cf", 1)
    assert set(dataset.index.subject) == {"Waiter", "Civil engineer"}, "a Waitress would divide the pair"
    assert dataset.index.attributes["gender"].tolist() == dataset.index.member.tolist()
    assert dataset.verify() == []


def test_a_pair_that_lacks_a_picture_is_left_out_and_counted(take, tmp_path):
    folder = given(tmp_path / "given")
    (folder / TREES["cf"] / "Waiter" / "male" / "5_2.png").unlink()
    assert take("genderbias_vl", folder).left_out == {ALONE: 1, ABSENT: 2}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"image": "../../etc/passwd"}, "leads out"),
        ({"image": "xl_generate_bleach/Chef/male/1.png"}, "is not about a picture of xl_generate_base"),
        ({"gender": "male"}, "is not about a picture of xl_generate_base"),
        ({"image": 7}, "is not about a picture of xl_generate_base"),
    ],
)
def test_questions_that_are_not_of_the_dataset_are_refused(take, tmp_path, change, problem):
    folder = given(tmp_path / "given")
    path = folder / "test_meta_file/VLbias/occ_test_base_ask_gender.json"
    path.write_text(json.dumps([{**question("base", KEYS[0], "Waitress"), **change}]))
    with pytest.raises(DatasetError, match=problem):
        take("genderbias_vl", folder)


@pytest.mark.parametrize("text", ["{}", "[", "[1]", '"x"'])
def test_a_file_that_is_no_list_of_questions_is_refused(take, tmp_path, text):
    folder = given(tmp_path / "given")
    (folder / "test_meta_file/VLbias/occ_test_cf_ask_gender.json").write_text(text)
    with pytest.raises(DatasetError):
        take("genderbias_vl", folder)
