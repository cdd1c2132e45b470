"""The London Set: two photographs of each person, who named gender and ethnic group, are one set."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from small_originals import drawn

from fairgate.data.published.source_files import ABSENT
from fairgate.ground.errors import DatasetError

TABLE = """\
face_id,face_age,face_gender,face_eth
001,24,female,white
036,21,male,east_asian/white
135,NA,female,west_asian
"""
REAL = Path(__file__).parents[4] / "shared" / "real" / "faces_london"


def photographs(folder: Path, *, table: str = TABLE, original: bool = False) -> Path:
    """Drawn pictures in one of the two layouts."""
    names = {"neutral": "neutral_front/{}_03.jpg", "smiling": "smiling_front/{}_08.jpg"}
    for number, person in enumerate(("001", "036", "135", "999")):
        for expression in ("neutral", "smiling"):
            name = names[expression] if original else f"{expression}/{{}}.jpg"
            path = folder / name.format(person)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(drawn(2 * number + (expression == "smiling"), "JPEG"))
    (folder / ("london_info.csv" if original else "people.csv")).write_text(table, encoding="utf-8")
    return folder


@pytest.mark.parametrize("original", [False, True])
def test_the_two_photographs_of_a_person_are_one_set(take, opened, tmp_path, original):
    made = take("london_faces", photographs(tmp_path / "given", original=original))
    dataset = opened("london_faces")
    index = dataset.index
    assert list(zip(index.set_id.tolist(), index.member.tolist(), strict=True)) == [
        (person, expression) for person in ("001", "036", "135") for expression in ("neutral", "smiling")
    ]
    assert index.attributes["gender"].tolist() == ["female"] * 2 + ["male"] * 2 + ["female"] * 2
    assert index.attributes["ethnicity"].tolist()[2:4] == ["east_asian/white"] * 2
    assert dataset.parquet(dataset.manifest.shards[0]).read().column("years").to_pylist()[-1] == "NA"
    assert (made.manifest.n_sets, made.manifest.counterfactual, made.left_out) == (3, False, {})
    assert made.manifest.recipe["cluster_column"] == "person"
    assert made.manifest.licence == "CC-BY-4.0"
    assert "DeBruine and Jones 2017" in str(made.manifest.notice)
    assert "as they named them" in str(made.manifest.notice)
    [(_, images)] = dataset.image_batches(99)
    assert images == [drawn(number, "JPEG") for number in range(6)]


def test_a_part_has_one_photograph_of_each_person(take, opened, tmp_path):
    take("london_faces", photographs(tmp_path / "given"), part="smiling")
    assert set(opened("london_faces_smiling").index.member) == {"smiling"}


def test_a_photograph_that_is_not_there_is_counted(take, tmp_path):
    folder = photographs(tmp_path / "given")
    (folder / "smiling" / "036.jpg").unlink()
    assert take("london_faces", folder).left_out == {ABSENT: 1}


REFUSED = {
    "another gender than the table has": (TABLE.replace("male,east", "m,east"), "'m' is no gender"),
    "a person twice": (f"{TABLE}001,24,female,white\n", "'001' has two lines"),
    "a column is absent": (TABLE.replace("face_eth", "ethnicity"), "face_eth"),
    "a path in the place of a number": (TABLE.replace("135", "../135"), "is no number of a person"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_another_table_is_refused(case, take, tmp_path):
    table, problem = REFUSED[case]
    with pytest.raises(DatasetError, match=problem):
        take("london_faces", photographs(tmp_path / "given", table=table))


def test_two_photographs_of_one_are_refused_and_none_at_all(take, tmp_path):
    folder = photographs(tmp_path / "given")
    (folder / "neutral" / "001_03.jpg").write_bytes(drawn(9, "JPEG"))
    with pytest.raises(DatasetError, match="the neutral one of person 001"):
        take("london_faces", folder)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "people.csv").write_text(TABLE)
    with pytest.raises(DatasetError, match="nothing of 'london_faces' is in the folder"):
        take("london_faces", bare)


def test_it_is_not_fetched_by_a_program(take):
    with pytest.raises(DatasetError, match="is not fetched by a program") as caught:
        take("london_faces")
    assert "figshare" in str(caught.value.where)


@pytest.mark.skipif(not REAL.is_dir(), reason="the photographs are not here")
def test_the_photographs_themselves_are_102_people_with_two_each(take, opened):
    made = take("london_faces", REAL)
    index = opened("london_faces").index
    people = index.member == "neutral"
    assert (made.manifest.n_sets, len(index.set_id), made.left_out) == (102, 204, {})
    assert Counter(index.attributes["gender"][people]) == {"male": 53, "female": 49}
    assert Counter(index.attributes["ethnicity"][people])["white"] == 69
