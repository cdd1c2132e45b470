from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from tracking_records import a_check, a_record

from fairgate.ground.errors import TrackingError
from fairgate.reports import run_description
from fairgate.tracking import log_or_queue, log_run
from fairgate.tracking.content import RUN_KEY
from fairgate.tracking.store_session import redact, session, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One SQLite store for the module: making its tables takes a second or more. The space in its path is meant."""
    return tmp_path_factory.mktemp("a store") / "fairgate.db"


@pytest.fixture
def uri(store: Path) -> str:
    return f"sqlite:///{store}"


@pytest.fixture
def client(uri: str) -> Iterator[MlflowClient]:
    with session(uri) as client:
        yield client


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "report" / name for name in ("results.json", "report.html", "comment.md")]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_text(path.name)
    return paths


def test_a_run_is_read_back_as_it_was_logged(uri: str, client: MlflowClient, files: list[Path]) -> None:
    record = a_record(checks=[a_check("skew", "soup @ chef", lo=-math.inf), a_check("fairness", None, delta=None)])
    run = client.get_run(log_run(record, files, uri=uri))

    assert client.get_experiment(run.info.experiment_id).name == "fairgate/occupations"
    assert run.info.run_name == "pass 0123456 (occupations)"
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == 2500
    assert run.data.metrics["skew/soup - chef"] == 0.5
    assert run.data.metrics["skew/soup - chef/p_adj"] == 0.3
    assert run.data.metrics["skew/soup - chef/n"] == 40
    assert run.data.metrics["fairness/all/hi"] == 0.6
    assert run.data.metrics["gate/pass"] == 2
    assert run.data.metrics["gate/fail"] == 0
    assert not {"skew/soup - chef/lo", "fairness/all/delta"} & set(run.data.metrics)
    assert run.data.params["correction"] == "step-down max-T"
    assert run.data.params["suite_digest"] == "d" * 64
    assert run.data.tags["fairgate.verdict"] == "pass"
    assert run.data.tags["fairgate.git.dirty"] == "false"
    assert run.data.tags["fairgate.ci_url"] == "https://ci.example/run/7"
    assert run.data.tags["fairgate.dataset.fingerprint"] == "f" * 64
    assert run.data.tags["fairgate.baseline.uri"] == "open_clip:tiny@base.safetensors"
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("occupations", "f" * 36)
    artifacts = [item.path for item in client.list_artifacts(run.info.run_id)]
    assert artifacts == ["comment.md", "report.html", "results.json"]


def test_the_pages_of_a_closed_gate_show_a_failed_run_with_the_comments_text_among_the_runs_of_models(
    uri: str, client: MlflowClient
) -> None:
    check = a_check("skew", "doctor", verdict="fail", reason="over the bound")
    record = a_record(suite="closed", verdict="fail", checks=[check])
    run = client.get_run(log_run(record, [], uri=uri))
    assert run.info.status == "FAILED"
    assert run.data.tags["mlflow.note.content"] == run_description(record)
    assert "fairgate closed: fail" in run.data.tags["mlflow.note.content"]
    experiment = client.get_experiment(run.info.experiment_id)
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    (metric,) = client.get_metric_history(run.info.run_id, "skew/doctor")
    assert metric.step == metric.timestamp // 1000 == run.info.start_time // 1000
    assert log_run(record, [], uri=uri) == run.info.run_id


def test_an_experiment_gets_its_kind_later_and_keeps_one_that_somebody_chose(uri: str, client: MlflowClient) -> None:
    plain, chosen = (client.create_experiment(f"fairgate/{name}") for name in ("older", "elsewhere"))
    client.set_experiment_tag(chosen, "mlflow.experimentKind", "classification")
    for suite in ("older", "elsewhere"):
        log_run(a_record(suite=suite), [], uri=uri)
    kinds = [client.get_experiment(one).tags["mlflow.experimentKind"] for one in (plain, chosen)]
    assert kinds == ["custom_model_development", "classification"]


def test_who_may_not_edit_an_experiment_still_logs_runs(
    uri: str, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException

    def refused(*words: object) -> None:
        raise MlflowException("Permission denied")

    client.create_experiment("fairgate/others")
    monkeypatch.setattr(type(client), "set_experiment_tag", refused)
    run = client.get_run(log_run(a_record(suite="others"), [], uri=uri))
    assert run.info.status == "FINISHED"


def test_a_description_of_very_many_checks_is_a_tag_that_mlflow_takes(uri: str, client: MlflowClient) -> None:
    checks = [a_check("skew", f"subject {at}", verdict="fail", reason="over the bound") for at in range(400)]
    record = a_record(suite="many", verdict="fail", checks=checks)
    run = client.get_run(log_run(record, [], uri=uri))
    assert 1000 < len(run.data.tags["mlflow.note.content"]) <= 5000
    assert len(run.data.tags["fairgate.failing"]) == 5000


def test_artifacts_live_beside_the_database(uri: str, store: Path, files: list[Path]) -> None:
    run_id = log_run(a_record(seconds=3.0), files, uri=uri)
    kept = store.parent / "mlartifacts" / "fairgate-occupations" / run_id / "artifacts"
    assert sorted(path.name for path in kept.iterdir()) == ["comment.md", "report.html", "results.json"]


def test_the_same_record_is_one_run_however_often_it_is_sent(uri: str, client: MlflowClient, files: list[Path]) -> None:
    record = a_record(seconds=4.0)
    assert log_run(record, files, uri=uri) == log_run(record, files, uri=uri)


def test_a_run_that_an_outage_cut_in_two_is_completed(uri: str, client: MlflowClient, files: list[Path]) -> None:
    record = a_record(seconds=5.0)
    first = log_run(record, files[:1], uri=uri)
    client.update_run(first, status="RUNNING")
    assert log_run(record, files, uri=uri) == first
    assert client.get_run(first).info.status == "FINISHED"
    assert len(client.list_artifacts(first)) == 3
    assert len(client.get_metric_history(first, "skew/doctor")) == 1


def test_a_run_without_a_baseline_says_none(uri: str, client: MlflowClient) -> None:
    run = client.get_run(log_run(a_record(baseline=False, git_commit=None), [], uri=uri))
    assert run.data.tags["fairgate.baseline.source"] == "none"
    assert run.info.run_name == "pass nogit (occupations)"


def test_what_mlflow_warns_of_while_it_is_imported_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    class Importing(ModuleType):
        """MLflow itself, imported long ago; here warnings are errors."""

        def __getattr__(self, name: str) -> Any:
            warnings.warn(f"{name} will be gone", DeprecationWarning, stacklevel=2)
            return getattr(mlflow, name)

    monkeypatch.setitem(sys.modules, "mlflow", Importing("mlflow"))
    with session("http://127.0.0.1:9") as client:
        assert isinstance(client, mlflow.MlflowClient)


def test_nothing_global_is_changed_and_nothing_is_printed(
    uri: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    before = dict(os.environ), mlflow.get_tracking_uri(), warnings.filters[:]
    log_run(a_record(seconds=6.0), [], uri=uri)
    assert (dict(os.environ), mlflow.get_tracking_uri(), warnings.filters[:]) == before
    assert mlflow.active_run() is None
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_a_new_store_is_made_where_the_address_points_and_the_message_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = log_or_queue(a_record(), [], "sqlite:///deep/fairgate.db", tmp_path / "queue")
    assert outcome.run_id is not None
    assert outcome.queued is None
    assert "a new database" in outcome.message
    assert (tmp_path / "deep/fairgate.db").is_file()
    assert capfd.readouterr() == ("", "")


def test_a_deleted_experiment_is_named_with_the_way_to_bring_it_back(uri: str, client: MlflowClient) -> None:
    experiment = client.get_experiment_by_name("fairgate/occupations") or client.get_experiment(
        client.get_run(log_run(a_record(), [], uri=uri)).info.experiment_id
    )
    client.delete_experiment(experiment.experiment_id)
    try:
        with pytest.raises(TrackingError, match="mlflow experiments restore"):
            log_run(a_record(), [], uri=uri)
    finally:
        client.restore_experiment(experiment.experiment_id)


def test_an_experiment_that_a_neighbour_made_meanwhile_is_used(
    uri: str, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = client.get_run(log_run(a_record(), [], uri=uri)).info.experiment_id
    real = type(client).get_experiment_by_name
    answers = iter([None])
    monkeypatch.setattr(type(client), "get_experiment_by_name", lambda self, name: next(answers, real(self, name)))
    run = client.get_run(log_run(a_record(seconds=7.0), [], uri=uri))
    assert run.info.experiment_id == known
    assert RUN_KEY in run.data.tags


def test_a_dataset_that_a_neighbour_logged_meanwhile_is_used(
    uri: str, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException

    real, refusals = (
        type(client).log_inputs,
        iter([MlflowException("(sqlite3.IntegrityError) UNIQUE constraint failed")]),
    )

    def log_inputs(self: MlflowClient, run_id: str, datasets: Any) -> None:
        if (refused := next(refusals, None)) is not None:
            raise refused
        real(self, run_id, datasets)

    monkeypatch.setattr(type(client), "log_inputs", log_inputs)
    run = client.get_run(log_run(a_record(seconds=71.0), [], uri=uri))
    assert len(run.inputs.dataset_inputs) == 1


def test_a_missing_file_is_named(uri: str, tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match=r"report\.html"):
        log_run(a_record(), [tmp_path / "report.html"], uri=uri)


def test_a_file_store_is_refused_with_mlflows_own_words(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="sqlite:///"):
        log_run(a_record(), [], uri=f"file://{tmp_path}/mlruns")


def test_a_password_in_an_address_is_not_told() -> None:
    assert redact("postgresql://me:s3cret@db/x failed") == "postgresql://***@db/x failed"


@pytest.mark.parametrize("uri", ["http://127.0.0.1:5000", "sqlite://", "postgresql:///x", "./mlruns"])
def test_only_a_sqlite_file_has_a_place_for_artifacts(uri: str) -> None:
    assert sqlite_path(uri) is None
