"""A report or a folder for temporary files that cannot be written costs a message, never the verdict."""

from __future__ import annotations

import importlib
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from toy_repository import Toy

from fairgate import gate
from fairgate.suites import Settings, resolve

REPORT = ["comment.md", "metrics.json", "report.html", "results.json", "scores.parquet"]


@pytest.fixture
def judged(toy: Toy) -> tuple[gate.Evaluation, gate.Prepared, Settings]:
    prepared = gate.prepare("jobs", toy.root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off"}, environment={})
    prepared = gate.hold(prepared, settings)
    return gate.evaluate(prepared, settings, command="test"), prepared, settings


def test_a_report_that_cannot_be_written_is_said(
    judged: tuple[gate.Evaluation, gate.Prepared, Settings], tmp_path: Path
) -> None:
    evaluation, prepared, settings = judged
    (tmp_path / "file").write_text("no folder")
    told = gate.publish(evaluation, prepared, replace(settings, report=tmp_path / "file" / "report"))
    assert told.record == evaluation.record
    (said,) = told.messages
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

    monkeypatch.setattr(importlib.import_module("fairgate.gate.publish"), "write_scores", full)
    (said,) = gate.publish(evaluation, prepared, settings).messages
    assert "No space left on device" in said
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["results.json"]


def test_mlflow_that_cannot_be_told_for_want_of_room_is_said(
    judged: tuple[gate.Evaluation, gate.Prepared, Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation, prepared, settings = judged
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    (said,) = gate.publish(evaluation, prepared, replace(settings, mlflow=f"sqlite:///{tmp_path}/x.db")).messages
    assert "MLflow was not told of this run, the verdict stands: Not a directory." in said
    assert "TMPDIR" in said
    assert not (tmp_path / "x.db").exists()
