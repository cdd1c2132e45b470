"""COCO people: labels by form, photographs and captions of COCO, joined by number."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from small_originals import drawn

from fairgate.data.published.coco_people import UNSURE
from fairgate.data.published.source_files import ABSENT
from fairgate.ground.errors import DatasetError

LABELS = """\
id,split,bb_gender,bb_skin
785,val,Female,Light
872,val,Male,Dark
42,val,Unsure,Light
73,val,Male,Both
999,val,Male,Light
"""


def given(folder: Path, labels: str = LABELS, captions: object = None) -> Path:
    folder.mkdir()
    (folder / "images_val2014.csv").write_text(labels)
    with zipfile.ZipFile(folder / "val2014.zip", "w") as archive:
        for number in (785, 872, 42, 73, 1):
            archive.writestr(f"val2014/COCO_val2014_{number:012d}.jpg", drawn(number, "JPEG"))
    if captions is not None:
        (folder / "captions_val2014.json").write_text(json.dumps(captions))
    return folder


def note(number: int, image: int, caption: str) -> dict[str, object]:
    return {"id": number, "image_id": image, "caption": caption}


def test_photographs_of_one_gender_and_tone_become_rows_with_their_first_caption(take, opened, tmp_path):
    captions = {"annotations": [note(9, 785, "Later."), note(3, 785, "A woman skis. "), note(4, 872, "A man.")]}
    made = take("coco_people", given(tmp_path / "given", captions=captions))
    assert made.left_out == {UNSURE: 2, ABSENT: 1}
    dataset = opened("coco_people")
    assert dataset.index.caption.tolist() == ["A woman skis.", "A man."]
    assert dataset.index.attributes["skin"].tolist() == ["Light", "Dark"]
    [(_, images)] = dataset.image_batches(9)
    assert images == [drawn(785, "JPEG"), drawn(872, "JPEG")]
    assert set(made.manifest.lineage) == {"source", "images_val2014.csv", "captions_val2014.json", "val2014.zip"}


def test_without_captions_they_are_empty_and_the_manifest_says_so(take, opened, tmp_path):
    made = take("coco_people", given(tmp_path / "given"))
    assert opened("coco_people").index.caption.tolist() == ["", ""]
    assert made.manifest.recipe["captions"] is False


@pytest.mark.parametrize("captions", [[], {"annotations": {}}, {"annotations": [7]}, {"annotations": [note(1, 2, 3)]}])
def test_captions_that_are_not_cocos_are_refused(take, tmp_path, captions):
    with pytest.raises(
        DatasetError, match=r"no list 'annotations'|an entry is no object|'caption' of an entry is not text"
    ):
        take("coco_people", given(tmp_path / "given", captions=captions))


@pytest.mark.parametrize(
    ("line", "problem"), [("785.0,val,Male,Light", "is no number"), ("785,val,Male,Light", "has two lines")]
)
def test_numbers_that_are_none_or_doubled_are_refused_with_their_line(take, tmp_path, line, problem):
    with pytest.raises(DatasetError, match=problem) as caught:
        take("coco_people", given(tmp_path / "given", LABELS + line))
    assert "images_val2014.csv:7" in str(caught.value.where)


def test_photographs_that_are_not_there_are_named(take, tmp_path):
    folder = given(tmp_path / "given")
    (folder / "val2014.zip").unlink()
    with pytest.raises(DatasetError, match="nothing of 'coco_people' is in the folder"):
        take("coco_people", folder)
