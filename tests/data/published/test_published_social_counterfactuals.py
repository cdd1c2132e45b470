"""SocialCounterfactuals: three kinds of sets in one table, occupations in captions, sets whole or left out."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from small_originals import drawn, write_hub_parquet

from fairgate.data.published.social_counterfactuals import (
    DOUBLED,
    GENDERS,
    INCOMPLETE,
    RACES,
    SETS,
    TRAITS,
    UNCLEAR,
)
from fairgate.ground.errors import DatasetError

KINDS = {
    ("race", "gender"): (RACES, GENDERS),
    ("physical", "gender"): (TRAITS, GENDERS),
    ("physical", "race"): (TRAITS, RACES),
}
STARTS = ("A picture of a", "A photo of a", "a")


def rows_of(name: str, kind: tuple[str, str], subject: str, start: str) -> list[dict[str, str]]:
    """The rows of one whole set, with captions as the authors wrote them."""
    return [
        {
            "counterfactual_set": name,
            "caption": f"{start}{'n' * (a1[0] in 'AIo')} {a1} {a2} {subject}",
            "a1": a1,
            "a1_type": kind[0],
            "a2": a2,
            "a2_type": kind[1],
        }
        for a1, a2 in product(*KINDS[kind])
    ]


def written(folder: Path, rows: list[dict[str, str]], files: int = 2) -> Path:
    """Tables of a few rows a row group; sets may begin in one file and end in the next."""
    size = -(-len(rows) // files)
    for number in range(files):
        mine = rows[number * size : (number + 1) * size]
        pictures = [{"bytes": drawn(number * size + at, "JPEG"), "path": None} for at in range(len(mine))]
        columns = {name: [row[name] for row in mine] for name in rows[0]}
        path = folder / "data" / f"train-{number:05d}-of-{files:05d}-ec5a5bbc63fe607b.parquet"
        write_hub_parquet(path, {"image": pictures, **columns}, {})
    return folder


@pytest.fixture
def rows():
    """Whole sets of every kind, mixed casing and beginnings."""
    return [
        *rows_of("a_picture_of_race_gender_plumber_0", ("race", "gender"), "plumber", STARTS[0]),
        *rows_of("race_gender_civil_engineer_3", ("race", "gender"), "Civil Engineer", STARTS[2]),
        *rows_of("physical_gender_barber_1", ("physical", "gender"), "barber", STARTS[1]),
        *rows_of("physical_race_barber_1", ("physical", "race"), "Barber", STARTS[1]),
    ]


@pytest.mark.parametrize(
    ("part", "members", "subjects"),
    [
        ("race_gender", 12, {"plumber", "civil engineer"}),
        ("physical_gender", 10, {"barber"}),
        ("physical_race", 30, {"barber"}),
    ],
)
def test_each_kind_of_set_is_a_release_of_its_own_with_the_occupation_of_its_captions(
    take, opened, tmp_path, rows, part, members, subjects
):
    made = take("social_counterfactuals", written(tmp_path / "given", rows), part=part)
    dataset = opened(made.manifest.name)
    assert dataset.manifest.counterfactual
    assert dataset.manifest.members_per_set == members
    assert set(dataset.index.subject) == subjects
    assert list(dataset.manifest.attributes) == part.split("_")
    assert made.left_out == {}
    assert made.manifest.recipe["sets_as_published"] is False
    assert made.manifest.recipe["published_sets"] == SETS[part]
    assert dataset.verify() == []


def test_every_image_keeps_its_own_groups_whatever_the_order_of_rows(take, opened, tmp_path, rows):
    """Rows of a set apart from each other: pictures are those of their rows."""
    mixed = random.Random(4).sample(rows, len(rows))
    take("social_counterfactuals", written(tmp_path / "given", mixed, files=3))
    dataset = opened("social_counterfactuals")
    of_picture = {drawn(at, "JPEG"): row for at, row in enumerate(mixed)}
    at = 0
    for _, images in dataset.image_batches(5):
        for image in images:
            row = of_picture[image]
            assert dataset.index.attributes["race"][at] == row["a1"]
            assert dataset.index.attributes["gender"][at] == row["a2"]
            assert dataset.index.set_id[at] == row["counterfactual_set"]
            assert dataset.index.caption[at] == row["caption"]
            at += 1
    assert at == 24


def test_sets_that_are_not_whole_or_not_of_one_occupation_are_left_out_and_counted(take, opened, tmp_path, rows):
    lacking = rows_of("lacking_0", ("race", "gender"), "chef", STARTS[0])[:-1]
    twice = rows_of("twice_0", ("race", "gender"), "chef", STARTS[0])
    unclear = rows_of("unclear_0", ("race", "gender"), "chef", STARTS[0])
    unclear[0]["caption"] = "A picture of a White male cook"
    wordless = rows_of("wordless_0", ("race", "gender"), "chef", STARTS[0])
    wordless[0]["caption"] = "A picture"
    given = written(tmp_path / "given", [*rows, *lacking, *twice, twice[3], *unclear, *wordless])
    made = take("social_counterfactuals", given)
    assert made.left_out == {INCOMPLETE: 11, DOUBLED: 13, UNCLEAR: 24}
    assert set(opened("social_counterfactuals").index.subject) == {"plumber", "civil engineer"}


@pytest.mark.parametrize("change", [{"a1": "Martian"}, {"a1": "male", "a2": "White"}, {"a2": "Black"}])
def test_groups_that_are_not_of_the_dataset_are_refused_with_their_row(take, tmp_path, rows, change):
    rows[5] = {**rows[5], **change}
    with pytest.raises(DatasetError, match="are no groups of SocialCounterfactuals") as caught:
        take("social_counterfactuals", written(tmp_path / "given", rows))
    assert "row 5" in str(caught.value.where)


def test_a_table_without_a_column_or_with_a_text_that_is_too_long_is_refused(take, tmp_path, rows):
    with pytest.raises(DatasetError, match="no column 'caption'"):
        take(
            "social_counterfactuals",
            written(tmp_path / "a", [{k: v for k, v in r.items() if k != "caption"} for r in rows]),
        )
    with pytest.raises(DatasetError, match="no column 'caption', 'a2'"):
        take(
            "social_counterfactuals",
            written(tmp_path / "c", [{k: r[k] for k in ("counterfactual_set", "a1")} for r in rows]),
        )
    rows[0]["caption"] = "x" * (1 << 17)
    with pytest.raises(DatasetError, match="at most 65,536 are read"):
        take("social_counterfactuals", written(tmp_path / "b", rows))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="nothing of 'social_counterfactuals' is in the folder"):
        take("social_counterfactuals", tmp_path / "empty")
