"""Names that a reader cannot tell apart are refused when written and found when read."""

from __future__ import annotations

import json

import pytest

from fairgate.data import open_dataset, read_dataset
from fairgate.data.rows import look_alikes
from fairgate.ground.errors import DatasetError


@pytest.mark.parametrize(
    "other",
    ["d\u0430rk", "dark ", "dark\u200b", "d\u0251rk", "\uff44ark", "\U0001d41dark"],
    ids=["Cyrillic a", "space", "no width", "phonetic a", "full width", "mathematical"],
)
def test_a_name_with_another_letter_looks_alike(other):
    assert look_alikes(["light", "dark", other]) == ("dark", other)


@pytest.mark.parametrize(
    "names",
    [
        ["dark", "Dark", "darker", "drak", "medium"],
        ["rn", "m", "cl", "d", "0", "O", "1", "l"],
        ["\u043c\u0443\u0436\u0447\u0438\u043d\u0430", "\u0436\u0435\u043d\u0449\u0438\u043d\u0430"],
        ["\u7537", "\u5973"],
        ["0-2", "3-9", "10-19"],
    ],
    ids=["Latin", "shapes", "Cyrillic", "Han", "ages"],
)
def test_different_names_of_any_script_are_different(names):
    assert look_alikes(names) is None


def test_groups_attributes_and_subjects_that_look_alike_are_not_written(write, rows):
    groups = {"tone": ["light", "dark", "d\u0430rk"], "gender": ["man", "woman"]}
    with pytest.raises(DatasetError, match=r"two groups of 'tone' look alike.*U\+0430 CYRILLIC SMALL LETTER A"):
        write(attributes=groups)
    attributes = {"tone": ["light", "dark"], "t\u03bfne": ["light", "dark"]}
    with pytest.raises(DatasetError, match="two attributes look alike"):
        write(attributes=attributes)
    with pytest.raises(DatasetError, match="two subjects look alike"):
        write(rows=[row | ({"subject": "d\u043ector"} if row["set_id"] == "set-2" else {}) for row in rows()])


def test_a_release_with_groups_that_look_alike_is_found(root):
    folder = open_dataset("people", root).folder
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["attributes"]["tone"].append("d\u0430rk")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    dataset = read_dataset(folder)
    assert "look_alikes" in {problem.kind for problem in dataset.verify()}
    with pytest.raises(DatasetError, match="cannot be scored"):
        _ = dataset.fingerprint
