"""A baseline from MLflow: the record and the scores that a run keeps, as files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairgate.errors import BaselineError, TrackingError
from fairgate.tracking import content
from fairgate.tracking.session import READ_REMEDY, redact, session

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

RESULTS: Final = "results.json"
SCORES: Final = "scores.parquet"
MOST_BYTES: Final = 512 * 1024 * 1024

_PROBLEM = "the baseline could not be fetched from MLflow"
_ANOTHER = "name a run by its id (`mlflow:RUN_ID`), or another baseline: git:REF, file:PATH, model:URI"


@dataclass(frozen=True, slots=True)
class FetchedRun:
    """A run's record and per-image scores, on this disk."""

    run_id: str
    results: Path
    scores: Path


def fetch_record(which: str, suite: str, uri: str, folder: Path) -> FetchedRun:
    """Download results.json and scores.parquet of a run into `folder`.

    `which` is a run's id, or `latest`: the newest finished run of experiment `fairgate/SUITE` that passed, was of no
    pull request, and was not made from a tree with changes of its own. Raises BaselineError where there is no such run,
    where it keeps no record or no scores, or where MLflow does not answer.
    """
    try:
        with session(uri, _PROBLEM, READ_REMEDY) as client:
            run = _latest(client, suite, uri) if which == "latest" else _named(client, which, suite, uri)
            run_id = str(run.info.run_id)
            _require_files(client, run_id, uri)
            folder.mkdir(parents=True, exist_ok=True)
            results, scores = (client.download_artifacts(run_id, name, str(folder)) for name in (RESULTS, SCORES))
            return FetchedRun(run_id, Path(results), Path(scores))
    except TrackingError as error:
        raise BaselineError(error.problem, where=error.where, remedy=error.remedy) from error


def finished_runs(client: MlflowClient, experiment: str, condition: str = "") -> Iterator[Run]:
    """Finished runs of an experiment (its id), the newest evaluation first, page by page."""
    wanted = "attributes.status = 'FINISHED'" + (f" and {condition}" if condition else "")
    token: str | None = None
    while True:
        page = client.search_runs([experiment], wanted, max_results=200, order_by=["start_time DESC"], page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _latest(client: MlflowClient, suite: str, uri: str) -> Run:
    name = content.experiment_of(suite)
    experiment = client.get_experiment_by_name(name)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        raise BaselineError(
            f"MLflow has no experiment '{name}', so suite '{suite}' has no latest run.",
            where=redact(uri),
            remedy="gate the main branch with `--fairness-mlflow URI` once, or name another baseline",
        )
    passed = 0
    for run in finished_runs(client, experiment.experiment_id, f"tags.`{content.VERDICT}` = 'pass'"):
        tags, passed = run.data.tags, passed + 1
        if content.PULL_REQUEST not in tags and tags.get(content.DIRTY) != "true":
            return run
    looked = f"its {passed} passing runs are of pull requests or of changed trees" if passed else "none of them passed"
    raise BaselineError(
        f"no run of '{name}' can be the latest baseline: {looked}.",
        where=redact(uri),
        remedy=f"gate a clean checkout of the main branch; or {_ANOTHER}",
    )


def _named(client: MlflowClient, run_id: str, suite: str, uri: str) -> Run:
    from mlflow.exceptions import MlflowException

    if re.fullmatch(r"[0-9A-Za-z_-]{1,64}", run_id) is None:
        raise BaselineError(f"'{run_id:.80}' is not the id of a run.", where=f"mlflow:{run_id:.80}", remedy=_ANOTHER)
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise BaselineError(
            f"MLflow has no run '{run_id}'.", where=redact(uri), remedy=f"check the id and the address; or {_ANOTHER}"
        ) from error
    experiment = str(client.get_experiment(run.info.experiment_id).name)
    if experiment != content.experiment_of(suite):
        raise BaselineError(
            f"run '{run_id}' is of experiment '{experiment}', not of suite '{suite}'.",
            where=redact(uri),
            remedy=f"name a run of experiment '{content.experiment_of(suite)}', or `mlflow:latest`",
        )
    if run.info.status != "FINISHED" or run.info.lifecycle_stage != "active":
        state = "deleted" if run.info.lifecycle_stage != "active" else f"not complete ({run.info.status})"
        raise BaselineError(f"run '{run_id}' is {state}.", where=redact(uri), remedy="name a finished run")
    return run


def _require_files(client: MlflowClient, run_id: str, uri: str) -> None:
    kept = {item.path: int(item.file_size or 0) for item in client.list_artifacts(run_id) if not item.is_dir}
    if missing := [name for name in (RESULTS, SCORES) if name not in kept]:
        raise BaselineError(
            f"run '{run_id}' keeps no {' and no '.join(missing)}.",
            where=redact(uri),
            remedy="a run that measured nothing cannot be a baseline: name another run, or gate its checkpoint again",
        )
    for name in (RESULTS, SCORES):
        if kept[name] > MOST_BYTES:
            raise BaselineError(
                f"run '{run_id}' keeps a {name} of {kept[name]:,} bytes; at most {MOST_BYTES:,} are fetched.",
                where=redact(uri),
                remedy=_ANOTHER,
            )
