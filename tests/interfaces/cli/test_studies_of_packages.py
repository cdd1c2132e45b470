"""Studies of installed packages: a class in one file is a command with options, tables and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.studies.papers import STUDIES

STUDY = '''
from typing import ClassVar

from pydantic import Field

from fairgate.records import StudyTable
from fairgate.studies.papers import Study, StudyContents


class Lengths(Study):
    """Count the letters of words."""

    name: ClassVar[str] = "lengths"
    title: ClassVar[str] = "How long are words?"
    paper: ClassVar[str] = "a team's own"
    asks_models: ClassVar[bool] = False

    word: tuple[str, ...] = Field(description="A word; repeat.")
    times: int = Field(1, ge=1, description="What lengths are multiplied by.")

    def run(self, _):
        rows = [[word, len(word) * self.times] for word in self.word]
        table = StudyTable(name="lengths", title="Lengths", source="none", columns=["word", "letters"], rows=rows)
        return StudyContents(models=[], datasets=[], settings={"times": self.times}, tables=[table])
'''


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "team_studies.py").write_text(STUDY)
    metadata = tmp_path / "team-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: team\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[fairgate.studies]\nlengths = team_studies:Lengths\nother = team_studies:StudyTable\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(STUDIES, "_found", dict(STUDIES._found))
    monkeypatch.setattr(STUDIES, "_entries", None)


@pytest.mark.usefixtures("_installed")
def test_the_study_of_a_package_is_a_command_whose_record_has_its_tables(tmp_path: Path) -> None:
    words = ["study", "lengths", "--word", "chef", "--word", "nurse", "--times", "2", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "out" / "study.json").read_text(encoding="utf-8"))
    assert record["tables"][0]["rows"] == [["chef", 8], ["nurse", 10]]
    assert record["command"].startswith("fairgate study lengths --word chef --word nurse --times 2 --out ")


@pytest.mark.usefixtures("_installed")
def test_a_value_below_the_least_one_is_refused() -> None:
    assert CliRunner().invoke(app, ["study", "lengths", "--word", "chef", "--times", "0"]).exit_code != 0


@pytest.mark.usefixtures("_installed")
def test_what_is_no_study_is_refused_with_its_package() -> None:
    result = CliRunner().invoke(app, ["study", "other"])
    assert result.exit_code == 4
    assert "the package 'team' cannot be loaded: it is not a subclass of fairgate.studies.papers.Study" in " ".join(
        result.output.split()
    )


def test_no_study_repeats_an_option_that_all_studies_have_and_every_option_is_described() -> None:
    for study in STUDIES.own():
        assert not {"out", "device", "cache", "root"} & set(study.model_fields)
        assert all(field.description for field in study.model_fields.values()), study.name
