"""What earlier runs left in MLflow: the record and scores of one, as files, and the numbers of many, by name."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairgate.ground.errors import BaselineError, TrackingError
from fairgate.records import (
    RESULTS,
    SCORES,
    PastRun,
    PastValue,
    Question,
    RecordFiles,
    RunRecord,
    same_architecture,
    without_k,
)
from fairgate.tracking import content
from fairgate.tracking.history import group_of
from fairgate.tracking.store_session import READ_REMEDY, redact, require_not_the_branchs, session, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


_CLOCKS_APART: Final = 24 * 3600
"""Seconds by which two machines' clocks may differ: a run of a later time would be the latest until then."""

MOST_BYTES: Final = 512 * 1024 * 1024

_ANOTHER = "name a run by its id (`mlflow:RUN_ID`), or another baseline: git:REF, file:PATH, model:URI"


def fetch_record(which: str, suite: str, uri: str, folder: Path, root: Path | None = None) -> RecordFiles:
    """Download results.json and scores.parquet of a run into `folder`.

    `which` is a run's id, or `latest`: the newest finished run of experiment `fairgate/SUITE` that passed, was of no
    pull request, was not made from a tree with changes of its own, and is not of the future. Raises BaselineError if
    there is no such run, it keeps no record or no scores, MLflow does not answer, or store or files are a branch's own,
    in the repository of `root` (`require_not_the_branchs`).
    """
    try:
        require_not_the_branchs(uri, root)
        with session(uri, "the baseline could not be fetched from MLflow", READ_REMEDY) as client:
            run = _latest(client, suite) if which == "latest" else _named(client, which, suite)
            run_id = str(run.info.run_id)
            require_not_the_branchs(str(run.info.artifact_uri), root)
            _require_files(client, run_id)
            folder.mkdir(parents=True, exist_ok=True)
            results, scores = (client.download_artifacts(run_id, name, str(folder)) for name in (RESULTS, SCORES))
            return RecordFiles(Path(results), Path(scores), origin=f"MLflow run {run_id}")
    except (TrackingError, BaselineError) as error:
        raise BaselineError(error.problem, where=error.where or redact(uri), remedy=error.remedy) from error


