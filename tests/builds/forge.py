"""A process that has imported `fairgate build` and Ray once, and forks builds of the toy that can be killed.

Run as a program it is that process; `Forge` starts it and talks to it. torch is never imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OWN_TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Nobody else may use the tests' Ray, and nothing is written to the home folder."""

_DEADLY = """
import os, signal
count, deadly = 0, {deadly}
def touch(event, arguments):
    global count
    if event == "open":
        if not isinstance(arguments[2], int) or not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if "build" not in str(arguments[0]):
            return
    elif event not in ("os.rename", "os.remove", "os.mkdir"):
        return
    count += 1
    if count - 1 == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    with open({log!r}, "w") as handle:
        handle.write(str(count))
import sys
sys.addaudithook(touch)
"""


def deadly_touch(log: Path, number: int = -1) -> str:
    """A prelude: the build is killed as it is about to touch a file of its folder for the time `number`, from 0.

    The log holds how often it has.
    """
    return _DEADLY.format(deadly=number, log=str(log))


@dataclass(frozen=True)
class Ended:
    """How a build ended: its exit code (negative: the signal), its words, its seconds."""

    code: int
    output: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def fingerprint(self) -> str:
        """What the build says that it has built."""
        found = [line for line in self.output.splitlines() if line.startswith("fingerprint ")]
        assert found, self.output
        return found[-1].removeprefix("fingerprint ")


class Running:
    """A build that is under way, in a process group of its own."""

    def __init__(self, forge: Forge, pid: int) -> None:
        self._forge, self.pid, self._started = forge, pid, time.monotonic()

    def send(self, number: int = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def send_after(self, seconds: float, number: int = signal.SIGKILL) -> None:
        time.sleep(max(0.0, self._started + seconds - time.monotonic()))
        self.send(number)

    def wait(self) -> Ended:
        answer = self._forge.answer()
        return Ended(answer["code"], answer["output"], time.monotonic() - self._started)


class Forge:
    """`start` forks a build; one at a time."""

    def __init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"}
        own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE), "PYTHONWARNINGS": "default", **OWN_TOKEN}
        environment = {**kept, **own}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.answer() == {"ready": True}

    def start(
        self, words: Sequence[str], folder: Path, *, prelude: str = "", environment: Mapping[str, str] | None = None
    ) -> Running:
        """Fork `fairgate WORDS` in `folder`; `prelude` is Python that it runs first (and all it runs without words)."""
        request = {
            "words": [*words],
            "folder": str(folder),
            "prelude": prelude,
            "environment": {**(environment or {})},
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Running(self, self.answer()["pid"])

    def run(self, words: Sequence[str], folder: Path, **more: Any) -> Ended:
        return self.start(words, folder, **more).wait()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the forge is gone"
        return dict(json.loads(line))

    def close(self) -> None:
        self._process.kill()
        with self._process:  # closes its pipes
            pass


def _serve() -> None:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import pyarrow.parquet
    import ray
    import toy_recipe

    import fairgate.cli.build_display
    import fairgate.cli.main
    from fairgate.recipes import register

    assert pyarrow.parquet
    assert ray
    assert fairgate.cli.main
    register(toy_recipe.Toy)
    assert "torch" not in sys.modules, "a forge that imports torch starts slowly"
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
        _, status = os.waitpid(pid, 0)
        with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
            output = pipe.read()
        _say({"code": os.waitstatus_to_exitcode(status), "output": output})


def _child(request: Mapping[str, Any], output: int) -> None:
    code = 70
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
        if request["words"]:
            from fairgate.cli.main import app

            sys.argv = ["fairgate", *request["words"]]
            app()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except BaseException:
        code = 1
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
