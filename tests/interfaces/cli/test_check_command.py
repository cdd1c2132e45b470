"""`fairgate check` is the same evaluation as pytest's, with the same exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate import __version__, gate
from fairgate.interfaces.cli.console import options_of, wide_console
from fairgate.interfaces.cli.main import app

OFF = ["--mlflow", "off", "--cache", "off"]


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"CI": "", "COLUMNS": "120"})
    return result.exit_code, result.output


def test_an_open_gate_ends_with_0_and_a_shut_one_with_1(toy: Toy) -> None:
    code, output = run("check", "jobs", "--root", str(toy.root), *OFF)
    assert code == 0
    assert "10 passed" in output
    code, output = run("check", "jobs", "--root", str(toy.root), "--model", "scores:biased.csv?values=logit", *OFF)
    assert code == 1
    assert "dark × female 0.001 ahead of its set-mates before and" in output


def test_one_reason_for_all_checks_comes_without_a_table_of_errors(toy: Toy) -> None:
    code, output = run("check", "jobs", "--root", str(toy.root), "--model", "scores:none.csv?values=logit", *OFF)
    assert code == 3
    assert "! no verdict: " in output
    assert "adj. p" not in output
    assert "! error" not in output


def test_shards_write_parts_and_merging_all_of_them_ends_as_one_job_does(toy: Toy, tmp_path: Path) -> None:
    biased = ["--model", "scores:biased.csv?values=logit", "--root", str(toy.root)]
    folders = [str(tmp_path / number) for number in "12"]
    for number, folder in enumerate(folders, start=1):
        code, output = run("check", "jobs", *biased, *OFF, "--shard", f"{number}/2", "--report", folder)
        assert (code, f"part {number}/2 is in" in output) == (0, True), output
        assert [path.name for path in Path(folder).iterdir() if path.is_file()] == ["part.json"]
    report = tmp_path / "report"
    merge = ["merge", *biased, "--mlflow", "off", "--report", str(report)]
    code, output = run(*merge, *folders)
    assert code == 1
    assert "dark × female 0.001 ahead of its set-mates before and" in output
    code, output = run(*merge, folders[0])
    assert code == 3
    assert "1 of 2 parts are missing: 2" in output
    assert not (report / "results.json").exists(), "the record of an earlier run"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "jobs", "--shard", "3/2"], "--shard 3/16"),
        (["check", "jbos"], "did you mean 'jobs'"),
        (["check", "jobs", "--device", "tpu"], "is not a value of --device"),
        (["check", "jobs", "--devise", "cpu"], "No such option: --devise"),
        (["check"], "Missing argument"),
        (["chekc"], "No such command"),
        (["--devise"], "No such option: --devise"),
    ],
)
def test_a_wrong_suite_or_option_ends_with_4(toy: Toy, words: list[str], message: str) -> None:
    code, output = run(*words, "--root", str(toy.root))
    assert code == 4
    assert message in output


def test_the_commands_names_of_options_and_their_choices_are_shown() -> None:
    assert options_of("run with --fairness-device cpu", {"--device"}) == "run with --device cpu"
    help_ = run("check", "--help")[1]
    for choices in ("cuda|cpu|auto", "fail|warn", "URI|off"):
        assert choices in help_


def test_a_pipe_is_as_wide_as_columns_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert wide_console(120).width == 80
    monkeypatch.delenv("COLUMNS")
    assert wide_console(120).width == 120


def test_pytest_and_the_command_write_the_same_record(
    toy: Toy, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(toy.root)
    run("check", "jobs", "--report", "by_command", *OFF)
    code = pytester.runpytest_subprocess(
        *(f"--rootdir={toy.root}", "--fairness-suite", "jobs", "--fairness-report", str(toy.root / "by_pytest")),
        *("--fairness-mlflow", "off", "--fairness-cache", "off"),
    ).ret
    assert code == 0
    first, second = (
        json.loads((toy.root / folder / "results.json").read_text(encoding="utf-8"))
        for folder in ("by_command", "by_pytest")
    )
    for clock in ("created_at", "seconds"):
        del first[clock], second[clock]
    assert first == second


def test_the_json_schema_of_suites_is_printed_and_written(tmp_path: Path) -> None:
    code, output = run("suite", "schema")
    assert code == 0
    run("suite", "schema", "--out", str(tmp_path / "schema.json"))
    assert json.loads(output) == json.loads((tmp_path / "schema.json").read_text(encoding="utf-8"))


def test_the_version_is_shown() -> None:
    assert run("--version") == (0, f"{__version__}\n")


def test_what_is_wrong_with_the_model_is_said_before_anything_is_logged(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("typer.echo", lambda text="", **_: said.append(str(text)))
    publish = gate.publish

    def logged(*given: Any) -> Any:
        said.append("logged")
        return publish(*given)

    monkeypatch.setattr(gate, "publish", logged)
    run("check", "jobs", "--root", str(toy.root), "--model", "scores:absent.csv?values=logit", *OFF)
    told = [at for at, text in enumerate(said) if "the file does not exist" in text]
    assert told[0] < said.index("logged") < told[-1], "at once, and last where a reader looks"
