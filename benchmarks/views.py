"""How often means over views of images are judged wrongly, at the margin: the numbers of docs/evidence/views.md.

    python -m benchmarks.views --write docs/evidence     # views.csv, about twenty minutes

An image's difference is a multiple of 1/16. "Rare": it is lost whole with the probability of the margin, or does not
change. "With noise": besides, 30% of the images differ by 1/16 either way. So every group's true change is the margin,
where each verdict is wrong: a run errs if any group passes, or if any fails. A cell whose upper limit is above 6.5% is
run again, five times as often, the same runs first.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import beta

from fairgate.formulas.statistics import Design, compare_means, decided
from fairgate.ground.randomness import stream

CELLS = [(2, 126), (7, 36), (14, 50), (8, 300)]
MARGINS = (0.03, 0.1)
RUNS, DRAWS, ALLOWED = 1000, 500, 0.065


def differences(rng: np.random.Generator, groups: int, images: int, margin: float, *, noise: bool) -> np.ndarray:
    """(images, groups) of single images: a row has the number of its own group, and NaN for the others."""
    lost = -1.0 * (rng.random(groups * images) < margin)
    if noise:
        turned = rng.random(groups * images) < 0.3
        lost += np.where(turned & (lost == 0), rng.choice([-1, 1], groups * images) / 16, 0.0)
    table = np.full((groups * images, groups), np.nan)
    table[np.arange(groups * images), np.repeat(np.arange(groups), images)] = lost
    return table


def cell_row(groups: int, images: int, margin: float, *, noise: bool, runs: int) -> tuple[object, ...]:
    """How often a group passes, and how often one fails, of so many runs, with upper limits of 95%."""
    kind = "with noise" if noise else "rare"
    rng, passed, failed = stream(0, "views", kind, groups, images, margin), 0, 0
    for _ in range(runs):
        table = differences(rng, groups, images, margin, noise=noise)
        design = Design(margin, 0.05, "lower")
        comparison = compare_means(table, 0 * table, design=design, rng=rng, draws=DRAWS, farthest=1.0)
        verdicts = decided([comparison])[0].verdict
        passed += bool((verdicts == "pass").any())
        failed += bool((verdicts == "fail").any())
    upper = [round(float(beta.ppf(0.95, wrong + 1, runs - wrong)), 4) for wrong in (passed, failed)]
    return groups, images, kind, margin, runs, passed, upper[0], failed, upper[1]


def rows(runs: int) -> Iterator[tuple[object, ...]]:
    """Every cell."""
    for groups, images in CELLS:
        for margin in MARGINS:
            for noise in (False, True):
                row = cell_row(groups, images, margin, noise=noise, runs=runs)
                if max(float(str(row[6])), float(str(row[8]))) > ALLOWED:
                    row = cell_row(groups, images, margin, noise=noise, runs=5 * runs)
                print(*row, flush=True)
                yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, required=True, help="folder of views.csv")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    made = list(rows(options.runs))
    head = ("groups", "images", "differences", "margin", "runs")
    wrong = ("false passes", "upper limit", "false fails", "upper limit")
    with (options.write / "views.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([(*head, *wrong), *made])


if __name__ == "__main__":
    main()
