"""A real `mlflow server`: SQLite or another store behind it, artifacts through it."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 240  # seconds until it answers: its imports alone take 20 on a busy machine


@dataclass(frozen=True)
class Server:
    """A running server; its `log` says why where it is not."""

    uri: str
    folder: Path
    log: Path


@contextmanager
def mlflow_server(folder: Path, store: str | None = None) -> Iterator[Server]:
    """Start a server that keeps everything in `folder` (runs in a `store`, if named), wait until it is well, and end
    all its processes after."""
    server = Server(f"http://127.0.0.1:{_free_port()}", folder, folder / "server.log")
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", server.uri.rpartition(":")[2]),
        *("--backend-store-uri", store or f"sqlite:///{folder}/mlflow.db", "--workers", "1"),
        *("--serve-artifacts", "--artifacts-destination", str(folder / "artifacts")),
    ]
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "PYTHONWARN"))}
    with server.log.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            # without its eight processes that wait for jobs: each imports all of MLflow
            env=surroundings | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its workers can be ended with it
        )
        try:
            _wait(process, server)
            yield server
        finally:
            _end(process)


def _free_port() -> int:
    """One below those that the system gives to whoever asks for any: another server may ask before this one is up."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(15_000, 32_000)))
            return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], server: Server) -> None:
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE:
        if process.poll() is not None:
            break
        with suppress(OSError), urllib.request.urlopen(f"{server.uri}/health", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the MLflow server did not start:\n{server.log.read_text()[-3000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # asked kindly, it takes five seconds and more
    process.wait(30)
