"""A Python that has imported what it needs once, and forks commands that can be killed at any moment.

A fork costs milliseconds where a fresh interpreter takes up to ten seconds to import PyTorch and MLflow, so fifty runs
can be killed in a test. A program with `serve(command)` at its end is that Python; `ForkingPython` starts it, as a fork
of `warm_python` unless told otherwise, and talks to it over pipes. Tests whose commands start as `python -m ...`, and
that kill nothing, take `warm_python` itself.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm_python import warm_python


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative: the signal that ended it), its output, its length in seconds."""

    code: int
    output: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def fingerprint(self) -> str:
        """What a build says that it has built."""
        found = [line for line in self.output.splitlines() if line.startswith("fingerprint ")]
        assert found, self.output
        return found[-1].removeprefix("fingerprint ")


class Running:
    """A forked command that is under way, in a process group of its own."""

    def __init__(self, python: ForkingPython, pid: int) -> None:
        self._python, self.pid, self._started = python, pid, time.monotonic()

    def send(self, number: int = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def send_after(self, seconds: float, number: int = signal.SIGKILL) -> None:
        time.sleep(max(0.0, self._started + seconds - time.monotonic()))
        self.send(number)

    def wait(self) -> Ended:
        answer = self._python.answer()
        return Ended(answer["code"], answer["output"], time.monotonic() - self._started)


class ForkingPython:
    """`start` forks a command; one at a time. `environment` is added to this process's own."""

    def __init__(self, program: str, environment: Mapping[str, str], python: str | None = None) -> None:
        paths = [str(Path(__file__).parent), str(Path(program).parent)]
        code = f"import runpy, sys; sys.path[:0] = {paths}; runpy.run_path({program!r}, run_name='__main__')"
        self._process = subprocess.Popen(
            [python or warm_python(), "-u", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default", **environment},
        )
        assert self.answer() == {"ready": True}

    def start(
        self, words: Sequence[str], folder: Path, *, prelude: str = "", environment: Mapping[str, str] | None = None
    ) -> Running:
        """Fork a command in `folder`; `prelude` is Python that it runs first (and all that it runs without words)."""
        request = {"words": [*words], "folder": str(folder), "prelude": prelude, "environment": {**(environment or {})}}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Running(self, self.answer()["pid"])

    def run(self, words: Sequence[str], folder: Path, **more: Any) -> Ended:
        return self.start(words, folder, **more).wait()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the forking Python is gone"
        return dict(json.loads(line))

    def close(self) -> None:
        self._process.kill()
        with self._process:  # closes its pipes
            pass


def serve(command: Callable[[Sequence[str]], int]) -> None:
    """Fork `command(words)` for every request on standard input; what is imported by now, no child imports again."""
    _say({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(command, request, writing)
        os.close(writing)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        _say({"pid": pid})
        with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
            output = pipe.read()
        _, status = os.waitpid(pid, 0)
        _say({"code": os.waitstatus_to_exitcode(status), "output": output})


def _child(command: Callable[[Sequence[str]], int], request: Mapping[str, Any], output: int) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.close(output)
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        exec(compile(request["prelude"], "<prelude>", "exec"), {"__name__": "__prelude__"})
        code = command(request["words"]) if request["words"] else 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()  # temporary folders are removed, as when a command ends
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
