"""How often the paired tests are wrong, and how much they see, by simulation; beside the rules that teams use instead.

    python -m benchmarks.calibration --write docs/evidence              # run what is missing, then draw the page
    python -m benchmarks.calibration --write docs/evidence --only-draw  # the page again, from calibration.csv

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
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks import _calibration_page, _naive, _nulls, _small_samples, _statistics
from benchmarks._calibration_rows import Cell, Row
from fairgate.formulas.metrics import set_deviation
from fairgate.formulas.statistics import PairedResult, Resamples, paired_test
from fairgate.formulas.statistics._limits import mean_evidence
from fairgate.formulas.statistics.family import Evidence, Hypothesis, Side, adjusted
from fairgate.ground.randomness import stream

MARGIN, ALPHA = 0.02, 0.05
DRAWS = {50: 2000, 300: 2000, 6000: 500}
"""By the number of sets; the gate takes 4,000. Fewer make the critical value rougher, and no milder."""
NULLS = {50: 3000, 300: 3000, 6000: 4000}
"""Runs without change beyond the margin, by the number of sets."""
NAIVE_DRAWS, NAIVE_NULLS = 2000, 2000
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

LOSSES = {50: (0.1, 0.2, 0.3), 300: (0.04, 0.06, 0.1)}
"""Shares of right-or-wrong answers that one group loses, by the number of images: how often does it fail?"""


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
    return paired_test(*compared(cell, runs), margin=margin, rng=rng, draws=DRAWS[cell.sets])


def compared(cell: Cell, runs: _nulls.Runs) -> _nulls.Runs:
    """What the cell's test is of: the scores of two runs, or how far each member's lies from its set's mean."""
    new, old = runs
    return (set_deviation(new), set_deviation(old)) if cell.test == "among set-mates" else runs


def differences_of(cell: Cell, runs: _nulls.Runs) -> np.ndarray:
    """What the cell's test takes the means of, (sets, groups)."""
    new, old = compared(cell, runs)
    return new - old


def null_rows(cell: Cell, runs: int) -> Iterator[Row]:
    """False alarms and false passes of fairgate's test."""
    rng = stream(0, "calibration", *(str(part) for part in astuple(cell)))
    change, tempted, margin = change_of(cell)
    fails = passes = 0
    for start in range(0, runs, SHARED):
        resamples = Resamples(cell.sets, DRAWS[cell.sets], rng)
        pairs = [_nulls.SHAPES[cell.shape](rng, cell.sets, change) for _ in range(min(SHARED, runs - start))]
        for verdict in verdicts_of(cell, pairs, margin, resamples):
            fails += "fail" in verdict[tempted]
            passes += "pass" in verdict[tempted]
    yield Row(*astuple(cell), "fairgate", "false fail", runs, fails)
    yield Row(*astuple(cell), "fairgate", "false pass", runs, passes)


def verdicts_of(cell: Cell, pairs: list[_nulls.Runs], margin: float, resamples: Resamples) -> Iterator[np.ndarray]:
    """The verdicts (groups,) of runs that share their resamples: of all at once, for the resampled sums cost the most.

    The first is held against the public test. Answers, which have an exact test, take that for every run.
    """
    if cell.shape.startswith("answers"):
        yield from (tested(cell, pair, margin, resamples).verdict for pair in pairs)
        return
    differences = np.concatenate([differences_of(cell, pair) for pair in pairs], axis=1)
    whole = mean_evidence(differences, alpha=ALPHA, draws=DRAWS[cell.sets], rng=resamples)
    under, over = _parts(whole, whole.under, -margin, cell.groups), _parts(whole, whole.over, -margin, cell.groups)
    for run, (worse, not_worse) in enumerate(zip(under, over, strict=True)):
        failed, passed = adjusted([worse])[0] <= ALPHA, adjusted([not_worse])[0] <= ALPHA
        verdict = np.where(failed, "fail", np.where(passed, "pass", "inconclusive"))
        if run == 0:
            np.testing.assert_array_equal(verdict, tested(cell, pairs[0], margin, resamples).verdict)
        yield verdict


def _parts(whole: Evidence, side: Side, bound: float, groups: int) -> list[Hypothesis]:
    """The hypotheses of each run, of evidence that holds the groups of all runs side by side."""
    assert side.columns.size == whole.mean.size  # all are resampled
    score, parts = side.z(bound), []
    for start in range(0, whole.mean.size, groups):
        at = slice(start, start + groups)
        own = replace(side, z=lambda _, at=at: score[at], drawn=side.drawn[:, at], columns=np.arange(groups))
        evidence = replace(
            whole, mean=whole.mean[at], judged=whole.judged[at], under=own, over=own, least=whole.least[at]
        )
        parts.append((evidence, own, bound))
    return parts


