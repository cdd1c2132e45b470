"""Write the report folder, then log the run to MLflow and W&B. Neither a full disk nor an outage changes a verdict."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairgate.gate.evaluation import Evaluation
from fairgate.gate.preparation import Prepared
from fairgate.ground.atomic import atomic_write, draft_of, remove, sweep
from fairgate.ground.ci import on_github, on_gitlab
from fairgate.ground.errors import FairgateError, SettingsError, TrackingError
from fairgate.ground.git import run_git
from fairgate.probes import write_scores
from fairgate.records import RunRecord
from fairgate.reports import OutputContext, output_files, rendered
from fairgate.suites import OPTIONS, Settings, load_suite, suite_path

if TYPE_CHECKING:
    from fairgate.records import PastValue
    from fairgate.reports import Occasion

    Past = tuple[Sequence[PastValue], TrackingError | None]

_FOLDER: Final = ("gate", "github", "gitlab")
"""The occasions of which a report folder may hold files, now or from an earlier run."""


def publish(evaluation: Evaluation, prepared: Prepared, settings: Settings) -> Evaluation:
    """Write the reports, then log the run to MLflow and W&B; what fails becomes a message."""
    messages = list(evaluation.messages)
    files: list[Path] = []
    past = functools.cache(lambda: _past(evaluation.record, settings.mlflow))
    if settings.report is not None:
        try:
            files = _write_reports(settings.report, evaluation, prepared, past, messages.append)
            messages.append(f"report: {settings.report / 'report.html'}")
        except OSError as error:
            old = any((settings.report / name).exists() for name in output_files(*_FOLDER))
            remains = " What it still holds is of an earlier run." if old else ""
            messages.append(
                f"warning: the report was not written, the verdict stands: {error.strerror or error}.{remains}\n"
                f"  where:  {settings.report}\n"
                "  remedy: make room or make the folder writable, or name another with `--fairness-report DIR`; then "
                "run again"
            )
    if settings.mlflow is not None or settings.wandb is not None:
        with contextlib.ExitStack() as stack:
            try:
                if not files:  # they are copied before `held` closes
                    scratch = tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True)
                    folder = Path(stack.enter_context(scratch))
                    files = _write_reports(folder, evaluation, prepared, past, messages.append)
            except OSError as error:
                where = "MLflow" if settings.mlflow else "W&B"
                messages.append(
                    f"warning: {where} was not told of this run, the verdict stands: {error.strerror or error}.\n"
                    f"  where:  {error.filename or 'the folder for temporary files'}\n"
                    "  remedy: make room there or set TMPDIR to another folder, or name one with `--fairness-report "
                    "DIR`; then run again"
                )
            else:
                files += [path for path in (prepared.loaded.path,) if path.is_file()]  # a deleted suite is judged too
                if settings.mlflow is not None:
                    messages += _log_run(evaluation, files, prepared, settings.mlflow, past()[1])
                if settings.wandb is not None:
                    messages.append(_log_to_wandb(evaluation.record, files, prepared, settings.wandb))
    return replace(evaluation, messages=tuple(messages))


def clear_report(
    suite: str,
    root: Path,
    report: str | None,
    baseline: str | None,
    *parts: str,
    ini: Callable[[str], str | None] = lambda _name: None,
) -> None:
    """Remove what an earlier run left in the report folder, before anything is read or scored.

    A run that is killed, or ends with a wrong option, must not leave the record of an earlier one in its place.
    `report` and `baseline` are what was typed (None: as `fairgate.suites.resolve` finds them), `parts` lead from the
    folder that was named to this suite's. Raises SettingsError where the folder is also the baseline.
    """
    report = report or os.environ.get(OPTIONS["report"].environment) or ini(OPTIONS["report"].ini)
    baseline = baseline or os.environ.get(OPTIONS["baseline"].environment)
    if not report:
        return
    folder = Path(report, *parts)
    with contextlib.suppress(FairgateError):
        baseline = baseline or load_suite(suite_path(suite, root), root).suite.baseline
    kind, _, target = (baseline or ini(OPTIONS["baseline"].ini) or "").partition(":")
    record = (root / target).resolve()
    if kind == "file" and folder.resolve() == (record.parent if record.suffix == ".json" else record):
        raise SettingsError(
            "the report would replace the record that this run is compared with.",
            where=f"--fairness-report {folder}",
            remedy="name another folder for the report",
        )
    for name in output_files(*_FOLDER):
        with contextlib.suppress(OSError):  # `publish` says that the folder cannot be written, and what it still holds
            (folder / name).unlink(missing_ok=True)


def _past(record: RunRecord, uri: str | None) -> Past:
    """Earlier runs' values of the same checks, for the page; none, and the error, where MLflow does not answer."""
    if uri is None:
        return (), None
    from fairgate.tracking import past_values

    try:
        return past_values(record, uri), None
    except TrackingError as error:
        return (), error


