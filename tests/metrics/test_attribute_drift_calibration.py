"""Simulated: intervals of attribute drift hold the truth and unchanged groups pass as often as promised, whatever the
reader's error; attribute_drift.csv has all cells (`python -m benchmarks.attribute_drift`)."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import pytest

import benchmarks.attribute_drift as simulated

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "attribute_drift.csv"
WRONG = ("miss", "miss, one gains", "false fail")


def cells() -> dict[tuple[str, str, int, int], float]:
    with PAGE.open(encoding="utf-8") as file:
        return {
            (row["counted"], row["reader"], int(row["sets"]), int(row["known"])): int(row["count"]) / int(row["runs"])
            for row in csv.DictReader(file)
        }


def test_the_committed_cells_are_all_and_none_is_wrong_more_often_than_promised() -> None:
    shares = cells()
    wanted = product(simulated.GAINS, simulated.READERS, simulated.SIZES)
    assert set(shares) == {(counted, reader, *size) for counted, reader, size in wanted}
    assert max(share for (counted, *_), share in shares.items() if counted in WRONG) <= 0.05


def test_a_planted_drift_is_caught_more_often_with_more_sets_and_a_better_reader() -> None:
    caught = {reader: [cells()["caught", reader, *size] for size in simulated.SIZES] for reader in simulated.READERS}
    for reader, shares in caught.items():
        assert shares == sorted(shares), reader
    assert caught["never wrong"][0] > caught["good"][0] > caught["misses"][0]
    assert caught["good"][-1] > 0.99


def test_a_few_runs_of_a_cell_are_as_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "RUNS", 12)
    ((*_, missed, _),) = simulated.cell("miss, one gains", "good", 40, 50)
    assert missed <= 2
