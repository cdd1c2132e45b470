"""Where a run is kept: the report folder, MLflow and W&B, and with a reason and never in CI the committed baseline.

Neither a full disk nor an outage changes a verdict.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from fairgate import reports, tracking
from fairgate.gate.baselines import RESULTS, SCORES, baseline_folder, parse_baseline
from fairgate.gate.evaluation import Evaluation
from fairgate.gate.preparation import Prepared
from fairgate.ground.atomic import atomic_write, draft_of, remove, sweep
from fairgate.ground.ci import in_ci, on_github, on_gitlab
from fairgate.ground.errors import BaselineError, FairgateError, SettingsError, TrackingError, listed
from fairgate.ground.git import git_output
from fairgate.ground.number_format import number, signed
from fairgate.ground.spans import span
from fairgate.probes import write_scores
from fairgate.records import NO_VERDICT, PastValue, RunRecord
from fairgate.suites import OPTIONS, Settings, load_suite, suite_path

Past = tuple[Sequence[PastValue], TrackingError | None]

_FOLDER: Final = ("gate", "github", "gitlab")
"""The occasions of which a report folder may hold files, now or from an earlier run."""
INTERRUPTED: Final = (
    "interrupted while the run was written and logged: the verdict stands; `fairgate push --from DIR` sends a report"
)


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
            old = any((settings.report / name).exists() for name in reports.output_files(*_FOLDER))
            remains = " What it still holds is of an earlier run." if old else ""
            messages.append(
                f"warning: the report was not written, the verdict stands: {error.strerror or error}.{remains}\n"
                f"  where:  {settings.report}\n"
                "  remedy: make room or make the folder writable, or name another with `--fairness-report DIR`; then "
                "run again"
            )
    logs = " and ".join([*(["MLflow"] if settings.mlflow else []), *(["W&B"] if settings.wandb else [])])
    if logs and evaluation.record.exit_code == NO_VERDICT:
        messages.append(f"notice: the run has no verdict, and {logs} was not told of it")
    elif logs:
        with contextlib.ExitStack() as stack:
            try:
                if not files:  # they are copied before `held` closes
                    scratch = tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True)
                    folder = Path(stack.enter_context(scratch))
                    files = _write_reports(folder, evaluation, prepared, past, messages.append)
            except OSError as error:
                messages.append(
                    f"warning: {logs} was not told of this run, the verdict stands: {error.strerror or error}.\n"
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
    for name in reports.output_files(*_FOLDER):
        with contextlib.suppress(OSError):  # `publish` says that the folder cannot be written, and what it still holds
            (folder / name).unlink(missing_ok=True)


def _past(record: RunRecord, uri: str | None) -> Past:
    """Earlier runs' values of the same checks, for the page; none, and the error, where MLflow does not answer."""
    if uri is None:
        return (), None
    try:
        with span("MLflow"):
            return tracking.past_values(record, uri), None
    except TrackingError as error:
        return (), error


def _log_run(
    evaluation: Evaluation, files: list[Path], prepared: Prepared, uri: str, outage: TrackingError | None
) -> list[str]:
    """The run, and where the model is a registered one, the verdict on its version."""
    queue = prepared.root / ".fairgate" / "queue"
    with span("MLflow"):
        outcome = tracking.log_or_queue(evaluation.record, files, uri, queue, outage=outage)
    messages = [outcome.message]
    version = evaluation.record.model.registered
    if outcome.run_id is not None and version is not None:
        name, _, number = version.rpartition("/")
        try:
            tracking.tag_model_version(name, number, evaluation.record, outcome.run_id, uri)
            messages.append(f"MLflow: the verdict is written to model {name}, version {number}")
        except FairgateError as error:
            messages.append(f"the verdict was not written to the registered model, and stands: {error}")
    return messages


