"""Other programs asked, with a time limit: what they said, or that they said nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NOT_STARTED: Final = -1
TOOK_TOO_LONG: Final = -2


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ended: its exit code (or NOT_STARTED, TOOK_TOO_LONG) and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Its error message, or the last thing that it said."""
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
        return Ran(NOT_STARTED, "", str(error))
    return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
