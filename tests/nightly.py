"""What a pull request tries of the tests' many cases, and what waits for the night.

A pull request tries a few kills and full disks of each kind, spread over all of them, and one of several dear ways to
the same answer (engines, numbers of workers, spellings). `FAIRGATE_TESTS=all` (the nightly workflow, `make test
TESTS=all`) tries every one, and the tests that are marked `nightly`: each starts many processes, or waits for a long
time, to see on another way what a quicker test sees too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
EVERYTHING = os.environ.get("FAIRGATE_TESTS") == "all"


def some(every: Sequence[T], few: int = 4) -> list[T]:
    """A few of them, the first and the last among these; all of them in a nightly run."""
    if EVERYTHING or len(every) <= few:
        return list(every)
    return [every[place * (len(every) - 1) // max(few - 1, 1)] for place in range(few)]
