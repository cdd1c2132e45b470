"""Seconds of each test file on a quiet core (seconds.txt): what runs first, in which part of CI, and what is too slow.

Tests of one file, or of one `xdist_group`, run in one worker, so that what they share is made once. The dearest group
starts first: no worker is left with it at the end. FAIRGATE_PART=1/2 runs the first of two parts, which take alike.
A file that takes many times its seconds is named at the end. `FAIRGATE_SECONDS=write make test` measures anew.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import pytest
from nightly import EVERYTHING

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".txt")
UNLISTED = 1.0  # seconds of a file that is not in the list
TIMES, SPARE = 3.0, 10.0  # what two files share is made in the one that runs first
MANY = 100  # files from which the pace of a machine can be told


def _read() -> dict[str, float]:
    lines = (line.split() for line in LIST.read_text(encoding="utf-8").splitlines())
    return {name: float(number) for number, name in lines}


EXPECTED = _read()


def too_slow(spent: Mapping[str, float], expected: Mapping[str, float]) -> list[str]:
    """A line for each file that took many times its seconds, on a machine as slow as half of the listed ones say."""
    pace = max(1.0, median([spent[name] / expected[name] for name in expected.keys() & spent.keys()] or [1.0]))
    allowed = {name: pace * (TIMES * expected.get(name, UNLISTED) + SPARE) for name in spent}
    return [
        f"{name} took {took:.0f} s; at most {allowed[name]:.0f} s are allowed on this machine"
        for name, took in sorted(spent.items(), key=lambda item: -item[1])
        if took > allowed[name]
    ]


def part_of(groups: Mapping[str, float], number: int, parts: int) -> list[str]:
    """The groups of part `number` (from 1) of `parts` that take alike; the dearest first."""
    filled: list[list[str]] = [[] for _ in range(parts)]
    taken = [0.0] * parts
    for group in sorted(groups, key=lambda name: -groups[name]):
        least = taken.index(min(taken))
        filled[least].append(group)
        taken[least] += groups[group]
    return filled[number - 1]


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def group_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else item.path.stem


def arrange(items: list[pytest.Item], part: str) -> list[pytest.Item]:
    """Sort by groups, the dearest first; return the items of other parts, which are taken out."""
    in_file = Counter(file_of(item.nodeid) for item in items)
    groups: dict[str, list[pytest.Item]] = {}
    takes: Counter[str] = Counter()
    for item in items:
        name, group = file_of(item.nodeid), group_of(item)
        groups.setdefault(group, []).append(item)
        takes[group] += EXPECTED.get(name, UNLISTED) / in_file[name]  # type: ignore[assignment] # a Counter of floats
    number, _, parts = (part or "1/1").partition("/")
    chosen = part_of(takes, int(number), int(parts))
    items[:] = [item for group in chosen for item in groups[group]]
    return [item for group, members in groups.items() if group not in chosen for item in members]


class Watch:
    """Adds up what every file takes; at the end, names those that take too long."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.spent[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def _slow(self) -> list[str]:
        if EVERYTHING or len(self.spent) < MANY:  # the night tries more cases of the same files
            return []
        return too_slow(self.spent, EXPECTED)

    def pytest_sessionfinish(self) -> None:
        if os.environ.get("FAIRGATE_SECONDS") == "write":
            rows = sorted(((took, name) for name, took in self.spent.items() if took >= 2 * UNLISTED), reverse=True)
            LIST.write_text("".join(f"{took:.0f} {name}\n" for took, name in rows), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._slow():
            terminalreporter.write_line(f"{line}: make it quicker, or raise it in {LIST.relative_to(ROOT)}", red=True)
