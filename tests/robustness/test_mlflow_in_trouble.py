"""Whatever an MLflow server does, the verdict stands, the run waits in the queue, and nobody waits for ever."""

from __future__ import annotations

import shutil
import signal
import socket
import threading
from pathlib import Path

import ill_servers
import pytest
from forking_python import Ended
from gated_world import but_for_times, copy_of
from ill_servers import Answer, answering, serving
from remains import finished_runs, queued, require_whole
from warm_process import WarmProcess

pytestmark = pytest.mark.xdist_group("warm_process")

SHORT = 1.0  # seconds for the whole conversation
CHECK = ("fairgate", "check", "jobs", "--report", "report", "--cache", "cache", "--device", "cpu")


@pytest.fixture(scope="module")
def judged(warm: WarmProcess, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose embeddings are cached and whose verdict was reached in peace."""
    folder = copy_of(world, tmp_path_factory.mktemp("judged") / "repository")
    assert warm.run([*CHECK, "--mlflow", "off"], folder).code == 1
    return folder


def told(
    warm: WarmProcess, judged: Path, folder: Path, uri: str, seconds: float | None = None, tls: bool = False
) -> Ended:
    """Judge in a copy and tell `uri`: asserts that the verdict stands and the run waits."""
    environment = {} if seconds is None else {"FAIRGATE_MLFLOW_TIMEOUT": str(seconds)}
    if tls:
        environment["MLFLOW_TRACKING_INSECURE_TLS"] = "true"
    copy_of(judged, folder)
    ended = warm.run([*CHECK, "--mlflow", uri], folder, environment=environment)
    assert ended.code == 1, ended.output
    assert "Traceback" not in ended.output
    assert but_for_times(folder / "report" / "results.json") == but_for_times(judged / "report" / "results.json")
    (entry,) = queued(folder)
    assert (entry / "files" / "results.json").read_bytes() == (folder / "report" / "results.json").read_bytes()
    assert "The verdict stands; the run waits in" in ended.output
    assert f"fairgate push --queue {folder / '.fairgate' / 'queue'}" in ended.output
    assert f"where:  {uri}" in ended.output
    return ended


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answering("500 Internal Server Error", b"oops"), "500"),
        (answering("403 Forbidden", b"no"), "MLFLOW_TRACKING_TOKEN"),
        (answering("401 Unauthorized", b"who?"), "MLFLOW_TRACKING_TOKEN"),
        (answering("429 Too Many Requests\r\nRetry-After: 3600"), "429"),
        (answering("503 Service Unavailable\r\nRetry-After: 3600"), "503"),
        (answering("200 OK", b"<html>please log in</html>"), "MLflow did not take the run"),
        (answering("302 Found\r\nLocation: /elsewhere"), "redirect"),
    ],
    ids=["500", "403", "401", "429 for an hour", "503 for an hour", "a log-in page", "a circle of redirects"],
)
def test_a_server_that_refuses_is_asked_once_and_quoted(
    answer: Answer, said: str, warm: WarmProcess, judged: Path, tmp_path: Path
) -> None:
    with serving(answer) as uri:
        ended = told(warm, judged, tmp_path / "copy", uri)
    assert said in ended.output
    assert ended.seconds < 30


@pytest.mark.parametrize("kind", ["silent", "half", "dripping", "dripping_headers", "dripping over TLS"])
def test_a_server_that_keeps_us_waiting_is_left_when_the_time_is_over(
    kind: str, warm: WarmProcess, judged: Path, tmp_path: Path
) -> None:
    name, _, tls = kind.partition(" over ")
    with serving(getattr(ill_servers, name), ill_servers.a_certificate(tmp_path) if tls else None) as uri:
        ended = told(warm, judged, tmp_path / "copy", uri, SHORT, bool(tls))
    assert f"MLflow did not take the run: it was not done after {SHORT:g} seconds" in ended.output
    assert "FAIRGATE_MLFLOW_TIMEOUT" in ended.output
    assert ended.seconds < SHORT + 25  # a loaded machine starts slowly; without the limit it would never end


@pytest.mark.nightly
def test_a_silent_server_costs_ten_seconds_when_nobody_set_a_time(
    warm: WarmProcess, judged: Path, tmp_path: Path
) -> None:
    with serving(ill_servers.silent) as uri:
        ended = told(warm, judged, tmp_path / "copy", uri)
    assert "MLflow did not take the run: it did not answer (Read timed out. (read timeout=10))" in ended.output
    assert 9 < ended.seconds < 30


def test_a_server_that_dies_in_an_upload_loses_nothing(warm: WarmProcess, judged: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    with ill_servers.dying_in_an_upload() as (uri, asked):
        ended = told(warm, judged, folder, uri)
    assert asked[-1] == "upload", (asked, ended.output)
    assert "log-batch" in asked
    assert ended.seconds < 30
    pushed = warm.run(["fairgate", "push", "--mlflow", "sqlite:///fairgate.db"], folder)
    assert pushed.code == 0, pushed.output
    assert len(finished_runs(folder)) == 1
    assert queued(folder) == []


def test_the_record_is_on_disk_while_mlflow_keeps_us_waiting(warm: WarmProcess, judged: Path, tmp_path: Path) -> None:
    folder = copy_of(judged, tmp_path / "copy")
    shutil.rmtree(folder / "report")
    asked = threading.Event()

    def silent(connection: socket.socket) -> None:
        asked.set()
        ill_servers.silent(connection)

    with serving(silent) as uri:
        run = warm.start([*CHECK, "--mlflow", uri], folder)
        assert asked.wait(60)
        run.send(signal.SIGKILL)
        assert run.wait().killed
    require_whole(folder)
    assert but_for_times(folder / "report" / "results.json") == but_for_times(judged / "report" / "results.json")
    assert (folder / "report" / "comment.md").is_file()


def test_a_time_that_is_no_number_is_said_and_turns_no_verdict(warm: WarmProcess, judged: Path, tmp_path: Path) -> None:
    folder = copy_of(judged, tmp_path / "copy")
    ended = warm.run(CHECK, folder, environment={"FAIRGATE_MLFLOW_TIMEOUT": "soon"})
    assert ended.code == 1
    assert "FAIRGATE_MLFLOW_TIMEOUT is 'soon', which is no number of seconds" in ended.output
    assert len(queued(folder)) == 1


def test_a_server_that_does_not_answer_is_asked_about_one_waiting_run_only(
    warm: WarmProcess, judged: Path, tmp_path: Path
) -> None:
    folder = copy_of(judged, tmp_path / "copy")
    for _ in range(12):  # two runs that are alike to the millisecond are one
        warm.run([*CHECK, "--mlflow", "http://127.0.0.1:9"], folder)
        if len(queued(folder)) == 3:
            break
    assert len(queued(folder)) == 3
    with serving(ill_servers.silent) as uri:
        pushed = warm.run(["fairgate", "push", "--mlflow", uri], folder, environment={"FAIRGATE_MLFLOW_TIMEOUT": "2"})
    assert pushed.code == 1
    assert pushed.output.count("it was not done after 2 seconds") == 1
    assert pushed.output.count("not tried, since") == 2
    assert len(queued(folder)) == 3
