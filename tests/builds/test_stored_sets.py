"""Sets as they are stored come back as they were; what cannot be stored is refused; duplicates are counted."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fairgate.builds.assemble import Census
from fairgate.builds.shards import StoredSet, decode, encode
from fairgate.builds.steps import SetRows
from fairgate.builds.steps.pictures import mask, picture, png
from fairgate.ground.errors import RecipeError
from fairgate.ground.pixels import pixels_of


def a_set(name: str = "s1", **columns: Any) -> SetRows:
    noise = np.random.default_rng(len(name)).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    row = {"member": "a", "image": Image.fromarray(noise), "vector": np.arange(3.0), "n": 1, "none": None}
    other = {**row, "member": "b", "n": np.int64(2)}
    return SetRows(name, "baker", ("toy", "baker", 7), 3, [row, other], {"score": 0.5, "tags": ("x", "y"), **columns})


def stored(*sets: SetRows) -> list[StoredSet]:
    data = encode(sets).parquet
    assert data is not None
    return list(decode(pq.read_table(BytesIO(data))))


def test_a_set_comes_back_with_its_rows_columns_and_names() -> None:
    drawn = np.eye(3, dtype=bool)
    given = a_set(mask=drawn, base=Image.new("RGB", (2, 2), "red"))
    other = a_set("s22", mask=drawn, base=png(Image.new("L", (1, 1))))
    found, second = stored(given, other)
    assert second.rows.set_id == "s22"
    rows = found.rows
    assert (rows.set_id, rows.subject, rows.names, rows.seed) == ("s1", "baker", ("toy", "baker", 7), 3)
    assert rows.column("member") == ["a", "b"]
    assert rows.column("n") == [1, 2]
    assert rows.column("none") == [None, None]
    assert picture(rows.rows[0]["image"]).tobytes() == given.rows[0]["image"].tobytes()
    assert rows.rows[1]["vector"].dtype == np.float32
    assert rows.rows[1]["vector"].tolist() == [0, 1, 2]
    assert rows.columns["score"] == 0.5
    assert rows.columns["tags"] == ["x", "y"]
    assert (mask(rows.columns["mask"]) == drawn).all()
    assert picture(rows.columns["base"]).getpixel((0, 0)) == (255, 0, 0)
    assert found.pixels == tuple(pixels_of(png(row["image"])).sha256 for row in given.rows)
    assert rows.stream("noise").random() == given.stream("noise").random()


def test_vectors_of_whole_numbers_beside_fractions_lose_nothing() -> None:
    found = stored(a_set(marks=np.arange(3)), a_set("s22", marks=np.array([0.25, 0.5, 1.0])))
    assert [each.rows.columns["marks"].tolist() for each in found] == [[0, 1, 2], [0.25, 0.5, 1.0]]


@pytest.mark.parametrize("members", [[], [{"n": 1}]])
def test_sets_of_one_shard_have_the_same_columns_with_members_or_without(members: list[dict[str, Any]]) -> None:
    first = SetRows("s1", "baker", ("toy",), 0, members, {"x": 1})
    second = SetRows("s2", "baker", ("toy",), 0, [], {"y": 2.0})
    with pytest.raises(RecipeError, match="column 'x' is not in every set"):
        encode([first, second])


def test_a_set_without_members_and_no_set_at_all_are_stored_too() -> None:
    empty = SetRows("s1", "baker", ("toy",), 0, [], {"score": 1.0})
    (found,) = stored(empty)
    assert found.rows.rows == []
    assert found.rows.columns == {"score": 1.0}
    assert encode([]).parquet is None


def test_the_name_of_a_shards_content_moves_with_a_pixel_and_a_column_alone() -> None:
    name = encode([a_set()]).content
    assert encode([a_set()]).content == name
    assert encode([a_set(score=0.25)]).content != name
    changed = a_set()
    changed.rows[0]["image"].putpixel((0, 0), (1, 2, 3))
    assert encode([changed]).content != name


def _mixed(rows: SetRows) -> None:
    rows.rows[0]["n"] = "one"


REFUSED: dict[str, tuple[Callable[[SetRows], object], str]] = {
    "a cube": (lambda rows: rows.rows[0].update(vector=np.zeros((2, 2))), "an array of float64 with 2 axes"),
    "an object": (lambda rows: rows.columns.update(score=object()), "a value of type object cannot be stored"),
    "a column that one member lacks": (lambda rows: rows.rows[1].pop("n"), "column 'n' is not in every set or member"),
    "two types": (_mixed, "column 'n' changes its type within a shard"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_stored_is_refused_with_a_remedy(case: str) -> None:
    rows = a_set()
    change, said = REFUSED[case]
    change(rows)
    with pytest.raises(RecipeError, match=said) as caught:
        encode([rows])
    assert caught.value.remedy


def test_doubles_and_groups_are_counted_by_subject() -> None:
    counted = Census({"tone": ["light", "dark"]})
    for subject, tone in (("baker", "light"), ("pilot", "dark")):
        for number in range(5):
            pixels = f"{number % 4:016x}{0:048x}"  # the last is as the first, and both subjects show the same
            counted.add(subject, {"member": "a", "tone": tone if number else "light"}, pixels)
        counted.add(subject, {"member": "b", "tone": "dark"}, None)
    assert counted.exact("baker") == counted.exact("pilot") == 1
    assert counted.exact() == 6
    assert counted.images_of("baker") == counted.images_of("pilot") == 5
    assert counted.groups_of("baker") == {"tone": {"light": 5, "dark": 1}}
    assert counted.groups_of("pilot") == {"tone": {"light": 1, "dark": 5}}
