"""A process that has imported everything once, and forks gate runs that can be killed at any moment.

Run as a program it is that process; `WarmProcess` starts it and talks to it. A fork costs milliseconds where a fresh
interpreter takes ten seconds to import PyTorch and MLflow, so fifty runs can be killed in a test.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (negative: the signal that ended it), its words, and its length in seconds."""

    code: int
    output: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Run:
    """A forked run that is under way, in a process group of its own."""

    def __init__(self, warm: WarmProcess, pid: int) -> None:
        self._warm, self.pid, self._started = warm, pid, time.monotonic()

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def send_after(self, seconds: float, number: int = signal.SIGKILL) -> None:
        time.sleep(max(0.0, self._started + seconds - time.monotonic()))
        self.send(number)

    def wait(self) -> Ended:
        answer = self._warm.answer()
        return Ended(answer["code"], answer["output"], time.monotonic() - self._started)


class WarmProcess:
    """`start` forks a run of a command; one at a time."""

    def __init__(self, scratch: Path) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"},
            "OMP_NUM_THREADS": "1",  # threads of before a fork are not there after it
            "PYTHONWARNINGS": "default",
            "XDG_CACHE_HOME": str(scratch / "cache"),
            "XDG_STATE_HOME": str(scratch / "state"),
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.answer() == {"ready": True}

    def start(
        self, words: Sequence[str], folder: Path, *, prelude: str = "", environment: Mapping[str, str] | None = None
    ) -> Run:
        """Fork a run of `fairgate WORDS` (or `pytest ...`) in `folder`; `prelude` is Python that it executes first."""
        request = {
            "words": [*words],
            "folder": str(folder),
            "prelude": prelude,
            "environment": {**(environment or {})},
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Run(self, self.answer()["pid"])

    def run(self, words: Sequence[str], folder: Path, **more: Any) -> Ended:
        return self.start(words, folder, **more).wait()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the warm process is gone"
        return dict(json.loads(line))

    def close(self) -> None:
        self._process.kill()
        with self._process:  # closes its pipes
            pass


def _serve() -> None:
    _import_everything()
    _say({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(request, writing)
        os.close(writing)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        _say({"pid": pid})
        with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
            output = pipe.read()
        _, status = os.waitpid(pid, 0)
        _say({"code": os.waitstatus_to_exitcode(status), "output": output})


def _import_everything() -> None:
    """Imports only: no model, no pool of threads and no database connection may stand when a run is forked."""
    import logging
    import warnings

    warnings.simplefilter("ignore")
    import mlflow.store.tracking.sqlalchemy_store as mlflow_store
    import open_clip
    import pyarrow.parquet
    import rich.console
    import rich.status
    import torch

    import fairgate.cli.main
    import fairgate.gate
    import fairgate.reports.run_page
    import fairgate.tracking.runs

    assert mlflow_store
    assert open_clip
    assert pyarrow.parquet
    assert rich.status
    assert rich.console
    assert fairgate.reports.run_page
    assert fairgate.tracking.runs
    torch.set_num_threads(1)
    logging.captureWarnings(False)
    warnings.resetwarnings()


def _child(request: Mapping[str, Any], output: int) -> None:
    code = 70
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        exec(compile(request["prelude"], "<prelude>", "exec"), {})
        code = _command(request["words"])
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _command(words: Sequence[str]) -> int:
    sys.argv = [*words]
    if words[0] == "pytest":
        import pytest

        return int(pytest.main([*words[1:]]))
    from fairgate.cli.main import app

    app()
    return 0


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
