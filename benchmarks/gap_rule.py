"""How often the rule for gaps is wrong, by simulation: a group is harmed if its gap fell by more than the margin and it
is now behind by more than the margin.

    python -m benchmarks.gap_rule --write docs/evidence    # run the cells that gap_rule.csv lacks

Every other group stands on a boundary of the rule: of the fall, of the gap, or of both. A run in which any of these
groups fails although it is not harmed is a false fail; one in which any passes although it is harmed, a false pass.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import beta

from benchmarks._nulls import SHAPES
from fairgate.formulas.metrics import set_deviation
from fairgate.formulas.statistics import Design, compare_images, compare_means, decided
from fairgate.ground.randomness import stream

MARGIN, ALPHA, FAR = 0.03, 0.05, 0.25
DRAWS, RUNS = 1000, 2000
SIZES = ((2, 126), (7, 36), (14, 50), (8, 300))
"""Groups, and images of each: or sets, that hold every group."""
NOISE = ("normal", "heavy tails", "skewed up", "skewed down", "unequal variances")
SHARED = 0.2
"""Standard deviation of the scores of both runs alike; the change between them has that of the shape, 0.1."""
TRUTHS = {
    "fell by the margin, is far behind": (MARGIN, FAR),
    "fell far, is behind by the margin": (FAR, MARGIN),
    "fell by the margin, is behind by it": (MARGIN, MARGIN),
    "lost its lead, is level": (FAR, 0.0),
}
HARMLESS = "lost its lead, is level"
"""In truth within the margin: to pass it is right."""

COLUMNS = ("form", "noise", "truth", "groups", "images", "wrong", "runs", "count", "upper limit")


def runs_of(
    noise: str, truth: str, groups: int, images: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Candidate and baseline (images, groups), and which groups stand on the boundary (groups,)."""
    fall, behind = TRUTHS[truth]
    tempted = np.arange(groups) % 2 == 0
    spread = np.where(tempted, -1.0, tempted.sum() / (~tempted).sum())  # gaps add up to 0
    change, _ = SHAPES[noise](rng, images, fall * spread)
    candidate = 0.5 + behind * spread + SHARED * rng.normal(size=(images, groups))
    return candidate, candidate - change, tempted


def cell(form: str, noise: str, truth: str, groups: int, images: int) -> Iterator[tuple[object, ...]]:
    """The rows of a cell: false fails, and false passes where the groups are harmed."""
    rng = stream(0, "gap rule", form, noise, truth, str(groups), str(images))
    design, failed, passed = Design(MARGIN, ALPHA, "lower"), 0, 0
    for _ in range(RUNS):
        new, old, tempted = runs_of(noise, truth, groups, images, rng)
        if form == "images":
            labels = np.tile(np.arange(groups), images)
            part = compare_images(new.ravel(), old.ravel(), labels, groups=groups, design=design, rng=rng, draws=DRAWS)
        else:
            deviations = (set_deviation(new), set_deviation(old))
            part = compare_means(*deviations, design=design, rng=rng, draws=DRAWS, gap=True)
        verdict = decided([part])[0].verdict[tempted]
        failed += bool((verdict == "fail").any())
        passed += bool((verdict == "pass").any())
    for wrong, count in (("false fail", failed), ("false pass", passed)):
        if wrong == "false fail" or truth != HARMLESS:
            upper = 1.0 if count == RUNS else float(beta.ppf(0.95, count + 1, RUNS - count))
            yield form, noise, truth, groups, images, wrong, RUNS, count, round(upper, 4)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, required=True)
    path = parser.parse_args().write / "gap_rule.csv"
    written = list(csv.reader(path.open(encoding="utf-8"))) if path.exists() else []
    known = {tuple(row[:5]) for row in written}
    wanted = product(SIZES, ("images", "sets"), NOISE, TRUTHS)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if not written:
            writer.writerow(COLUMNS)
        for (groups, images), form, noise, truth in wanted:
            if (form, noise, truth, str(groups), str(images)) not in known:
                writer.writerows(cell(form, noise, truth, groups, images))
                file.flush()


if __name__ == "__main__":
    main()
