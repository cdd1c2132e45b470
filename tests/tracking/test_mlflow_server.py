"""The same as on SQLite, against a real server: what a team runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mlflow_server import Server
from nightly import some
from toy_repository import Toy
from tracking_records import a_check, a_record
from typer.testing import CliRunner

from fairgate import gate
from fairgate.data import open_dataset
from fairgate.interfaces.cli.main import app
from fairgate.models import open_scorer
from fairgate.reports import write_results
from fairgate.suites import resolve
from fairgate.tracking import fetch_model, fetch_record, log_or_queue, log_run, past_runs, push, tag_model_version
from fairgate.tracking.store_session import session

if TYPE_CHECKING:
    from mlflow import MlflowClient

pytestmark = pytest.mark.xdist_group("mlflow_server")

KEY = b"a key of this machine"
TUNED = Path(__file__).parents[2] / "build/portraits/checkpoints/tuned"


@pytest.fixture
def client(server: Server) -> Iterator[MlflowClient]:
    with session(server.uri, seconds=600) as client:
        yield client


def evaluate(toy: Toy, **options: str) -> gate.Evaluation:
    """The suite `jobs`, gated and published."""
    prepared = gate.prepare("jobs", toy.root)
    settings = resolve(prepared.loaded.suite, {"cache": "off", **options}, environment={})
    return gate.publish(gate.evaluate(prepared, settings, command="check"), prepared, settings)


def test_a_run_is_read_back_from_the_server_as_it_was_logged(
    server: Server, client: MlflowClient, tmp_path: Path
) -> None:
    record = a_record(suite="read_back", git_height=17, pull_request=4, git_branch="topic/ünï")
    files = [write_results(record, tmp_path), tmp_path / "comment.md"]
    files[1].write_text("a comment")
    run = client.get_run(log_run(record, files, uri=server.uri))
    assert client.get_experiment(run.info.experiment_id).name == "fairgate/read_back"
    assert (run.info.status, run.info.run_name) == ("FINISHED", "pass 0123456 #4 topic/ünï (read_back)")
    (point,) = client.get_metric_history(run.info.run_id, "skew/doctor/hi")
    assert (point.value, point.step, point.timestamp) == (0.6, run.info.start_time // 1000, run.info.start_time)
    assert run.data.metrics["gate/pass"] == 2
    assert run.data.tags["fairgate.pull_request"] == "4"
    assert run.data.tags["fairgate.git.branch"] == "topic/ünï"
    assert run.data.params["check/skew"] == "max_skew_at_k of neutral_search: at_most 0.9"
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("occupations", "f" * 36)
    kept = client.download_artifacts(run.info.run_id, "results.json", str(tmp_path / ".."))
    assert Path(kept).read_bytes() == files[0].read_bytes()


def test_a_second_sending_is_the_same_run_and_completes_it(
    server: Server, client: MlflowClient, tmp_path: Path
) -> None:
    record = a_record(suite="twice")
    first = log_run(record, [], uri=server.uri)
    client.update_run(first, status="RUNNING")
    assert log_run(record, [write_results(record, tmp_path)], uri=server.uri) == first
    assert client.get_run(first).info.status == "FINISHED"
    assert [item.path for item in client.list_artifacts(first)] == ["results.json"]
    assert len(client.get_metric_history(first, "skew/doctor")) == 1


def test_what_waited_while_the_server_was_out_reaches_it_once(
    server: Server, client: MlflowClient, tmp_path: Path
) -> None:
    queue, record = tmp_path / "queue", a_record(suite="waited")
    outcome = log_or_queue(record, [write_results(record, tmp_path)], "http://127.0.0.1:9", queue)
    assert outcome.queued is not None
    shutil.copytree(outcome.queued, tmp_path / "again" / outcome.queued.name)
    sent = CliRunner().invoke(app, ["push", "--queue", str(queue), "--mlflow", server.uri])
    assert (sent.exit_code, list(queue.glob("[!.]*"))) == (0, [])
    (again,) = push(tmp_path / "again", server.uri)
    (run,) = past_runs("waited", server.uri)
    assert again.run_id == run.run_id


@pytest.mark.parametrize("kind", some(["a server", "a new SQLite store"], few=1))
def test_two_jobs_that_log_at_once_lose_nothing(kind: str, server: Server, tmp_path: Path) -> None:
    uri = server.uri if kind == "a server" else f"sqlite:///{tmp_path}/fairgate.db"
    script = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tracking_records import a_record
from fairgate.tracking import log_run
for number in range(4):
    shared = number % 2 == 0
    record = a_record(suite="crowd", seconds=float(number) if shared else number + float(sys.argv[2]) / 10)
    print(log_run(record, [], uri=sys.argv[1]))
"""
    start = [sys.executable, "-c", script, uri]
    jobs = [
        subprocess.Popen([*start, str(job), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True)
        for job in (1, 2)
    ]
    told = [job.communicate(timeout=120)[0].split() for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0]
    runs = past_runs("crowd", uri)
    assert {run.run_id for run in runs} == {*told[0], *told[1]}
    assert {told[0][1], told[0][3]}.isdisjoint(told[1])
    assert all(run.metrics["skew/doctor"] == 0.5 for run in runs)


def test_a_baseline_from_the_server_is_the_file_and_decides_as_the_file_does(
    server: Server, toy: Toy, tmp_path: Path
) -> None:
    def run(**options: str) -> gate.Evaluation:
        return evaluate(toy, mlflow=server.uri, **options)

    base = {"model": "scores:base.csv?values=logit", "baseline": "none", "report": str(toy.root / "base")}
    kept = run(**base)
    # A check against nothing cannot pass, so that this run is named and not the latest.
    assert kept.record.verdict != "pass"
    (found,) = past_runs("jobs", server.uri)
    fetched = fetch_record(found.run_id, "jobs", server.uri, tmp_path / "fetched")
    for path in (fetched.results, fetched.scores):
        assert path.read_bytes() == (toy.root / "base" / path.name).read_bytes()

    by_file = evaluate(toy, baseline=f"file:{toy.root / 'base'}", mlflow="off").record
    by_server = run(baseline=f"mlflow:{found.run_id}").record
    assert by_file.verdict == by_server.verdict == "pass"
    assert by_file.checks == by_server.checks
    latest = fetch_record("latest", "jobs", server.uri, tmp_path / "latest")
    assert json.loads(latest.results.read_bytes())["created_at"] == by_server.created_at


@pytest.fixture(scope="module")
def registered(server: Server) -> str:
    """A model whose versions 1 to 3 are the shipped checkpoint: of a run, as a model that was logged, by an address."""
    with session(server.uri, seconds=600) as client:
        run_id = log_run(a_record(suite="trained"), [], uri=server.uri)
        client.log_artifacts(run_id, str(TUNED), "out/checkpoint")
        experiment = client.get_run(run_id).info.experiment_id
        logged = client.create_logged_model(experiment, name="clip", source_run_id=run_id)
        client.log_model_artifacts(logged.model_id, str(TUNED))
        client.finalize_logged_model(logged.model_id, "READY")
        client.create_registered_model("portrait-clip")
        address = f"{client.get_run(run_id).info.artifact_uri}/out"
        client.create_model_version("portrait-clip", f"runs:/{run_id}/out/checkpoint", run_id)
        client.create_model_version("portrait-clip", f"models:/{logged.model_id}", model_id=logged.model_id)
        client.create_model_version("portrait-clip", address, run_id)
        client.set_registered_model_alias("portrait-clip", "champion", "2")
    return "portrait-clip"


def test_a_registered_checkpoint_is_fetched_and_opened(
    server: Server, registered: str, toy: Toy, tmp_path: Path
) -> None:
    dataset = open_dataset("toy", toy.root / "datasets")
    shipped = open_scorer(f"open_clip:local-dir:{TUNED}", dataset, device="cpu").fingerprint
    for asked, version in (("/1", "1"), ("@champion", "2"), ("/3", "3")):
        found = fetch_model(f"{registered}{asked}", server.uri, tmp_path / "models", KEY)
        assert (found.name, found.version) == (registered, version)
        assert open_scorer(found.local_uri, dataset, device="cpu").fingerprint == shipped


def test_a_version_is_downloaded_once_and_an_alias_is_looked_up_each_time(
    server: Server, client: MlflowClient, registered: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetch_model(f"{registered}@champion", server.uri, tmp_path, KEY)
    monkeypatch.setattr("mlflow.artifacts.download_artifacts", None)
    assert fetch_model(f"{registered}/2", server.uri, tmp_path, KEY) == first
    client.set_registered_model_alias(registered, "moving", "2")
    assert fetch_model(f"{registered}@moving", server.uri, tmp_path, KEY) == first


def test_a_verdict_is_written_back_to_the_version(server: Server, client: MlflowClient, registered: str) -> None:
    record = a_record(verdict="fail", checks=[a_check("skew", "doctor", verdict="fail")])
    tag_model_version(registered, "2", record, "a" * 32, server.uri)
    tags = client.get_model_version_by_alias(registered, "champion").tags
    assert tags["fairgate.occupations.verdict"] == "fail"
    assert tags["fairgate.occupations.needs_approval"] == "0"
    assert tags["fairgate.occupations.run_id"] == "a" * 32
    assert tags["fairgate.occupations.git_commit"] == "0123456789abcdef"
    assert not any(key.startswith("fairgate.") for key in client.get_model_version(registered, "1").tags)


def test_the_gate_scores_a_registered_version_and_tells_it_the_verdict(
    server: Server, client: MlflowClient, registered: str, toy: Toy
) -> None:
    options = {"cache": str(toy.root / "cache"), "mlflow": server.uri, "device": "cpu", "baseline": "none"}
    by_alias = evaluate(toy, model=f"mlflow-model:{registered}@champion", **options).record
    dataset = open_dataset("toy", toy.root / "datasets")
    assert by_alias.model.fingerprint == open_scorer(f"open_clip:local-dir:{TUNED}", dataset, device="cpu").fingerprint
    tags = client.get_model_version(registered, "2").tags
    assert tags["fairgate.jobs.verdict"] == by_alias.verdict
    assert client.get_run(tags["fairgate.jobs.run_id"]).data.tags["fairgate.model.uri"] == by_alias.model.uri
