"""UTKFace: labels are in file names, and some of these are broken."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from small_originals import drawn

from fairgate.data.published.utkface import BROKEN
from fairgate.ground.errors import DatasetError

WHOLE = ["2_0_0_20170116174525001", "3_1_1_20170116174525002", "70_0_2_20170116174525003", "116_1_4_20170116174525004"]
BAD = [
    "39_1_20170116174525125.jpg.chip.jpg",  # the race is absent
    "61_1_20170109150557335.jpg.chip.jpg",
    "24_0_1_20170116220224657 .jpg.chip.jpg",  # a space
    "55_0_0_20170116232725357jpg.chip.jpg",  # a dot is absent
    "53__0_20170116184028385.jpg.chip.jpg",  # the gender is absent
    "20_2_0_20170116184028386.jpg.chip.jpg",  # no such gender
    "140_0_0_20170116184028387.jpg.chip.jpg",  # no such age
]


def given(folder: Path, packed: bool) -> Path:
    folder.mkdir()
    names = [*(f"{name}.jpg.chip.jpg" for name in WHOLE), *BAD]
    files = {f"UTKFace/{name}": drawn(number, "JPEG") for number, name in enumerate(names)}
    if packed:
        with tarfile.open(folder / "UTKFace.tar.gz", "w:gz") as archive:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, BytesIO(data))
    else:
        for name, data in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("packed", [True, False])
def test_whole_names_become_groups_and_broken_ones_are_counted(take, opened, tmp_path, packed):
    made = take("utkface", given(tmp_path / "given", packed))
    index = opened("utkface").index
    by_path = sorted(
        zip(index.path.tolist(), *(index.attributes[name].tolist() for name in ("age", "gender", "race")), strict=True)
    )
    assert [entry[1:] for entry in by_path] == [
        ("70 and older", "Female", "Others"),
        ("0-2", "Male", "White"),
        ("3-9", "Female", "Black"),
        ("70 and older", "Male", "Asian"),
    ]
    assert made.left_out == {BROKEN: 7}
    assert made.manifest.recipe["left_out"] == {BROKEN: 7}
    assert opened("utkface").verify() == []


def test_the_photographs_in_the_wild_are_another_part(take, tmp_path):
    folder = given(tmp_path / "given", packed=False)
    with pytest.raises(DatasetError, match="nothing of 'utkface' is in the folder"):
        take("utkface", folder, part="wild")
    (folder / "part1").mkdir()
    (folder / "part1" / "9_1_3_20170109150557335.jpg").write_bytes(drawn(77, "JPEG"))
    made = take("utkface", folder, part="wild")
    assert made.manifest.ref == "utkface_wild@v1"
    assert made.manifest.counts.groups["age"]["3-9"] == made.manifest.n_rows == 1


def test_a_mirror_that_has_every_image_twice_is_refused(take, tmp_path):
    folder = given(tmp_path / "given", packed=False)
    (folder / "crop_part1").mkdir()
    (folder / "crop_part1" / f"{WHOLE[0]}.jpg.chip.jpg").write_bytes(drawn(0, "JPEG"))
    with pytest.raises(DatasetError, match="two images are called"):
        take("utkface", folder)


def test_what_no_program_can_fetch_says_how_to_get_it(take):
    with pytest.raises(DatasetError) as caught:
        take("utkface")
    assert caught.value.where == "https://susanqq.github.io/UTKFace/"
    assert "--from FOLDER" in str(caught.value.remedy)
