"""How often the paired tests are wrong, and how much they see, by simulation; beside the rules that teams use instead.

    python -m benchmarks.calibration --write docs              # run what is missing, then draw the page
    python -m benchmarks.calibration --write docs --only-draw  # the page again, from docs/calibration.csv

A cell is a shape of noise at a number of sets and groups. In each, runs are made whose true change sits exactly where
a wrong verdict is likeliest: at the margin, or at no change with a margin of 0 (for plain differences that is the same
test: all its parts move along with a shift). A run with any group falsely *failed* is a false alarm. Every finished
cell is appended to the CSV, and a cell found there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from benchmarks import _calibration_page, _naive, _nulls, _statistics
from fairgate.randomness import stream
from fairgate.statistics import PairedResult, Resamples, group_changes, group_regression, paired_test, power

SEEN = "seen at twice detectable"
MARGIN = 0.02
DRAWS = 2000
SHARED = 50
"""So many runs share their resamples: drawing those costs more than a test."""

SIZES, GROUPS = (50, 300, 6000), (4, 8, 14)
MAIN = ("normal", "heavy tails", "skewed up", "skewed down", "unequal variances", "near 0 and 1")
EXTRA = [
    ("each group", "near 0 and 1", "no change"),
    ("each group", "answers", "no change"),
    ("each group", "answers", "at the margin"),
    ("each group", "answers, only lost", "at the margin"),
    ("among set-mates", "near 0 and 1", "half at the margin"),
    ("among set-mates", "answers", "no change"),
    ("among set-mates", "answers", "half at the margin"),
]
"""Beyond what is promised, at the smaller sizes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is simulated. `test`: "each group" is `paired_test`, "among set-mates" `group_regression`."""

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


def cells() -> list[Cell]:
    """All cells, cheap ones first."""
    chosen = [
        Cell(test, shape, truth, sets, groups)
        for sets in SIZES
        for groups in GROUPS
        for shape in MAIN
        for test, truth in (("among set-mates", "no change"), ("each group", "at the margin"))
    ]
    chosen += [Cell(*what, sets, groups) for what in EXTRA for sets in SIZES[:2] for groups in GROUPS]
    return sorted(chosen, key=lambda cell: cell.sets)


def change_of(cell: Cell) -> tuple[np.ndarray, np.ndarray, float]:
    """The true change per group, the groups whose truth is no better than the margin allows, and the margin."""
    change, everyone = np.zeros(cell.groups), np.ones(cell.groups, dtype=bool)
    if cell.truth == "no change":
        return change, everyone, 0.0
    if cell.truth == "at the margin":
        return change - MARGIN, everyone, MARGIN
    # Deviations from set means add up to 0, so that only some groups can stand at the margin: here every other one.
    falling = np.arange(cell.groups) % 2 == 0
    return np.where(falling, -2 * MARGIN, 0.0), falling, MARGIN


def tested(cell: Cell, runs: _nulls.Runs, margin: float, rng: np.random.Generator | Resamples) -> PairedResult:
    """The cell's test on one pair of runs."""
    test = group_regression if cell.test == "among set-mates" else paired_test
    return test(*runs, margin=margin, rng=rng, draws=DRAWS)


def null_rows(cell: Cell, runs: int) -> Iterator[Row]:
    """False alarms and false passes of fairgate's test and of naive rules."""
    rng = stream(0, "calibration", *(str(part) for part in astuple(cell)))
    change, tempted, margin = change_of(cell)
    fails = passes = 0
    naive = dict.fromkeys(_naive.RULES if cell.sets <= 300 else (), 0)
    resamples = Resamples(cell.sets, DRAWS, rng)
    for run in range(runs):
        if run and run % SHARED == 0:
            resamples = Resamples(cell.sets, DRAWS, rng)
        pair = _nulls.SHAPES[cell.shape](rng, cell.sets, change)
        verdict = tested(cell, pair, margin, resamples).verdict[tempted]
        fails += "fail" in verdict
        passes += "pass" in verdict
        difference = (group_changes(*pair) if cell.test == "among set-mates" else pair[0] - pair[1])[:, tempted]
        for rule in naive:
            naive[rule] += _naive.RULES[rule](difference, margin, rng)
    yield Row(*astuple(cell), "fairgate", "false fail", runs, fails)
    yield Row(*astuple(cell), "fairgate", "false pass", runs, passes)
    for rule, count in naive.items():
        yield Row(*astuple(cell), rule, "false fail", runs, count)


