"""`fairgate dataset get`: the notice comes first, and nothing is fetched before the licence is accepted."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from fairgate.data.published import DATASETS
from fairgate.interfaces.cli.main import app


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs `fairgate dataset get` with folders of this test."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(app, ["dataset", "get", *map(str, arguments)])

    return run


@pytest.fixture
def given(tmp_path) -> Path:
    """UTKFace, in small: one whole name, and one that is broken."""
    folder = tmp_path / "given"
    folder.mkdir()
    for name in ("9_1_3_20170109150557335.jpg.chip.jpg", "39_1_20170116174525125.jpg.chip.jpg"):
        buffer = io.BytesIO()
        Image.new("RGB", (8, 8), (len(name), 0, 0)).save(buffer, "JPEG")
        (folder / name).write_bytes(buffer.getvalue())
    return folder


def test_without_a_name_everything_that_there_is_is_listed(run):
    result = run()
    assert result.exit_code == 0
    for name in DATASETS:
        assert f"\n{name} " in result.stdout
    assert "CC-BY-4.0" in result.stdout


def test_names_are_whole_in_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = run().stdout
    assert all(f"\n{name} " in told for name in DATASETS)
    facts = run("fairface").stdout
    assert max(map(len, facts.splitlines())) <= 80
    assert ".;" not in facts


def test_what_the_folder_lacks_of_the_published_data_and_what_was_mended_is_told(run, tmp_path):
    folder = tmp_path / "faces"
    (folder / "val").mkdir(parents=True)
    (folder / "fairface_label_val.csv").write_text("file,age,gender,race\nval/1.jpg,9-Mar,Male,White\n")
    Image.new("RGB", (8, 8)).save(folder / "val" / "1.jpg")
    result = run("fairface", "--from", folder, "--accept-licence")
    assert result.exit_code == 0, result.output
    assert "note: 1 image; 10,954 were published" in result.stderr
    assert "note: ages that a spreadsheet had made dates, and that were mended: 1\n" in result.stderr
    assert "group more coarsely (--merge)" in result.stdout


def test_without_the_licence_accepted_only_the_notice_comes(run, given, tmp_path):
    result = run("utkface", "--from", given, "--out", "faces")
    assert result.exit_code == 4
    for told in ("non-commercial", "susanqq.github.io", "Zhang, Song and Qi", "never downloaded", "0.1 GB"):
        assert told in result.stdout
    assert f"fairgate dataset get utkface --from {given} --out faces --accept-licence" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given"]


def test_with_it_the_release_is_made_and_what_was_left_out_is_counted(run, given, tmp_path):
    result = run("utkface", "--from", given, "--accept-licence")
    assert result.exit_code == 0, result.output
    assert "left out: 1 (file name does not say age, gender and race)" in result.stderr
    assert "utkface@v1: 1 image in 1 set, in fairness_data/utkface/v1" in result.stdout
    assert (tmp_path / "fairness_data" / "utkface" / "v1" / "manifest.json").is_file()
    assert "are in fewer than 30 images" in result.stdout
    again = run("utkface", "--from", given, "--accept-licence")
    assert again.exit_code == 0
    assert "made of the same files: nothing was written" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["utkfase"], "did you mean 'utkface'?"),
        (["utkface", "--part", "crop"], "did you mean 'cropped'?"),
        (["utkface", "--accept-licence"], "is not fetched by a program"),
        (
            ["utkface", "--accept-licence", "--merge", "race=Martian=other"],
            "no group of race called 'Martian' to merge",
        ),
        (["utkface", "--accept-licence", "--merge", "rase=Black=other"], "did you mean 'race'?"),
        (["utkface", "--from", "nowhere", "--accept-licence"], "the folder does not exist"),
    ],
)
def test_what_cannot_be_done_exits_4_with_the_remedy(run, arguments, told):
    result = run(*arguments)
    assert result.exit_code == 4
    assert told in result.stderr
