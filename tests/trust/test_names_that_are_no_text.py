"""A name that is not UTF-8 costs no record: it is written out in it, wherever it comes from."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from scratch_git import scratch_git
from toy_repository import Toy, toy_repository
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import read_results

NAME = os.fsdecode(b"caf\xe9")
WRITTEN = r"caf\xe9"


def judged(toy: Toy, *words: str, report: Path | None = None, **environment: str) -> tuple[int, RunRecord]:
    """The exit code of a run, and its record; every report of it can be read as UTF-8."""
    folder = report or toy.root / "out"
    given = ["check", "jobs", "--root", str(toy.root), "--mlflow", "off", "--cache", "off", "--report", str(folder)]
    result = CliRunner().invoke(app, [*given, *words], env={"CI": "true", **environment})
    assert "Traceback" not in result.output
    for name in ("report.html", "comment.md", "results.json"):
        (folder / name).read_text(encoding="utf-8")
    return result.exit_code, read_results(folder / "results.json")


@pytest.mark.parametrize(
    "words",
    [
        ("--model", f"scores:{NAME}.csv?values=logit"),
        ("--model", f"hf:{NAME}"),
        ("--model", f"{NAME}:x"),
        ("--baseline", f"file:{NAME}"),
        ("--baseline", f"git:{NAME}"),
        ("--baseline", f"mlflow:{NAME}"),
        ("--baseline", f"model:scores:{NAME}.csv?values=logit"),
    ],
)
def test_what_is_named_and_not_there_gives_no_verdict_and_a_record(toy: Toy, words: tuple[str, str]) -> None:
    code, record = judged(toy, *words, "--base", "none")
    assert (code, record.verdict) == (3, "error")
    named = record.model.uri if words[0] == "--model" else record.baseline.uri if record.baseline else ""
    assert WRITTEN in named


def test_a_repository_a_table_and_a_report_under_such_names_are_judged_as_any_other(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    toy = toy_repository(tmp_path / NAME)
    shutil.move(toy.root / "tuned.csv", toy.root / f"{NAME}.csv")
    model = f"scores:{toy.root / NAME}.csv?values=logit"
    code, record = judged(toy, "--model", model, "--base", "none", report=toy.root / NAME / NAME)
    assert (code, record.verdict) == (0, "pass")
    assert WRITTEN in record.model.uri
    assert WRITTEN in record.command


def test_names_in_git_and_in_the_environment_are_written_out(toy: Toy) -> None:
    git = scratch_git(toy.root)
    git("switch", "--quiet", "--create", NAME)
    (toy.root / f"{NAME}.dvc").write_text(json.dumps({"outs": [{"md5": "0" * 32, "path": "x"}]}), encoding="utf-8")
    git.commit()
    job = {"GITHUB_SERVER_URL": "https://github.invalid", "GITHUB_REPOSITORY": NAME, "GITHUB_RUN_ID": "1"}
    code, record = judged(toy, "--base", "main", **job)
    assert code == 0
    assert f"{WRITTEN}.dvc" in " ".join(record.notices)
    assert WRITTEN in str(record.environment.ci_url)