def power_row(cell: Cell, runs: int, pilots: int = 80) -> Row:
    """How often a regression of one group fails, at twice what `power` calls detectable from a pilot without change."""
    rng = stream(0, "power", *(str(part) for part in astuple(cell)))
    shape, seen, none = _nulls.SHAPES[cell.shape], 0, np.zeros(cell.groups)
    mates = cell.test == "among set-mates"
    for pilot in range(pilots):
        resamples = Resamples(cell.sets, DRAWS, rng)
        new, old = shape(rng, cell.sets, none)
        difference = group_changes(new, old) if mates else new - old
        detectable = power(difference, margin=MARGIN, rng=resamples, draws=DRAWS).detectable
        group = pilot % cell.groups if cell.shape != "near 0 and 1" else 0  # a score near 0 cannot fall far
        change = none.copy()
        change[group] = -2 * detectable[group] * (cell.groups / (cell.groups - 1) if mates else 1.0)
        for _ in range(runs // pilots):
            pair = shape(rng, cell.sets, change)
            seen += tested(cell, pair, MARGIN, resamples).outcome(group) == "fail"
    return Row(*astuple(cell), "fairgate", SEEN, runs, seen)


def run_task(task: tuple[Cell, bool, int]) -> list[Row]:
    """The rows of a cell: of runs without change, or (True) of planted regressions."""
    cell, planted, runs = task
    if planted:
        return [power_row(cell, runs)]
    if cell.test == "statistic":
        found = _statistics.rows(cell.shape, cell.sets, cell.groups, runs // 4)
        return [Row(*astuple(cell), *row) for row in found]
    return list(null_rows(cell, runs))


def read(path: Path) -> list[Row]:
    """Rows of the CSV, none where there is none."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Row(*(kind(text) for kind, text in zip((str, str, str, int, int, str, str, int, int), line, strict=True)))
            for line in list(csv.reader(file))[1:]
        ]


def run_missing(path: Path, nulls: int, powers: int, workers: int) -> None:
    """Run every cell that the CSV lacks, and append it."""
    done = {(Cell(row.test, row.shape, row.truth, row.sets, row.groups), row.what == SEEN) for row in read(path)}
    wanted = [(cell, False, nulls) for cell in [*cells(), *(Cell("statistic", *what) for what in _statistics.CELLS)]]
    wanted += [(cell, True, powers) for cell in cells() if (cell.test, cell.shape, cell.truth) not in EXTRA]
    tasks = [task for task in sorted(wanted, key=_urgency) if task[:2] not in done]
    if not path.exists():
        path.write_text(",".join(field.name for field in fields(Row)) + "\n")
    started = time.perf_counter()
    with multiprocessing.Pool(workers) as pool:
        for number, rows in enumerate(pool.imap(run_task, tasks), start=1):
            with path.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(astuple(row) for row in rows)
            seen = "; ".join(f"{row.rule} {row.what} {row.count}/{row.runs}" for row in rows[:2])
            one, spent = rows[0], time.perf_counter() - started
            place = f"{one.test}, {one.shape}, {one.truth}, {one.sets} x {one.groups}"
            print(f"{spent:7.0f} s  {number}/{len(tasks)}  {place}: {seen}", flush=True)


def _urgency(task: tuple[Cell, bool, int]) -> tuple[bool, int, bool, int]:
    """What is promised before what is not, cheap before dear, set-mates (which the gate asks about) first."""
    cell = task[0]
    extra = (cell.test, cell.shape, cell.truth) in EXTRA
    return (
        extra,
        max(cell.sets, SIZES[-1] - 1 if cell.test == "statistic" else 0),
        cell.test == "each group" and cell.sets > 300,
        cell.groups,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nulls", type=int, default=2000, help="runs without change beyond the margin, per cell")
    parser.add_argument("--powers", type=int, default=400, help="runs with a planted regression, per cell")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", type=Path, required=True, help="folder of calibration.csv, .md and .png")
    parser.add_argument("--only-draw", action="store_true", help="draw the page from the CSV, run nothing")
    options = parser.parse_args()
    path = options.write / "calibration.csv"
    if not options.only_draw:
        run_missing(path, options.nulls, options.powers, options.workers)
    _calibration_page.write(options.write, read(path))


if __name__ == "__main__":
    main()
