"""What a build tells on stderr while it runs: in a terminal, in a log, and after it was stopped."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fairgate.builds.shard_store import Ledger, SetRecord
from fairgate.interfaces.cli.build_progress import BuildProgress

Captured = pytest.CaptureFixture[str]


@dataclass
class Clock:
    """A clock that is moved by hand, in seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def shard(sets: int) -> Ledger:
    """A finished shard that keeps all its sets."""
    nothing = {"plan": "", "starts": "", "content": "", "file": None, "sha256": None, "bytes": 0, "counts": {}}
    records = [SetRecord(set_id=f"set-{number}") for number in range(sets)]
    return Ledger(index=0, seconds=1.0, attributes=[], sets=records, **nothing)


def test_the_part_that_is_built_stays_in_sight_however_many_came_before(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "100", "LINES": "12"}.items():
        monkeypatch.setenv(name, value)
    with BuildProgress() as progress:
        for number in range(30):
            progress.part(f"baker {number}", "pool", wanted_sets=None, shards=1)
            progress.shard(f"baker {number}", "pool", shard(2), images=4, found=False)
            progress.end(f"baker {number}", "pool")
        above = capsys.readouterr().err
        progress.part("the last baker", "pool", wanted_sets=None, shards=1)
        live = capsys.readouterr().err
    assert "the last baker pool" in live
    assert "baker 0 pool: 1 shards; 2 sets kept" in above
    assert "baker 29 pool: 1 shards; 2 sets kept" in above + live


def test_without_a_terminal_a_line_is_printed_once_a_minute_and_when_the_part_ends(capsys: Captured) -> None:
    clock = Clock()
    with BuildProgress(clock) as progress:
        progress.part("baker", "pool", wanted_sets=200, shards=None)
        for _ in range(9):
            clock.now += 20
            progress.shard("baker", "pool", shard(10), images=20, found=False)
        under_way = capsys.readouterr().err.splitlines()
    assert under_way == [
        "baker pool: 3 shards; 30 of 200 sets kept; 1.00 images/s; about 0:05:40 left",
        "baker pool: 6 shards; 60 of 200 sets kept; 1.00 images/s; about 0:04:40 left",
        "baker pool: 9 shards; 90 of 200 sets kept; 1.00 images/s; about 0:03:40 left",
    ]
    assert capsys.readouterr().err == "baker pool: 9 shards; 90 of 200 sets kept; 1.00 images/s\n"


@pytest.mark.parametrize("last_found", [False, True])
def test_time_left_and_images_per_second_are_those_of_shards_that_this_run_made(
    last_found: bool, capsys: Captured
) -> None:
    """1,000 sets are found in 10 minutes, then 10 sets of 10 images are made a minute: 980 are left, 98 minutes."""
    clock = Clock()
    with BuildProgress(clock) as progress:
        progress.part("baker", "sets", wanted_sets=2000, shards=None)
        for _ in range(99 if last_found else 100):
            clock.now += 6
            progress.shard("baker", "sets", shard(10), images=10, found=True)
        for _ in range(2):
            clock.now += 60
            progress.shard("baker", "sets", shard(10), images=10, found=False)
        if last_found:
            clock.now += 60
            progress.shard("baker", "sets", shard(10), images=10, found=True)
        last = capsys.readouterr().err.splitlines()[-1]
    assert last == ("baker sets: 102 shards (100 found); 1,020 of 2,000 sets kept; 0.17 images/s; about 1:38:00 left")


def test_where_shards_are_counted_time_left_is_of_shards(capsys: Captured) -> None:
    clock = Clock()
    with BuildProgress(clock) as progress:
        progress.part("baker", "pool", wanted_sets=None, shards=13)
        for found in (True, False, False):
            clock.now += 300 if found else 60
            progress.shard("baker", "pool", shard(0), images=0, found=found)
        last = capsys.readouterr().err.splitlines()[-1]
    assert last == "baker pool: 3 shards (1 found); 0 sets kept; about 0:10:00 left"
