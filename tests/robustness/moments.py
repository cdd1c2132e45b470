"""When a run is killed: after some time, or as it is about to touch a file for the n-th time.

`watch` is Python that a forked run executes first. It hears every file that Python is about to write, rename, link or
remove (an audit hook hears them all), tells a log, and may kill its own process there.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path

_WATCH = """
import json, os, sys, time
import fairgate.models.family

fairgate.models.family.PART = 32  # so that a small dataset is embedded in several pieces
log, deadly, number, started = {log!r}, {deadly!r}, {number}, time.monotonic()
handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
count = 0
TOUCHING = {{"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "sqlite3.connect"}}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def touch(event, arguments):
    global count
    if event == "open":
        if not isinstance(arguments[2], int) or not arguments[2] & WRITING or arguments[0] == "/dev/null":
            return
    elif event not in TOUCHING:
        return
    count += 1
    if count - 1 == deadly:
        os.kill(os.getpid(), number)
    line = json.dumps([time.monotonic() - started, event, str(arguments[0])])
    os.write(handle, line.encode() + b"\\n")


sys.addaudithook(touch)
"""


@dataclass(frozen=True)
class Touch:
    """A file that a run was about to touch, and when (seconds after its start)."""

    seconds: float
    event: str
    name: str


def watch(log: Path, deadly: int | None = None, number: int = signal.SIGKILL) -> str:
    """The prelude; the run gets a signal as it is about to touch a file for the time numbered `deadly` (from 0)."""
    return _WATCH.format(log=str(log), deadly=deadly, number=int(number))


def touches(log: Path) -> list[Touch]:
    return [Touch(*json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]