def _log_to_wandb(record: RunRecord, files: list[Path], prepared: Prepared, project: str) -> str:
    try:
        with span("W&B"):
            return tracking.log_to_wandb(record, files, project, prepared.root / tracking.WANDB_QUEUE).message
    except Exception as error:  # of any type: the code of others runs there, and decides nothing
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
    for name in reports.output_files(*_FOLDER):
        (folder / name).unlink(missing_ok=True)

    def scores() -> bytes:
        draft = draft_of(folder / "scores.parquet")
        try:
            write_scores(draft, prepared.dataset.index, evaluation.scores)
            return draft.read_bytes()
        finally:
            remove(draft)

    service: list[reports.Occasion] = ["github"] if on_github(os.environ) else []
    service += ["gitlab"] if on_gitlab(os.environ) else []
    suite_file, lines = _suite_lines(prepared) if service else ("", {})
    context = reports.OutputContext(
        suite_file=suite_file,
        lines=lines,
        pictures=prepared.dataset.images_of if prepared.dataset.manifest.image_encoding != "none" else None,
        past=lambda: past()[0],
        scores=scores if evaluation.scores else None,
        painted=_painted(evaluation, prepared.dataset.index.subject.tolist()),
    )
    written = []
    with span("render"):
        for name, content in reports.rendered(evaluation.record, context, "gate", *service, warn=warn):
            atomic_write(folder / name, content)
            written.append(name)
    return [folder / name for name in reports.output_files("gate") if name in written]


def _painted(evaluation: Evaluation, subjects: Sequence[str]) -> dict[str, dict[str, reports.Painted]]:
    """The pictures of each generating probe that were painted in this run, by baseline, anchor and candidate."""
    painted: dict[str, dict[str, reports.Painted]] = {}
    for who, scores in [*evaluation.others.items(), ("candidate", evaluation.scores)]:
        for probe, answers in scores.items():
            if answers.painted and answers.predicted is not None:
                pictures = reports.Painted(subjects, answers.predicted.tolist(), answers.painted)
                painted.setdefault(probe, {})[who] = pictures
    return painted


def _suite_lines(prepared: Prepared) -> tuple[str, dict[str, int]]:
    """The suite's path from the top of the repository, and the line of each item that it defines."""
    shown = prepared.loaded.source.shown
    lines = {}
    for planned in prepared.everything:
        file, _, line = planned.where.rpartition(":")
        if file == shown and not prepared.deleted:  # not the base's: its lines are of another file
            lines[planned.item] = int(line)
    prefix = git_output(prepared.root, "rev-parse", "--show-prefix") or ""  # without git, the suite's folder is the top
    return f"{prefix}{prepared.loaded.path.relative_to(prepared.root).as_posix()}", lines


LARGE = 10_000_000
"""Bytes of scores from which on they are better tracked by DVC than by git."""


def refuse_update(reason: str | None) -> None:
    """Raise BaselineError in CI, and where there is no reason for the update; before anything is scored."""
    if in_ci(os.environ):
        raise BaselineError(
            "a baseline is not updated in CI (CI=true): a gate that moves its own goal is none.",
            where="--fairness-update-baseline",
            remedy="update it on your machine with `fairgate baseline update SUITE --reason TEXT`, and commit it",
        )
    if not (reason or "").strip():
        raise BaselineError(
            "a baseline is not updated without a reason.",
            where="--reason (pytest: --fairness-reason)",
            remedy='say why: `--reason "retrained on the cleaned captions, see #412"`',
        )


def first_baseline(prepared: Prepared, settings: Settings, named: str | None) -> bool:
    """Whether an update makes the suite's first baseline, which is compared with nothing: there is none, and the run
    has no `named` baseline, or a `git:` one. To a `git:` baseline, one counts that its base has."""
    folder = baseline_folder(prepared.loaded.name)
    if (prepared.root / folder / RESULTS).exists() == (named is not None):
        return named is None
    spec, repository = parse_baseline(settings.baseline), prepared.repository
    if spec.kind != "git" or not repository.has_commits():
        return spec.kind == "git"
    return not repository.tree(repository.merge_base(spec.target), folder)