def naive_rows(cell: Cell, runs: int) -> Iterator[Row]:
    """False alarms of the rules that teams use instead."""
    rng = stream(0, "calibration", *(str(part) for part in astuple(cell)))
    change, tempted, margin = change_of(cell)
    naive = dict.fromkeys(_naive.RULES, 0)
    for run in range(runs):
        if run % SHARED == 0:  # as the rows of the page were made: resamples that these rules do not look at
            Resamples(cell.sets, NAIVE_DRAWS, rng)
        pair = _nulls.SHAPES[cell.shape](rng, cell.sets, change)
        difference = differences_of(cell, pair)[:, tempted]
        for rule in naive:
            naive[rule] += _naive.RULES[rule](difference, margin, rng)
    for rule, count in naive.items():
        yield Row(*astuple(cell), rule, "false fail", runs, count)


def loss_rows(cell: Cell, runs: int) -> Iterator[Row]:
    """How often a group that lost right answers fails at the margin, while 1% turn either way by chance."""
    for loss in LOSSES[cell.sets]:
        rng = stream(0, "losses", *(str(part) for part in (*astuple(cell), loss)))
        seen = 0
        for run in range(runs):
            if run % SHARED == 0:
                resamples = Resamples(cell.sets, DRAWS[cell.sets], rng)
            change = np.where(np.arange(cell.groups) == run % cell.groups, -loss, 0.0)
            pair = _nulls.SHAPES[cell.shape](rng, cell.sets, change)
            seen += tested(cell, pair, MARGIN, resamples).outcome(run % cell.groups) == "fail"
        yield Row(*astuple(cell), "fairgate", f"seen at a loss of {loss:g}", runs, seen)


Kind = Literal["nulls", "naive", "losses"]


def run_task(task: tuple[Cell, Kind, int]) -> list[Row]:
    """The rows of a cell: of runs without change, under fairgate or naive rules, or of planted regressions."""
    cell, kind, runs = task
    if cell.test == "statistic":
        return [Row(*astuple(cell), *row) for row in _statistics.rows(cell.shape, cell.sets, cell.groups, runs)]
    if cell.test == _small_samples.TEST:
        return list((_small_samples.loss_rows if kind == "losses" else _small_samples.rows)(cell, runs))
    rows = {"nulls": null_rows, "naive": naive_rows, "losses": loss_rows}[kind]
    return list(rows(cell, runs))


def kind_of(row: Row) -> Kind:
    """What a row of the CSV was made by."""
    if row.what.startswith("seen at a loss"):
        return "losses"
    return "nulls" if row.rule == "fairgate" else "naive"


def read(path: Path) -> list[Row]:
    """Rows of the CSV, none where there is none."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Row(*(kind(text) for kind, text in zip((str, str, str, int, int, str, str, int, int), line, strict=True)))
            for line in list(csv.reader(file))[1:]
        ]


def tasks_of() -> list[tuple[Cell, Kind, int]]:
    """Everything that the page shows, the most urgent first."""
    extra = [cell for cell in cells() if (cell.test, cell.shape, cell.truth) in EXTRA]
    promised = [cell for cell in cells() if cell not in extra]
    tasks: list[tuple[Cell, Kind, int]] = [(cell, "nulls", NULLS[cell.sets]) for cell in promised]
    tasks += [(cell, "nulls", 1000) for cell in extra]
    tasks += [(Cell("statistic", *what), "nulls", 500) for what in _statistics.CELLS]
    tasks += [(cell, "naive", NAIVE_NULLS) for cell in promised if cell.sets <= 300]
    tasks += [
        (Cell("each group", "answers", "loss", sets, groups), "losses", 500)
        for sets in LOSSES
        for groups in (1, *GROUPS)
    ]
    tasks += [(cell, "nulls", _small_samples.runs_of(cell)) for cell in _small_samples.cells()]
    tasks += [(cell, "losses", 500) for cell in _small_samples.losses()]
    return sorted(tasks, key=_urgency)


def run_missing(path: Path, workers: int) -> None:
    """Run every cell that the CSV lacks, and append it."""
    done = {(Cell(row.test, row.shape, row.truth, row.sets, row.groups), kind_of(row)) for row in read(path)}
    tasks = [task for task in tasks_of() if task[:2] not in done]
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


def _urgency(task: tuple[Cell, Kind, int]) -> tuple[int, int, int, int]:
    """False alarms first, cheap before dear; what is promised of 6,000 sets after what is not, of fewer."""
    cell, kind, _ = task
    kinds: tuple[Kind, ...] = ("nulls", "losses", "naive")
    extra = (cell.test, cell.shape, cell.truth) in EXTRA or cell.test in ("statistic", _small_samples.TEST)
    return (extra + 2 * kinds.index(kind), cell.sets > 300, cell.sets * cell.groups, len(cell.test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", type=Path, required=True, help="folder of calibration.csv, .md and .png")
    parser.add_argument("--only-draw", action="store_true", help="draw the page from the CSV, run nothing")
    options = parser.parse_args()
    path = options.write / "calibration.csv"
    if not options.only_draw:
        run_missing(path, options.workers)
    _calibration_page.write(options.write, read(path))


if __name__ == "__main__":
    main()
