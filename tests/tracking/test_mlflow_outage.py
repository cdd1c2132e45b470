from __future__ import annotations

import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
from tracking_records import a_record
from typer.testing import CliRunner

from fairgate.interfaces.cli.tracking import push as push_command
from fairgate.reports import run_description
from fairgate.tracking import log_or_queue, push
from fairgate.tracking.store_session import session


@pytest.fixture
def dead() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    path = tmp_path / "results.json"
    path.write_text("{}")
    return [path]


@pytest.fixture
def serve() -> Iterator[list[ThreadingHTTPServer]]:
    servers: list[ThreadingHTTPServer] = []
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


def a_server(status: int, body: bytes, headers: dict[str, str], servers: list[ThreadingHTTPServer]) -> str:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    servers.append(server)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def entries(queue: Path) -> list[str]:
    return sorted(path.name for path in queue.iterdir() if not path.name.startswith("."))


def test_a_dead_server_queues_the_run_and_push_sends_it_once(
    dead: str, uri: str, files: list[Path], tmp_path: Path
) -> None:
    queue, record = tmp_path / "queue", a_record(seconds=1.0)
    start = time.monotonic()
    outcome = log_or_queue(record, files, dead, queue)
    assert time.monotonic() - start < 60  # seconds, on a busy machine; MLflow left to itself takes minutes
    assert outcome.run_id is None
    assert outcome.queued == queue / "20260301T101500Z-occupations-abcdef01"
    assert "fairgate push" in outcome.message
    assert "verdict stands" in outcome.message

    spare = tmp_path / "spare"
    shutil.copytree(queue, spare)
    (sent,) = push(queue, uri)
    (again,) = push(spare, uri)
    assert sent.run_id is not None
    assert again.run_id == sent.run_id
    assert entries(queue) == []
    assert push(queue, uri) == []
    with session(uri) as client:
        assert [item.path for item in client.list_artifacts(sent.run_id)] == ["results.json"]
        assert client.get_run(sent.run_id).data.tags["mlflow.note.content"] == run_description(record)


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (500, b"oops", {}),
        (503, b"", {"Retry-After": "3600"}),
        (404, b"", {}),
        (200, b"<html>please log in</html>", {}),
        (200, b"{}", {}),
        (200, b'{"experiment": 3}', {}),
    ],
    ids=["500", "503 with an hour's wait", "404", "a proxy's login page", "an empty answer", "an odd answer"],
)
def test_a_server_that_is_ill_queues_the_run(
    status: int, body: bytes, headers: dict[str, str], serve: list[ThreadingHTTPServer], tmp_path: Path
) -> None:
    outcome = log_or_queue(a_record(), [], a_server(status, body, headers, serve), tmp_path / "queue")
    assert outcome.queued is not None
    assert outcome.queued.is_dir()


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        outcome = log_or_queue(a_record(), [], f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path / "queue")
    assert time.monotonic() - start < 60
    assert outcome.queued is not None


@pytest.mark.parametrize("address", ["", "ftp://127.0.0.1/x", "http://[", "mysql+nodriver://127.0.0.1/x"])
def test_an_address_that_cannot_be_used_queues_the_run(address: str, tmp_path: Path) -> None:
    assert log_or_queue(a_record(), [], address, tmp_path / "queue").queued is not None


def test_a_machine_without_mlflow_queues_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    outcome = log_or_queue(a_record(), [], f"sqlite:///{tmp_path}/fairgate.db", tmp_path / "queue")
    assert outcome.queued is not None
    assert "pip install mlflow" in outcome.message


def test_a_file_that_is_no_database_is_given_up_at_once(tmp_path: Path) -> None:
    (tmp_path / "fairgate.db").write_text("not a database, but long enough to be taken for one" * 40)
    start = time.monotonic()
    outcome = log_or_queue(a_record(), [], f"sqlite:///{tmp_path}/fairgate.db", tmp_path / "queue")
    assert time.monotonic() - start < 60
    assert outcome.queued is not None
    assert "not a database" in outcome.message


def test_the_same_run_waits_once_and_another_of_the_same_second_beside_it(dead: str, tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    first = log_or_queue(a_record(), [], dead, queue)
    assert log_or_queue(a_record(), [], dead, queue).queued == first.queued
    assert log_or_queue(a_record(seconds=9.0), [], dead, queue).queued != first.queued
    assert len(entries(queue)) == 2
    assert (queue / ".gitignore").read_text() == "*\n"


def test_a_missing_file_does_not_lose_the_rest_of_the_run(dead: str, files: list[Path], tmp_path: Path) -> None:
    outcome = log_or_queue(a_record(created_at="long ago"), [*files, tmp_path / "gone"], dead, tmp_path / "queue")
    assert outcome.queued is not None
    assert outcome.queued.name.startswith("longago-")
    assert [path.name for path in (outcome.queued / "files").iterdir()] == ["results.json"]


def test_a_queue_that_cannot_be_written_is_said_and_nothing_is_raised(dead: str, tmp_path: Path) -> None:
    (tmp_path / "queue").write_text("a file where the folder should be")
    outcome = log_or_queue(a_record(), [], dead, tmp_path / "queue")
    assert (outcome.run_id, outcome.queued) == (None, None)
    assert "could not be kept" in outcome.message


def test_push_keeps_what_it_cannot_send_and_says_why(dead: str, uri: str, tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    waiting = log_or_queue(a_record(), [], dead, queue).queued
    assert waiting is not None
    (broken := queue / "broken").mkdir()
    (broken / "record.json").write_text("{")
    by_name = {result.queued.name: result for result in push(queue, dead)}
    assert by_name["broken"].run_id is None
    assert "broken" in by_name["broken"].message
    assert by_name[waiting.name].run_id is None
    assert entries(queue) == sorted(["broken", waiting.name])
    damaged = waiting / "record.json"
    damaged.write_text("{")
    again = log_or_queue(a_record(), [], dead, queue).queued
    assert again not in {None, waiting}


def test_the_command_sends_what_waits_and_fails_while_something_still_does(dead: str, uri: str, tmp_path: Path) -> None:
    app, queue = typer.Typer(), tmp_path / "queue"
    app.command()(push_command)
    run = CliRunner()
    assert "Nothing waits" in run.invoke(app, ["--queue", str(queue)]).output
    log_or_queue(a_record(), [], dead, queue)
    refused = run.invoke(app, ["--queue", str(queue), "--mlflow", dead])
    assert refused.exit_code == 1
    assert "0 of 1 runs sent" in refused.output
    sent = run.invoke(app, ["--queue", str(queue)], env={"FAIRGATE_MLFLOW": uri})
    assert sent.exit_code == 0
    assert "as run" in sent.output
