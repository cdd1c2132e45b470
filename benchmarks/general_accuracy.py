"""How often a suite of general accuracy is wrong, by simulation: accuracy and accuracy@5 of the same images, no groups.

    python -m benchmarks.general_accuracy --write docs/evidence    # run the cells that general_accuracy.csv lacks

Both checks stand on the margin: as many answers are lost, beyond those that are won, as it allows. Half of the images
have both turn alike. If either fails, the run is a false fail; false passes are counted check by check. Runs in which
no answer of a check turned pass by definition, as the same model does: they are no false passes, and counted. With a
loss of the margin and 0.05 more in both, a run that fails both is right.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import beta

from fairgate.formulas.statistics import Design, Resamples, compare_means, decided
from fairgate.ground.randomness import stream

ALPHA, DRAWS, RUNS, LOSS, SHARED = 0.05, 500, 4000, 0.05, 50
IMAGES, TURNING, MARGINS = (200, 1000), (0.02, 0.1), (0.0, 0.02)
COLUMNS = ("images", "answers turn", "margin", "what", "runs", "count", "upper limit")


def changes(images: int, turn: float, margin: float, rng: np.random.Generator) -> np.ndarray:
    """What becomes of every answer, -1, 0 or 1, by accuracy and by accuracy@5: (images, 2)."""
    turned = max(turn, margin)
    lost, won = (turned + margin) / 2, (turned - margin) / 2
    drawn = rng.random((images, 2))
    change = (drawn < won).astype(np.int8) - (drawn >= 1 - lost)
    alike = rng.random(images) < 0.5
    change[alike, 1] = change[alike, 0]
    return change


def verdicts(change: np.ndarray, margin: float, resamples: Resamples) -> list[str]:
    """The verdict of each check, as one family."""
    design = Design(margin, ALPHA, "lower")
    parts = []
    for column in change.T:
        candidate = column[:, None].astype(np.float64)
        parts.append(compare_means(candidate, np.zeros_like(candidate), design=design, rng=resamples, draws=DRAWS))
    return [result.overall for result in decided(parts)]


def cell(images: int, turn: float, margin: float) -> Iterator[tuple[object, ...]]:
    """The rows of a cell."""
    rng = stream(0, "general accuracy", str(images), str(turn), str(margin))
    passed = [f"false pass, {name}" for name in ("accuracy", "accuracy@5")]
    counts = dict.fromkeys(("false fail", *passed, "no answer turned", "a loss fails both"), 0)
    for run in range(RUNS):
        if run % SHARED == 0:
            resamples = Resamples(images, DRAWS, rng)
        change = changes(images, turn, margin, rng)
        found, still = verdicts(change, margin, resamples), ~change.any(axis=0)
        counts["false fail"] += "fail" in found
        counts["no answer turned"] += bool(still.any())
        for name, verdict, unturned in zip(passed, found, still, strict=True):
            counts[name] += verdict == "pass" and not unturned
        lost = changes(images, turn, margin + LOSS, rng)
        counts["a loss fails both"] += verdicts(lost, margin, resamples) == ["fail", "fail"]
    for what, count in counts.items():
        upper = 1.0 if count == RUNS else float(beta.ppf(0.975, count + 1, RUNS - count))
        yield images, turn, margin, what, RUNS, count, round(upper, 4)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, required=True)
    path = parser.parse_args().write / "general_accuracy.csv"
    written = list(csv.reader(path.open(encoding="utf-8"))) if path.exists() else []
    known = {tuple(row[:3]) for row in written}
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if not written:
            writer.writerow(COLUMNS)
        for images, turn, margin in product(IMAGES, TURNING, MARGINS):
            if (str(images), str(turn), str(margin)) not in known:
                writer.writerows(cell(images, turn, margin))
                file.flush()


if __name__ == "__main__":
    main()
