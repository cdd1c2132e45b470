"""A finding of the self-test, and how other programs are run, with a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from fairgate.ground.errors import FairgateError

Level = Literal["ok", "warning", "trouble"]

Progress = Callable[[str], None]
"""Called with what is checked next."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table: the `area` that was checked, and the command that was `ran` for it.

    `trouble` means that a gate run is impossible or not reliable.
    """

    level: Level
    area: str
    what: str
    where: str | None = None
    remedy: str | None = None
    ran: str | None = None


ok: Final = partial(Finding, "ok")  # nothing is wrong
warning: Final = partial(Finding, "warning")  # a weakness; the gate still works
trouble: Final = partial(Finding, "trouble")  # the gate cannot run, or is not reliable


def of_error(area: str, error: FairgateError) -> Finding:
    """An error that a gate run would have met."""
    return trouble(area, error.problem, error.where, error.remedy)


def healthy(findings: list[Finding]) -> bool:
    """Whether nothing is wrong; warnings are allowed."""
    return all(finding.level != "trouble" for finding in findings)


TOOK_TOO_LONG: Final = -2


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ended: its exit code (-1: it did not start; or TOOK_TOO_LONG) and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def error_message(self) -> str:
        """Its error message, or its last line of output."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        error = next((at for at, line in enumerate(lines) if line.lower().startswith("error")), len(lines) - 1)
        return " ".join(lines[max(error, 0) :])[:600] or "it said nothing"


def run(words: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str] | None = None) -> Ran:
    """Run a program in a folder. Never raises for a program that is missing, slow or fails."""
    try:
        done = subprocess.run(  # noqa: S603
            list(words),
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(TOOK_TOO_LONG, "", f"no answer within {seconds:g} s")
    except OSError as error:
        return Ran(-1, "", str(error))
    return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