def finished_runs(client: MlflowClient, experiment: str, condition: str = "") -> Iterator[Run]:
    """Complete runs of an experiment (its id), gates open or closed, the newest evaluation first, page by page."""
    without = [f"attributes.status != '{status}'" for status in ("RUNNING", "SCHEDULED", "KILLED")]
    wanted = " and ".join([*without, *([condition] if condition else [])])  # MLflow has no `or`
    token: str | None = None
    while True:
        page = client.search_runs([experiment], wanted, max_results=200, order_by=["start_time DESC"], page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _latest(client: MlflowClient, suite: str) -> Run:
    name = content.experiment_of(suite)
    experiment = client.get_experiment_by_name(name)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        raise BaselineError(
            f"MLflow has no experiment '{name}', so suite '{suite}' has no latest run.",
            remedy="gate the main branch with `--fairness-mlflow URI` once, or name another baseline",
        )
    passed = 0
    for run in finished_runs(client, experiment.experiment_id, f"tags.`{content.VERDICT}` = 'pass'"):
        tags, passed = run.data.tags, passed + 1
        if int(run.info.start_time or 0) > 1000 * (time.time() + _CLOCKS_APART):
            continue
        if content.PULL_REQUEST not in tags and content.APPROVAL not in tags and tags.get(content.DIRTY) != "true":
            return run
    looked = (
        f"its {passed} passing runs are of pull requests or changed trees, of the future, or need an approval"
        if passed
        else "none of them passed"
    )
    raise BaselineError(
        f"no run of '{name}' can be the latest baseline: {looked}.",
        remedy=f"gate a clean checkout of the main branch; or {_ANOTHER}",
    )


def _named(client: MlflowClient, run_id: str, suite: str) -> Run:
    from mlflow.exceptions import MlflowException

    if re.fullmatch(r"[0-9A-Za-z_-]{1,64}", run_id) is None:
        raise BaselineError(f"'{run_id:.80}' is not the id of a run.", where=f"mlflow:{run_id:.80}", remedy=_ANOTHER)
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        remedy = f"check the id and the address; or {_ANOTHER}"
        raise BaselineError(f"MLflow has no run '{run_id}'.", remedy=remedy) from error
    experiment = str(client.get_experiment(run.info.experiment_id).name)
    if experiment != content.experiment_of(suite):
        raise BaselineError(
            f"run '{run_id}' is of experiment '{experiment}', not of suite '{suite}'.",
            remedy=f"name a run of experiment '{content.experiment_of(suite)}', or `mlflow:latest`",
        )
    if run.info.status not in content.COMPLETE or run.info.lifecycle_stage != "active":
        state = "deleted" if run.info.lifecycle_stage != "active" else f"not complete ({run.info.status})"
        raise BaselineError(f"run '{run_id}' is {state}.", remedy="name a finished run")
    return run


def _require_files(client: MlflowClient, run_id: str) -> None:
    sizes = {item.path: int(item.file_size or 0) for item in client.list_artifacts(run_id) if not item.is_dir}
    if missing := [name for name in (RESULTS, SCORES) if name not in sizes]:
        raise BaselineError(
            f"run '{run_id}' keeps no {' and no '.join(missing)}.",
            remedy="a run that measured nothing cannot be a baseline: name another run, or gate its checkpoint again",
        )
    for name in (RESULTS, SCORES):
        if sizes[name] > MOST_BYTES:
            problem = f"run '{run_id}' keeps a {name} of {sizes[name]:,} bytes; at most {MOST_BYTES:,} are fetched."
            raise BaselineError(problem, remedy=_ANOTHER)


def past_runs(
    suite: str,
    uri: str,
    *,
    limit: int = 100,
    branch: str | None = None,
    pull_requests: bool = False,
    may_be_new: bool = False,
    problem: str = "the history of suite '{suite}' could not be read from MLflow",
) -> list[PastRun]:
    """The newest finished runs of a suite, in the order of their commits where all know it, else of time; oldest first.

    Runs of pull requests are included only with `pull_requests`. Raises TrackingError where MLflow does not answer or,
    unless it `may_be_new`, has no such experiment; the message begins with `problem`.
    """
    database = sqlite_path(uri)
    if may_be_new and database is not None and not database.exists():
        return []
    name = content.experiment_of(suite)
    with session(uri, problem.format(suite=suite), READ_REMEDY) as client:
        experiment = client.get_experiment_by_name(name)
        if experiment is None or experiment.lifecycle_stage == "deleted":
            if may_be_new:
                return []
            raise TrackingError(
                f"MLflow has no experiment '{name}'.",
                where=redact(uri),
                remedy="check the suite's name and the address; `fairgate check SUITE` records a run",
            )
        past: list[PastRun] = []
        for run in finished_runs(client, experiment.experiment_id):
            if len(past) == limit:
                break
            past_run = _past(run)
            if run.data.tags.get(content.VERDICT) == "error" and not past_run.metrics.get("gate/fail"):
                continue  # an older version logged runs without a verdict too
            if (pull_requests or past_run.pull_request is None) and branch in (None, past_run.branch):
                past.append(past_run)
    known = all(run.height is not None for run in past)
    return sorted(past, key=lambda run: (run.height or 0 if known else 0, run.started_ms, run.run_id))


def past_values(record: RunRecord, uri: str, *, limit: int = 60) -> list[PastValue]:
    """What earlier runs measured of the record's items, oldest first: only where dataset, question and architecture are
    the record's.

    Nothing where there were no runs yet. Raises TrackingError where MLflow does not answer.
    """
    require_not_the_branchs(uri)
    stems = content.stems(record)
    questions = {part: _question(text) for part, text in content.questions(record).items()}
    values, own = [], content.metrics(record)
    for run in past_runs(record.suite, uri, limit=limit, may_be_new=True, problem="MLflow did not take the run"):
        if run.fingerprint != record.dataset.fingerprint or not same_architecture(run.weights, record.model.weights):
            continue
        for check in record.checks:
            stem, part = stems[check.item], content.check_part(check)
            before, now = run.questions.get(part), questions[part]
            if before is None or now is None or before.digest != now.digest or stem not in run.metrics:
                continue
            another = group_of(run.metrics, stem) != group_of(own, stem)
            if check.rule != "no_worse_than" or not another:
                value, lo, hi, bound = (run.metrics.get(f"{stem}{suffix}") for suffix in ("", "/lo", "/hi", "/bound"))
                values.append(PastValue(run.commit, run.created_at, check.item, value, lo, hi, bound, run.model))
    return values


def _past(run: Run) -> PastRun:
    tags, params = run.data.tags, run.data.params
    height, weights = tags.get(content.HEIGHT, ""), tags.get(content.WEIGHTS, "")
    return PastRun(
        run_id=str(run.info.run_id),
        created_at=tags.get(content.CREATED, ""),
        started_ms=int(run.info.start_time or 0),
        commit=tags.get(content.COMMIT),
        branch=tags.get(content.BRANCH),
        height=int(height) if height.isascii() and height.isdigit() else None,
        dirty=tags.get(content.DIRTY) == "true",
        pull_request=tags.get(content.PULL_REQUEST),
        verdict=tags.get(content.VERDICT, "error"),
        dataset=f"{tags.get(content.DATASET, '?')}/{tags.get(content.RELEASE, '?')}",
        fingerprint=tags.get(content.FINGERPRINT, ""),
        model=tags.get(content.MODEL),
        notice=tags.get(content.NOTICE),
        weights=int(weights) if weights.isascii() and weights.isdigit() else None,
        other_architecture=tags.get(content.OTHER_ARCHITECTURE) == "true",
        metrics={name: value for name, value in run.data.metrics.items() if math.isfinite(value)},
        questions={
            key.removeprefix(content.QUESTION): question
            for key, text in params.items()
            if key.startswith(content.QUESTION) and (question := _question(text)) is not None
        },
    )


def _question(text: str) -> Question | None:
    """None for a param that is not what `content.questions` writes: anyone may write to a shared server."""
    try:
        parsed = json.loads(text)
        metric, rule, digest = parsed["metric"], parsed["rule"], parsed["asked"]
        better, against = parsed.get("better"), parsed.get("against")
        metric, k = (metric, parsed["k"]) if "k" in parsed else without_k(metric)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if not all(isinstance(text, str) for text in (metric, rule, digest)) or not isinstance(k, int | None):
        return None
    known = better if better in ("higher", "lower") else None
    return Question(metric, known, rule, against and str(against), digest, k)
