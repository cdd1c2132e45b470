"""Tell: the report folder, then MLflow. Neither a full disk nor an outage changes a verdict."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from fairgate.gate.evaluate import Evaluation
from fairgate.gate.prepare import Prepared
from fairgate.probes import write_scores
from fairgate.suites import Settings


def publish(evaluation: Evaluation, prepared: Prepared, settings: Settings) -> Evaluation:
    """Write the reports, then tell MLflow; what could not be told is a message."""
    messages = list(evaluation.messages)
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        files: list[Path] = []
        if settings.report is not None:
            try:
                files = _write_reports(settings.report, evaluation, prepared)
                messages.append(f"report: {settings.report / 'report.html'}")
            except OSError as error:
                messages.append(f"the report was not written, the verdict stands: {error}")
        if settings.mlflow is not None:
            files = files or _write_reports(Path(scratch), evaluation, prepared)
            messages += _tell_mlflow(evaluation, [*files, prepared.loaded.path], prepared, settings, settings.mlflow)
    return replace(evaluation, messages=tuple(messages))


def _tell_mlflow(
    evaluation: Evaluation, files: list[Path], prepared: Prepared, settings: Settings, uri: str
) -> list[str]:
    """The run, and where the model is a registered one, the verdict on its version."""
    from fairgate.errors import FairgateError
    from fairgate.tracking import log_or_queue, tag_model_version

    outcome = log_or_queue(evaluation.record, files, uri, prepared.root / ".fairgate" / "queue")
    messages = [outcome.message]
    version = evaluation.record.model.registered
    if outcome.run_id is not None and version is not None:
        name, _, number = version.rpartition("/")
        try:
            tag_model_version(name, number, evaluation.record, outcome.run_id, uri)
            messages.append(f"MLflow: the verdict is written to model {name}, version {number}")
        except FairgateError as error:
            messages.append(f"the verdict was not written to the registered model, and stands: {error}")
    return messages


def _write_reports(folder: Path, evaluation: Evaluation, prepared: Prepared) -> list[Path]:
    """results.json first, then scores, page and comment."""
    from fairgate.reports import render_comment, render_html, write_results

    folder.mkdir(parents=True, exist_ok=True)
    files = [write_results(evaluation.record, folder)]
    if evaluation.scores:
        write_scores(folder / "scores.parquet", prepared.dataset.index, evaluation.scores)
        files.append(folder / "scores.parquet")
    pictures = prepared.dataset.images_of if prepared.dataset.manifest.image_encoding != "none" else None
    pages = {
        "report.html": render_html(evaluation.record, pictures),
        "comment.md": render_comment(evaluation.record),
    }
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
        files.append(folder / name)
    return files
