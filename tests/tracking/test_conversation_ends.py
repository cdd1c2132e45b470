"""A conversation with MLflow ends in time; what waits is sent once, and half runs do not wait for ever."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tracking_records import a_record

from fairgate.ground.errors import TrackingError
from fairgate.tracking import log_or_queue, push
from fairgate.tracking.store_session import session


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server whose answer never ends: a byte now and then, each well within any timeout between bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{")
                    while True:
                        connection.sendall(b" ")
                        time.sleep(0.1)
                except OSError:  # we were left
                    return

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=drip, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def test_a_server_that_never_ends_is_left_when_the_time_is_over(
    dripping: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRGATE_MLFLOW_TIMEOUT", "1")
    start = time.monotonic()
    outcome = log_or_queue(a_record(), [], dripping, tmp_path / "queue")
    assert time.monotonic() - start < 60  # seconds, on a busy machine; left to itself it never ends
    assert outcome.queued is not None
    assert "it was not done after 1 seconds" in outcome.message
    assert "FAIRGATE_MLFLOW_TIMEOUT" in outcome.message


def test_nothing_more_is_asked_once_the_time_is_over(dripping: str) -> None:
    def ask_late() -> None:
        with session(dripping, seconds=0.01) as client:
            time.sleep(0.2)
            client.search_experiments()

    with pytest.raises(TrackingError, match=r"not done after 0\.01 seconds"):
        ask_late()


@pytest.mark.parametrize("said", ["soon", "0", "-3", "nan"])
def test_a_time_that_is_none_is_said(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRGATE_MLFLOW_TIMEOUT", said)
    outcome = log_or_queue(a_record(), [], f"sqlite:///{tmp_path}/fairgate.db", tmp_path / "queue")
    assert outcome.queued is not None
    assert f"FAIRGATE_MLFLOW_TIMEOUT is '{said}', which is no number of seconds" in outcome.message


def test_a_server_that_does_not_answer_is_asked_about_the_first_run_only(tmp_path: Path) -> None:
    queue, closed = tmp_path / "queue", "http://127.0.0.1:9"
    for seconds in (1.0, 2.0, 3.0):
        log_or_queue(a_record(seconds=seconds), [], closed, queue)
    first, *others = push(queue, closed)
    assert "it did not answer (" in first.message
    assert ["not tried" in other.message for other in others] == [True, True]
    sent = push(queue, f"sqlite:///{tmp_path}/fairgate.db")
    assert all(each.run_id for each in sent)
    assert len(sent) == 3


def test_pieces_of_pushes_and_runs_that_were_killed_are_removed(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    log_or_queue(a_record(), [], "http://127.0.0.1:9", queue)
    sent, fresh, forgotten = queue / ".sent-run", queue / ".incoming-fresh", queue / ".incoming-old"
    for folder in (sent, fresh, forgotten):
        (folder / "files").mkdir(parents=True)
    yesterday = time.time() - 25 * 3600
    os.utime(forgotten, (yesterday, yesterday))
    push(queue, "http://127.0.0.1:9")
    assert [folder.exists() for folder in (sent, fresh, forgotten)] == [False, True, False]


def test_a_queue_that_cannot_be_locked_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    (queue / ".push.lock").mkdir(parents=True)
    with pytest.raises(TrackingError, match="the queue cannot be written"):
        push(queue, "http://127.0.0.1:9")


def test_a_store_appears_whole_and_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a file system without hard links, and where a neighbour is faster."""

    def refused(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    with session(f"sqlite:///{tmp_path}/fairgate.db") as client:
        assert [each.name for each in client.search_experiments()] == ["Default"]
    assert [path.name for path in tmp_path.iterdir()] == ["fairgate.db"]
    monkeypatch.undo()

    def faster(self: Path, target: Path) -> None:
        self.write_bytes((tmp_path / "fairgate.db").read_bytes())
        raise FileExistsError

    monkeypatch.setattr(Path, "hardlink_to", faster)
    with session(f"sqlite:///{tmp_path}/again.db") as client:
        assert [each.name for each in client.search_experiments()] == ["Default"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.db", "fairgate.db"]
