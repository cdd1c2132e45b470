"""MLflow on PostgreSQL, as teams run it: what becomes of a verdict and its run when the database is gone."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from gated_world import but_for_times
from local_server import Relay
from mlflow_server import mlflow_server
from postgres_server import DATABASES, postgres_server
from toy_repository import Toy
from warm_python import warm_python

from fairgate.tracking.store_session import session

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("postgres")]

BEHIND, ALONE = DATABASES


@dataclass(frozen=True)
class Tracking:
    """An address of MLflow whose runs are in PostgreSQL, and the relay on the way there."""

    uri: str
    relay: Relay

    def check(self, toy: Toy, **environment: str) -> str:
        """Judge, which must pass; the output, which must end with the verdict."""
        done = fairgate(
            toy, "check", "jobs", "--cache", "off", "--report", "report", "--mlflow", self.uri, **environment
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout.rstrip().endswith("jobs: pass (10 passed)")
        return done.stdout


def fairgate(toy: Toy, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [warm_python(), "-P", "-m", "fairgate.interfaces.cli", *words]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=toy.root, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def database() -> Iterator[Relay]:
    with postgres_server() as server, Relay(server).serving() as relay:
        yield relay


@pytest.fixture(scope="module")
def server(database: Relay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mlflow_server(tmp_path_factory.mktemp("mlflow"), store(database, BEHIND)) as running:
        yield running.uri


def store(database: Relay, name: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{database.port}/{name}"


@pytest.fixture(params=DATABASES)
def tracking(request: pytest.FixtureRequest, database: Relay) -> Tracking:
    """MLflow's own server with PostgreSQL behind it, and PostgreSQL alone, which fairgate opens itself."""
    if not database.server.runs:
        database.server.start()
    uri = request.getfixturevalue("server") if request.param == BEHIND else store(database, ALONE)
    return Tracking(uri, database)


def test_a_database_that_is_killed_while_a_run_is_logged_turns_no_verdict_and_the_run_is_sent_later_and_once(
    tracking: Tracking, toy: Toy
) -> None:
    relay, results = tracking.relay, toy.root / "report" / "results.json"
    tracking.check(toy)  # makes the tables
    before = relay.sent
    assert re.search(r"MLflow: run [0-9a-f]{32} in fairgate/jobs", tracking.check(toy))
    size, judged = relay.sent - before, but_for_times(results)
    shares = (0.3, 0.8)
    for share in shares:
        relay.kill_after(int(size * share), sent=True)
        told = tracking.check(toy)
        assert relay.killed.is_set()
        assert "MLflow did not take the run" in told
        assert "The verdict stands; the run waits in" in told
        assert but_for_times(results) == judged
        relay.server.start()
    pushed = fairgate(toy, "push", "--mlflow", tracking.uri)
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    assert pushed.stdout.count("sent ") == len(shares)
    with session(tracking.uri, seconds=60) as client:
        experiment = client.get_experiment_by_name("fairgate/jobs")
        runs = client.search_runs([experiment.experiment_id])
        assert [run.info.status for run in runs] == ["FINISHED"] * (2 + len(shares))
        kept = [sorted(item.path for item in client.list_artifacts(run.info.run_id)) for run in runs]
    assert kept == [kept[0]] * len(runs)
    assert "results.json" in kept[0]
    assert len({str(sorted(run.data.metrics)) for run in runs}) == 1


def test_a_database_that_does_not_answer_is_left_when_the_time_is_over(database: Relay, toy: Toy) -> None:
    if not database.server.runs:
        database.server.start()
    database.server.pause()
    try:
        told = Tracking(store(database, ALONE), database).check(toy, FAIRGATE_MLFLOW_TIMEOUT="2")
    finally:
        database.server.resume()
    assert "MLflow did not take the run: it was not done after 2 seconds" in told
    assert "The verdict stands; the run waits in" in told
