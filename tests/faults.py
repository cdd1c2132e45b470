"""How many of the faults (kills, full disks, killed builds) a run of the tests tries.

Every fault is drawn from a seed of its own. A pull request tries five seeds of each kind, spread over all of them;
`FAIRGATE_TEST_FAULTS=all` (the nightly workflow, `make test FAULTS=all`) tries every one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
FEW = 5


def some(every: Sequence[T], few: int = FEW) -> list[T]:
    """A few of them, the first and the last among these; all of them in a nightly run."""
    if os.environ.get("FAIRGATE_TEST_FAULTS") == "all" or len(every) <= few:
        return list(every)
    return [every[place * (len(every) - 1) // max(few - 1, 1)] for place in range(few)]
