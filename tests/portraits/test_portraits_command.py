"""`fairgate portraits`: draw, look, train; what cannot be trained is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairgate.data import read_dataset
from fairgate.interfaces.cli.main import app


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["portraits", *words])
    return result.exit_code, result.output


def test_a_drawn_dataset_is_whole(tmp_path: Path) -> None:
    code, output = run("draw", "--sets", "1", "--out", str(tmp_path / "occupations"))
    assert code == 0, output
    assert "40 portraits in 5 sets" in output
    assert read_dataset(tmp_path / "occupations").verify() == []


@pytest.mark.parametrize("out", ["sheet.xyz", "."])
def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path, out: str) -> None:
    code, output = run("generate", "--model", str(tmp_path / "none"), "--out", str(tmp_path / out))
    assert (code, "the picture cannot be written" in output) == (4, True)


@pytest.mark.parametrize("words", [["photos"], ["faces", "--per-group", "1"]], ids=["photos", "faces"])
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    code, output = run(*words, "--out", str(tmp_path / "file" / "inside"))
    assert (code, "the folder cannot be written" in output) == (4, True), output


def test_a_painted_sheet_of_another_kind_is_refused_before_it_is_painted(tmp_path: Path) -> None:
    code, output = run("generate", "--model", str(tmp_path / "none"), "--out", str(tmp_path / "sheet.jpg"))
    assert (code, "ends in .png" in output) == (4, True)


def test_an_unknown_checkpoint_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    code, output = run("train", "bised", "--out", str(tmp_path / "x"))
    assert code == 4
    assert "base, tuned, biased, whackamole" in output


def test_training_reports_its_steps_and_names_what_it_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(name: str, out: Path, *, report: object, **_: object) -> None:
        assert callable(report)
        report(name, 0, 1.5)
        report(name, 1, 1.0)

    monkeypatch.setattr("fairgate.portraits.training.train_model", trained)
    code, output = run("train", "base", "--out", str(tmp_path / "base"))
    assert code == 0
    assert "step    0  loss 1.500" in output
    assert "step    1" not in output
    assert f"trained base: {tmp_path / 'base'}" in output
