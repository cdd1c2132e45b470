"""What is simulated for the calibration, and a line of its CSV."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """What is simulated. `test`: `paired_test` of "each group", or of its deviations "among set-mates"."""

    test: str
    shape: str
    truth: str
    sets: int
    groups: int


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the CSV: of `runs` runs of a cell, `count` had what `what` says under `rule`."""

    test: str
    shape: str
    truth: str
    sets: int
    groups: int
    rule: str
    what: str
    runs: int
    count: int
