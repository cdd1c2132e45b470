"""Every option that takes a path refuses the address of a store, of which it would make a local folder."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate import gate
from fairgate.ground.errors import SettingsError
from fairgate.ground.local_paths import require_local
from fairgate.interfaces.cli.main import app

ROOT = typer.main.get_command(app)


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "list_commands"):
        for name in command.list_commands(typer.Context(command)):
            yield from commands(command.get_command(typer.Context(command), name), (*words, name))
    else:
        yield " ".join(words), command


PATHS = [
    (words, command, name)
    for words, command in commands(ROOT)
    for name, parameter in inspect.signature(inspect.unwrap(command.callback)).parameters.items()
    if "Path" in str(parameter.annotation)
]


@pytest.mark.parametrize(("words", "command", "name"), PATHS, ids=[f"{words} {name}" for words, _, name in PATHS])
def test_no_option_makes_a_local_folder_of_an_address(words: str, command: Any, name: str) -> None:
    several = Path("out"), Path("s3://bucket/place")
    for value in (several[1], several):
        with pytest.raises(SettingsError, match="'s3://bucket/place' is an address"):
            command.invoke(SimpleNamespace(params={name: value}))


def test_the_message_has_the_option_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["build", "occupations", "--out", "gs://bucket/builds"])
    assert result.exit_code == 4
    assert "'gs://bucket/builds' is an address" in result.output
    assert "--out" in result.output
    assert "dvc remote add" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["report", "cache"])
def test_report_and_cache_are_refused_wherever_they_are_named(
    option: str, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = gate.prepare("jobs", toy.root)
    with pytest.raises(SettingsError, match="is an address"):
        gate.settings_of(prepared, **{option: "az://container/place"})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="is an address"):
        gate.settings_of(prepared, ini=lambda name: "s3://b/x" if name == f"fairness_{option}" else None)
    monkeypatch.setenv(f"FAIRGATE_{option.upper()}", "s3://bucket/place")
    with pytest.raises(SettingsError, match=f"--fairness-{option}"):
        gate.settings_of(prepared)


def test_a_trace_makes_no_local_folder_of_an_address(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRGATE_REPORT", "s3://bucket/place")
    result = CliRunner().invoke(app, ["check", "jobs", "--root", str(toy.root), "--profile"])
    assert result.exit_code == 4
    assert "is an address" in result.output
    assert not (tmp_path / "s3:").exists()


def test_a_drive_and_a_name_with_a_colon_are_paths() -> None:
    for text in ("C:/data", "out/a:b", "report:1", "./s3:/x", ""):
        assert require_local(text, "--out") == Path(text)


def test_an_export_makes_no_folder_of_an_address(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--to", "csv:s3://bucket/place", "--root", str(toy.root / "datasets")]
    result = CliRunner().invoke(app, ["dataset", "export", "toy", *options])
    assert result.exit_code == 4
    assert "'s3://bucket/place' is an address" in result.output
    assert "dvc remote add" in result.output
    assert not (tmp_path / "s3:").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--model", "open_clip:ViT-B-32@s3://bucket/place"),
        ("--model", "hf:s3://bucket/place"),
        ("--model", "scores:s3://bucket/place?values=cosine"),
        ("--model", "s3://bucket/place"),
        ("--baseline", "file:s3://bucket/place"),
        ("--baseline", "model:vlm:s3://bucket/place?question=Who"),
    ],
)
def test_a_model_or_baseline_in_a_bucket_is_told_from_one_that_is_not_there(
    option: str, value: str, toy: Toy, tmp_path: Path
) -> None:
    given = ["--root", str(toy.root), "--base", "none", "--mlflow", "off", option, value]
    result = CliRunner().invoke(app, ["check", "jobs", "--report", str(tmp_path / "report"), *given])
    assert result.exit_code == 3
    assert "'s3://bucket/place' is an address" in result.output
    assert "dvc remote add" in result.output


def test_a_bare_address_as_baseline_or_build_is_told_from_a_word_that_is_none(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (
        ["check", "jobs", "--root", str(toy.root), "--mlflow", "off", "--baseline", "s3://bucket/place"],
        ["audit", "jobs", "--root", str(toy.root), "--model", "s3://bucket/place"],
        ["release", "s3://bucket/place"],
        ["review", "s3://bucket/place", "--no-browser"],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 4, words
        assert "'s3://bucket/place' is an address" in result.output, words


def test_the_remedys_commands_track_the_path_before_they_push_it() -> None:
    """`dvc push` alone says "Everything is up to date", and sends nothing."""
    with pytest.raises(SettingsError) as caught:
        require_local("s3://bucket/place", "--out")
    assert re.findall("`(dvc [a-z]+|fairgate dataset pull)", caught.value.remedy or "") == [
        "dvc remote",
        "dvc add",
        "dvc push",
        "fairgate dataset pull",
    ]
