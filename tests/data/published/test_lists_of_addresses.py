"""VisoGender and PATA are lists of addresses: pictures are found next to them, and others are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_originals import drawn

from fairgate.data.published import find_published
from fairgate.data.published.pata import REPEATED
from fairgate.data.published.source_files import ABSENT
from fairgate.data.published.visogender import NO_ADDRESS
from fairgate.ground.errors import DatasetError
from fairgate.probes.question_items import items_of

URL = "URL type (Type NA if can't find)"
OO = ["IDX", "Sector", "Specialisation", "Occupation", "Object", URL, "LICENSE OK?", "Occupation_perceived_gender"]
OP = [*OO[:4], "Participant", URL, "Licence", "Occupation_perceived_gender", "Participant_perceived_gender"]
REST = ["Error codes", "Annotator"]


def table(folder: Path, part: str, columns: list[str], rows: list[list[str]]) -> Path:
    """A table as VisoGender's: tabs, CRLF, no byte order mark, no end of line at its end."""
    lines = ["\t".join([*columns, *REST]), *("\t".join([*row, "", "Siobhan"]) for row in rows)]
    path = folder / part / f"{part}_Visogender_10052025.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("\r\n".join(lines).encode())
    return folder


def visogender(folder: Path, address: str) -> Path:
    def row(number: int, url: str, gender: str) -> list[str]:
        return [f"OO_{number}", "medical", "hospital_worker", "doctor", "clipboard", url, "Yes", gender]

    return table(
        folder,
        "OO",
        OO,
        [
            row(1, f"{address}/1.png?auto=compress&w=600", "masculine"),
            row(2, f"{address}/2.jpg", "feminine"),
            row(3, f"{address}/gone.jpg", "feminine"),
            row(4, f"{address}/page.jpg", "feminine"),
            row(5, "NA", "masculine"),
            row(6, "file:///etc/passwd", "masculine"),
        ],
    )


def test_pictures_of_ones_own_are_found_by_their_number(take, opened, tmp_path):
    folder = visogender(tmp_path / "given", "http://example.org")
    (folder / "OO_5.png").write_bytes(drawn(5))
    (folder / "OO_77.png").write_bytes(drawn(77))
    made = take("visogender", folder)
    assert made.left_out == {ABSENT: 5}
    assert opened("visogender").index.path.tolist() == ["OO_5.png"]
    (folder / "OO_5.jpg").write_bytes(drawn(6, "JPEG"))
    with pytest.raises(DatasetError, match="two pictures are called 'OO_5'"):
        take("visogender", folder)


def test_a_list_without_pictures_says_where_they_are_looked_for(take, tmp_path):
    with pytest.raises(DatasetError, match="nothing of 'visogender' is in the folder") as caught:
        take("visogender", visogender(tmp_path / "given", "http://example.org"))
    assert "put the pictures next to it" in str(caught.value.remedy)


def test_captions_are_each_pictures_question_and_the_pronoun_is_right(take, opened, tmp_path):
    folder = visogender(tmp_path / "given", "http://example.org")
    for number in (1, 2):
        (folder / f"OO_{number}.png").write_bytes(drawn(number))
    assert take("visogender", folder).left_out == {ABSENT: 3, NO_ADDRESS: 1}
    index = opened("visogender").index
    assert [item.right for item in items_of(index, (), letters=True)] == ["his", "her"]
    assert '"The doctor and ___ clipboard."' in json.loads(index.caption[0])["question"]


def test_two_people_have_a_gender_each(take, opened, tmp_path):
    row = ["OP_1", "medical", "hospital_worker", "doctor", "patient", "http://x.org/1", "Yes", "feminine", "masculine"]
    folder = table(tmp_path / "given", "OP", OP, [row])
    (folder / "OP_1.png").write_bytes(drawn(1))
    made = take("visogender", folder, part="op")
    assert made.manifest.ref == "visogender_op@v1"
    groups = opened("visogender_op").index.attributes
    assert (groups["gender"][0], groups["participant_gender"][0]) == ("feminine", "masculine")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({7: "Feminine?"}, "is no gender of this dataset"),
        ({0: "../../OO_1"}, "is no number of a picture"),
        ({0: "OO_1"}, "has two lines"),
    ],
)
def test_a_table_that_is_not_the_authors_is_refused(take, tmp_path, change, problem):
    rows = [[f"OO_{n}", "office", "legal", "lawyer", "desk", "http://x.org", "Yes", "feminine"] for n in (1, 2)]
    rows[1] = [change.get(place, text) for place, text in enumerate(rows[1])]
    folder = table(tmp_path / "given", "OO", OO, rows)
    (folder / "OO_1.png").write_bytes(drawn(1))
    with pytest.raises(DatasetError, match=problem):
        take("visogender", folder)


LIST = """\
fashion_show_indian_male_young|{address}/1.png?a=1&amp;b=2
yatch_eastasian_female_old|{address}/2.jpg
forest_black_male_young|{address}/gone.jpg
forest_hispanic_female_young|{address}/2.jpg
"""


def test_scenes_of_several_words_are_read_and_repeated_addresses_count_once(take, opened, tmp_path):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "pata_fairness.files.lst").write_text(LIST.format(address="http://example.org"))
    for number in (1, 2):
        (tmp_path / "given" / f"pata_{number:05d}.png").write_bytes(drawn(number))
    made = take("pata", tmp_path / "given")
    assert made.left_out == {ABSENT: 1, REPEATED: 1}
    index = opened("pata").index
    assert index.subject.tolist() == ["fashion show", "yatch"]
    groups = zip(*(index.attributes[name].tolist() for name in ("race", "gender", "age")), strict=True)
    assert list(groups) == [("indian", "male", "young"), ("eastasian", "female", "old")]


@pytest.mark.parametrize(
    "line", ["forest_indian_male|http://x.org", "forest_indian_male_young", "_indian_male_young|x"]
)
def test_a_line_that_is_no_scene_with_its_groups_is_refused_with_its_number(take, tmp_path, line):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "pata_fairness.files.lst").write_text(f"forest_black_male_young|http://x.org\n{line}\n")
    with pytest.raises(DatasetError, match="is not scene_race_gender_age") as caught:
        take("pata", tmp_path / "given")
    assert str(caught.value.where).endswith(".lst:2")


def test_lists_are_fetched_at_the_commit_that_brought_them():
    for name in ("visogender", "pata"):
        for part in find_published(name).parts.values():
            [(name_of_file, url)] = part.source.urls.items()
            assert url.startswith("https://raw.githubusercontent.com/")
            assert url.endswith(name_of_file)
