"""One evaluation as one MLflow run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairgate import reports
from fairgate.ground.errors import TrackingError
from fairgate.records import RunRecord
from fairgate.tracking import content
from fairgate.tracking.store_session import require_not_the_branchs, session, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient


def log_run(
    record: RunRecord,
    files: Sequence[Path],
    *,
    uri: str,
    more_tags: Mapping[str, str] | None = None,
) -> str:
    """Write one evaluation to MLflow and return the run's id.

    `files` become artifacts under their own names; results.json and scores.parquet make a run a baseline. Sending the
    same record again returns the run that is there; a run that an outage cut in two is completed. MLflow's process-wide
    state (tracking URI, active run, autologging) is neither read nor changed. `more_tags` are what the sender knows
    better than the record.

    Raises TrackingError when a file is missing, when MLflow cannot be reached or refuses, and for a store that git
    tracks.
    """
    require_not_the_branchs(uri)
    for path in files:
        if not path.is_file():
            raise TrackingError(
                "a file that the run should keep is not there.", where=str(path), remedy="write the reports first"
            )
    tags = content.tags(record) | {content.NOTE: reports.run_description(record)} | dict(more_tags or {})
    with session(uri) as client:
        experiment = _experiment(client, content.experiment_of(record.suite), uri)
        run_id, finished = _open_run(client, experiment, record, tags)
        if finished:
            return run_id
        _fill(client, run_id, record)
        for path in files:
            client.log_artifact(run_id, str(path))
        ended = content.started_ms(record) + round(1000 * record.seconds)
        client.set_terminated(run_id, status=content.status(record), end_time=ended)
        return run_id


def _experiment(client: MlflowClient, name: str, uri: str) -> str:
    """The experiment's id, made when it is new. With SQLite its artifacts are in the database's folder."""
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is not None and experiment.lifecycle_stage == "deleted":
        raise TrackingError(
            f"the MLflow experiment '{name}' is deleted.",
            where=f"experiment id {experiment.experiment_id}",
            remedy=f"bring it back with `mlflow experiments restore --experiment-id {experiment.experiment_id}`",
        )
    if experiment is not None:
        if content.KIND not in experiment.tags:  # somebody's own choice stays
            with contextlib.suppress(MlflowException):  # who may write runs may not be allowed to edit the experiment
                client.set_experiment_tag(experiment.experiment_id, content.KIND, content.KIND_OF_OURS)
        return str(experiment.experiment_id)
    database = sqlite_path(uri)
    folder = database.parent / "mlartifacts" / content.safe_part(name.replace("/", "-")) if database else None
    try:
        place = folder.as_uri() if folder else None
        return str(client.create_experiment(name, artifact_location=place, tags={content.KIND: content.KIND_OF_OURS}))
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
        return str(client.get_experiment_by_name(name).experiment_id)  # a neighbouring job was faster


def _open_run(client: MlflowClient, experiment: str, record: RunRecord, tags: Mapping[str, str]) -> tuple[str, bool]:
    """The run that carries this record's key and whether it is complete; a fresh run when there is none."""
    key = content.run_key(record)
    for run in client.search_runs([experiment], filter_string=f"tags.`{content.RUN_KEY}` = '{key}'", max_results=1):
        return str(run.info.run_id), run.info.status in content.COMPLETE
    created = client.create_run(
        experiment,
        start_time=content.started_ms(record),
        tags=dict(tags),
        run_name=content.run_name(record),
    )
    if not created.info.run_id:
        raise TrackingError(
            "the server took a run and gave it no id: it does not seem to be MLflow.", remedy="check the address"
        )
    return str(created.info.run_id), False


def _fill(client: MlflowClient, run_id: str, record: RunRecord) -> None:
    """Metrics, params and the dataset, in as few requests as MLflow allows (it cuts the batch by itself)."""
    from mlflow.entities import Dataset, DatasetInput, Metric, Param

    started = content.started_ms(record)  # not the clock: a run completed later must not hold every number twice
    step = started // 1000  # several checkpoints of one commit, or of a shallow clone, are in the order of time
    metrics = [Metric(name, value, started, step) for name, value in content.metrics(record).items()]
    params = [Param(name, value) for name, value in content.params(record).items()]
    _once_more(lambda: client.log_batch(run_id, metrics=metrics, params=params, synchronous=True))
    data = record.dataset
    release = Dataset(  # entities, not mlflow.data: that imports pandas; a digest has at most 36 characters there
        name=data.name,
        digest=data.fingerprint[:36],
        source_type="fairgate",
        source=json.dumps({"release": f"{data.name}/{data.version}", "fingerprint": data.fingerprint}),
    )
    _once_more(lambda: client.log_inputs(run_id, [DatasetInput(release, [])]))


def _once_more(call: Callable[[], object]) -> None:
    """MLflow looks whether something is there, then inserts it: of two jobs that do so at once, one is refused.

    So it goes with an experiment's first dataset, and with the params of one record that two jobs send. The second time
    it is there, and is found.
    """
    from mlflow.exceptions import MlflowException

    try:
        call()
    except MlflowException as error:
        if not any(name in str(error) for name in ("IntegrityError", "UniqueViolation")):  # SQLite, MySQL; PostgreSQL
            raise
        call()
