"""`fairgate study word-lists` prints what Howard et al. 2023 (tables 5 to 9) and So-B-IT (table 4) list."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import StudyRecord


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[object]]]:
    out: Path = tmp_path_factory.mktemp("lists")
    result = CliRunner().invoke(app, ["study", "word-lists", "--out", str(out)])
    assert result.exit_code == 0, result.output
    record = StudyRecord.model_validate_json((out / "study.json").read_bytes())
    assert [table.source.partition(" of ")[0] for table in record.tables] == [f"table {n}" for n in (5, 6, 7, 8, 9, 4)]
    return {table.name: table.rows for table in record.tables}


def test_table_5_has_the_papers_sets_and_images_of_every_pair(lists: dict[str, list[list[object]]]) -> None:
    assert {(row[0], *row[2:5]) for row in lists["sets"]} == {
        *(("occupations", 1044, images, total) for images, total in ((12, 1_252_800), (8, 835_200), (24, 2_505_600))),
        *(("occupations", 1044, images, total) for images, total in ((28, 2_923_200), (84, 8_769_600))),
        ("occupations", 1044, 56, 5_846_400),
        *(("traits", 252, images, total) for images, total in ((12, 302_400), (8, 201_600), (24, 604_800))),
    }


def test_tables_6_to_8_have_the_printed_words_and_what_builds_make_of_them(
    lists: dict[str, list[list[object]]],
) -> None:
    assert len(lists["traits"]) == 63
    assert len(lists["occupations"]) == 261
    assert len({built for _, built in lists["occupations"]}) == 181
    assert ["Baker", "baker"] in lists["occupations"]
    assert sum(printed == "yes" for _, printed in lists["physical-traits"]) == 9


def test_table_9_sets_the_captions_that_builds_make_beside_the_printed_ones(
    lists: dict[str, list[list[object]]],
) -> None:
    assert [row[-2:] for row in lists["captions"]][1:3] == [
        ["A photo of a White male electrician", "A photo of a White male electrician."],
        ["A picture of a friendly Muslim female", "A picture of friendly muslim female"],
    ]


def test_so_b_its_taxonomy_has_405_entries_in_nine_types(lists: dict[str, list[list[object]]]) -> None:
    assert len(lists["taxonomy"]) == 9
    assert sum(int(str(number)) for _, number, _ in lists["taxonomy"]) == 405