def _log_run(
    evaluation: Evaluation, files: list[Path], prepared: Prepared, uri: str, outage: TrackingError | None
) -> list[str]:
    """The run, and where the model is a registered one, the verdict on its version."""
    from fairgate.reports import run_description
    from fairgate.tracking import log_or_queue, tag_model_version

    queue = prepared.root / ".fairgate" / "queue"
    outcome = log_or_queue(evaluation.record, files, uri, queue, outage=outage, describe=run_description)
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


def _log_to_wandb(record: RunRecord, files: list[Path], prepared: Prepared, project: str) -> str:
    from fairgate.reports import run_description
    from fairgate.tracking import WANDB_QUEUE, log_to_wandb

    try:
        return log_to_wandb(record, files, project, prepared.root / WANDB_QUEUE, describe=run_description).message
    except (TrackingError, OSError) as error:
        return f"warning: W&B was not told of this run, the verdict stands: {error}"


def _write_reports(
    folder: Path,
    evaluation: Evaluation,
    prepared: Prepared,
    past: Callable[[], Past],
    warn: Callable[[str], None],
) -> list[Path]:
    """Write the outputs, and return those that every run has.

    An earlier run's files are removed first: a killed run, or a full disk, leaves a folder that lacks files, never a
    page and a record of different runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    for name in output_files(*_FOLDER):
        (folder / name).unlink(missing_ok=True)

    def scores() -> bytes:
        draft = draft_of(folder / "scores.parquet")
        try:
            write_scores(draft, prepared.dataset.index, evaluation.scores)
            return draft.read_bytes()
        finally:
            remove(draft)

    service: list[Occasion] = ["github"] if on_github(os.environ) else []
    service += ["gitlab"] if on_gitlab(os.environ) else []
    suite_file, lines = _suite_lines(prepared) if service else ("", {})
    context = OutputContext(
        suite_file=suite_file,
        lines=lines,
        pictures=prepared.dataset.images_of if prepared.dataset.manifest.image_encoding != "none" else None,
        past=lambda: past()[0],
        scores=scores if evaluation.scores else None,
    )
    written = []
    for name, content in rendered(evaluation.record, context, "gate", *service, warn=warn):
        atomic_write(folder / name, content)
        written.append(name)
    return [folder / name for name in output_files("gate") if name in written]


def _suite_lines(prepared: Prepared) -> tuple[str, dict[str, int]]:
    """The suite's path from the top of the repository, and the line of each item that it defines."""
    shown = prepared.loaded.source.shown
    lines = {}
    for planned in prepared.everything:
        file, _, line = planned.where.rpartition(":")
        if file == shown and not prepared.deleted:  # not the base's: its lines are of another file
            lines[planned.item] = int(line)
    prefix = ""
    with contextlib.suppress(OSError):  # without git, the suite's folder is the top
        prefix = (
            run_git(prepared.root, "rev-parse", "--show-prefix", seconds=10).stdout.decode(errors="replace").strip()
        )
    return f"{prefix}{prepared.loaded.path.relative_to(prepared.root).as_posix()}", lines
