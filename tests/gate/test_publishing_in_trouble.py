"""A report or a folder for temporary files that cannot be written costs a message, never the verdict."""

from __future__ import annotations

import importlib
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate import gate
from fairgate.interfaces.cli.main import app
from fairgate.records import NO_VERDICT
from fairgate.suites import Settings, resolve

REPORT = ["comment.md", "metrics.json", "report.html", "results.json", "scores.parquet"]


@pytest.fixture
def judged(toy: Toy) -> tuple[gate.Evaluation, gate.Prepared, Settings]:
    prepared = gate.prepare("jobs", toy.root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off"}, environment={})
    prepared, settings = gate.hold(prepared, settings)
    return gate.evaluate(prepared, settings, command="test"), prepared, settings


def test_a_report_that_cannot_be_written_is_said(
    judged: tuple[gate.Evaluation, gate.Prepared, Settings], tmp_path: Path
) -> None:
    evaluation, prepared, settings = judged
    (tmp_path / "file").write_text("no folder")
    told = gate.publish(evaluation, prepared, replace(settings, report=tmp_path / "file" / "report"))
    assert told.record == evaluation.record
    *_, said = told.messages
    assert "the report was not written, the verdict stands: Not a directory." in said
    assert f"where:  {tmp_path / 'file' / 'report'}" in said
    assert "--fairness-report DIR" in said


def test_a_report_that_stops_halfway_holds_nothing_of_an_earlier_run(
    judged: tuple[gate.Evaluation, gate.Prepared, Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation, prepared, settings = judged
    settings = replace(settings, report=tmp_path / "report")
    gate.publish(evaluation, prepared, settings)
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == REPORT

    def full(path: Path, *ignored: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(importlib.import_module("fairgate.gate.publishing"), "write_scores", full)
    *_, said = gate.publish(evaluation, prepared, settings).messages
    assert "No space left on device" in said
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["results.json"]


def test_mlflow_that_cannot_be_told_for_want_of_room_is_said(
    judged: tuple[gate.Evaluation, gate.Prepared, Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation, prepared, settings = judged
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    *_, said = gate.publish(evaluation, prepared, replace(settings, mlflow=f"sqlite:///{tmp_path}/x.db")).messages
    assert "MLflow was not told of this run, the verdict stands: Not a directory." in said
    assert "TMPDIR" in said
    assert not (tmp_path / "x.db").exists()


def test_a_defect_of_mlflow_costs_a_message_and_the_run_waits(
    judged: tuple[gate.Evaluation, gate.Prepared, Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("unexpected keyword")

    evaluation, prepared, settings = judged
    monkeypatch.setattr(importlib.import_module("fairgate.tracking.runs"), "_experiment", broken)
    *_, said = gate.publish(evaluation, prepared, replace(settings, mlflow=f"sqlite:///{tmp_path}/x.db")).messages
    assert said.startswith("MLflow did not take the run: TypeError: unexpected keyword")
    assert "The verdict stands; the run waits in" in said


def test_mlflow_is_told_of_a_suite_that_the_change_deletes(
    judged: tuple[gate.Evaluation, gate.Prepared, Settings], tmp_path: Path
) -> None:
    evaluation, prepared, settings = judged
    prepared.loaded.path.unlink()
    *_, said = gate.publish(evaluation, prepared, replace(settings, mlflow=f"sqlite:///{tmp_path}/x.db")).messages
    assert said.startswith("MLflow: run ")


def test_a_run_without_a_verdict_is_no_point_of_a_history(toy: Toy, tmp_path: Path) -> None:
    store = tmp_path / "x.db"
    words = ["check", "jobs", "--root", str(toy.root), "--mlflow", f"sqlite:///{store}", "--cache", "off"]
    done = CliRunner().invoke(app, [*words, "--model", "scores:mistyped.csv?values=logit"])
    assert done.exit_code == NO_VERDICT, done.output
    assert "the run has no verdict, and MLflow was not told of it" in " ".join(done.output.split())
    assert not store.exists()


PASSING = ["check", "jobs", "--mlflow", "off", "--cache", "off"]


@pytest.fixture
def passed(toy: Toy, tmp_path: Path) -> Path:
    """The report folder of a run that passed."""
    folder = tmp_path / "report"
    done = CliRunner().invoke(app, [*PASSING, "--root", str(toy.root), "--report", str(folder)])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in folder.iterdir()) == REPORT
    return folder


def test_a_killed_run_leaves_no_verdict_of_an_earlier_one(
    toy: Toy, passed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*ignored: object, **also: object) -> None:
        raise SystemExit(137)

    monkeypatch.setattr(gate, "evaluate", killed)
    done = CliRunner().invoke(app, [*PASSING, "--root", str(toy.root), "--report", str(passed)])
    assert done.exit_code == 137
    assert list(passed.iterdir()) == []


@pytest.mark.parametrize("words", [["--device", "toaster"], ["--baseline", "git:nowhere"], ["--base", "origin/x"]])
def test_a_wrong_option_leaves_no_verdict_of_an_earlier_run(toy: Toy, passed: Path, words: list[str]) -> None:
    done = CliRunner().invoke(app, [*PASSING, "--root", str(toy.root), "--report", str(passed), *words])
    assert done.exit_code == 4, done.output
    assert list(passed.iterdir()) == []


def test_a_suite_that_is_not_there_leaves_no_verdict_of_an_earlier_run(toy: Toy, passed: Path) -> None:
    words = ["check", "jbos", "--mlflow", "off", "--root", str(toy.root)]
    done = CliRunner().invoke(app, words, env={"FAIRGATE_REPORT": str(passed)})
    assert done.exit_code == 4
    assert list(passed.iterdir()) == []


@pytest.mark.parametrize("broken", ["option", "suite"])
def test_pytest_leaves_no_verdict_of_an_earlier_run_either(
    toy: Toy, passed: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    if broken == "suite":
        toy.write_suite("schema: 7")
    monkeypatch.chdir(toy.root)
    device = ["--fairness-device", "toaster"] if broken == "option" else []
    done = pytester.runpytest_subprocess(
        f"--rootdir={toy.root}", "--fairness-suite", "jobs", "--fairness-report", str(passed), *device
    )
    assert done.ret == 4
    assert list(passed.iterdir()) == []


@pytest.mark.parametrize("named", ["{}", "{}/results.json"])
def test_a_report_does_not_replace_the_record_that_it_is_compared_with(toy: Toy, passed: Path, named: str) -> None:
    words = [*PASSING, "--root", str(toy.root), "--report", str(passed), "--baseline", f"file:{named.format(passed)}"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 4
    assert "would replace the record" in done.output
    assert sorted(path.name for path in passed.iterdir()) == REPORT