def keep_baseline(evaluation: Evaluation, prepared: Prepared, *, reason: str, force: bool = False) -> list[str]:
    """Write a run to `fairness_suites/baselines/SUITE/`; messages for the terminal.

    The record is written without its worst sets and confusions. Raises BaselineError for a run that did not pass,
    unless forced, and always for one that could not be computed.
    """
    record = evaluation.record
    _require_passed(record, force)
    folder = prepared.root / baseline_folder(record.suite)
    checks = [check.model_copy(update={"worst_sets": []}) for check in record.checks]
    slim = record.model_copy(update={"checks": checks, "confusions": [], "baseline_reason": reason.strip()})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".incoming-*"):  # by an update that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=".incoming-", dir=folder) as scratch:
            draft = Path(scratch)
            write_scores(draft / SCORES, prepared.dataset.index, evaluation.scores)
            (draft / RESULTS).write_text(slim.model_dump_json(indent=2) + "\n", encoding="utf-8")
            # Between these two the record does not name the scores: whoever reads then is told so by their digest.
            (draft / SCORES).replace(folder / SCORES)
            (draft / RESULTS).replace(folder / RESULTS)
    except OSError as error:
        raise BaselineError(
            f"the baseline could not be written: {error}.", where=str(folder), remedy="make room there, then run again"
        ) from error
    shown, size = baseline_folder(record.suite), (folder / SCORES).stat().st_size
    lines = [f"baseline: {shown} is written ({size / 1e3:,.0f} kB of scores); commit it: it holds from the merge on"]
    if size > LARGE or (folder / f"{SCORES}.dvc").exists():
        lines.append(f"  the scores are large for git: `dvc add {shown}/{SCORES}`, and commit the .dvc file")
    return [*lines, *_drift(record)]


def _drift(record: RunRecord) -> list[str]:
    """How far the new baseline is from the anchor, check by check; or that there is none."""
    compared = [check for check in record.checks if check.against == "anchor" and check.delta is not None]
    if record.anchor is not None and compared:
        values = [(each.item, number(each.baseline), number(each.value), signed(each.delta)) for each in compared]
        rows = [f"  {item}: {', '.join(three)}" for item, *three in values]
        return [f"distance to the anchor ({record.anchor.source}): at the anchor, now, change", *rows]
    if record.anchor is None and any(check.rule == "no_worse_than" for check in record.checks):
        return [
            "  no anchor: losses below the margin add up from baseline to baseline; once one is merged, "
            f"`fairgate baseline anchor {record.suite}` writes the line that names it"
        ]
    return []


def _require_passed(record: RunRecord, force: bool) -> None:
    if record.verdict == "error" or any(check.verdict == "error" for check in record.checks):
        raise BaselineError(
            "the run could not be computed, and nothing is kept of it.",
            where=f"suite {record.suite}",
            remedy="fix what the run complains of, then update",
        )
    shut = [
        check
        for check in record.checks
        if not (check.verdict == "pass" or check.excused)
        # of the first baseline, every regression check is inconclusive for want of something to compare with
        and (check.rule, check.verdict, check.delta) != ("no_worse_than", "inconclusive", None)
    ]
    if shut and not force:
        named = listed([check.item for check in shut])
        if record.baseline is None:
            raise BaselineError(
                f"the run did not pass ({named}), and there is no baseline yet.",
                where=f"suite {record.suite}",
                remedy="set bounds that this checkpoint meets, or bring what is missing; or force the update and say "
                "why in the reason",
            )
        raise BaselineError(
            f"the run did not pass ({named}), and a worse baseline lets worse checkpoints in.",
            where=f"suite {record.suite}",
            remedy="fix the checkpoint; or, if this loss is decided on, force the update and say so in the reason",
        )
