"""Do intervals of attribute drift cover, and how often is a group called worse that is not? By simulation.

    python -m benchmarks.attribute_drift --write docs/evidence    # run the cells that attribute_drift.csv lacks

Sets of two people, of whom one in five wears glasses; edits give them to more. A reader sees them with the errors of
its row, which are measured on `known` pictures with and as many without. `miss` counts 95% intervals of the group that
gains more without its true drift; `false fail` comparisons in which a group fails at a margin of 0.1 though both gain
exactly that more than in the baseline; `caught` those in which the first group, and no other, fails where it gains 0.3.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from fairgate.formulas.statistics import Design, PairedResult, Resamples, compare_draws, decided
from fairgate.ground.randomness import stream
from fairgate.metrics import METRICS, Cell, Measure, MetricRequest, measure, resample
from fairgate.probes import PROBES, ProbeScores

RUNS, DRAWS, ALPHA, MARGIN, WEARERS = 600, 1000, 0.05, 0.1, 0.2
SIZES = ((40, 50), (160, 50), (160, 400))
"""Sets, and known pictures of either kind."""
READERS = {"never wrong": (1.0, 0.0), "good": (0.95, 0.05), "misses": (0.7, 0.1)}
"""How often glasses are seen on who wears them, and on who does not."""
GAINS = {"miss": (0.1, 0.1), "miss, one gains": (0.4, 0.0), "false fail": (MARGIN, MARGIN), "caught": (0.3, 0.0)}
"""True drift of the two groups."""
COLUMNS = ("counted", "reader", "sets", "known", "runs", "count", "upper limit")
READER = {"model": "open_clip:a", "fingerprint": "0" * 64, "attribute": "gender", "labels": {"x": "x", "y": "y"}}


def request(counts: NDArray[np.int64]) -> MetricRequest:
    """A check whose reader was measured with these counts (2, 2)."""
    names = ("glasses", "none")
    known = {name: dict(zip(names, row, strict=True)) for name, row in zip(names, counts.tolist(), strict=True)}
    watched = {"eyes": {"labels": {"glasses": "with", "none": "without"}, "measured": known}}
    probe = {"kind": "image_editing", "template": "a {word}", "words": ["a", "b"], "reader": READER, "watched": watched}
    settings = METRICS["attribute_drift"].Settings(attribute="eyes")
    asked = PROBES["image_editing"].model_validate(probe)
    return MetricRequest("check", "attribute_drift", "edits", settings, (("gender",),), words=("a",), asked=asked)


def read(wears: NDArray[np.bool_], reader: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """What the reader sees of everybody."""
    seen, imagined = READERS[reader]
    return np.asarray(rng.random(wears.shape) < np.where(wears, seen, imagined), dtype=np.float64)


def people(sets: int) -> Cell:
    """Sets of two members, of a group each."""
    codes, place = np.repeat(np.arange(sets), 2), np.arange(2 * sets)
    ids, person = np.arange(sets).astype(str), np.array(["person"] * (2 * sets))
    return Cell(place, codes, ids, person, (place % 2,), (("x", "y"),))


def run(
    counted: str, reader: str, sets: int, known: int, rng: np.random.Generator
) -> tuple[Measure, Measure, MetricRequest]:
    """Candidate and baseline, which gains nothing; both edit the same pictures."""
    counts = np.array([[hits := rng.binomial(known, rate), known - hits] for rate in READERS[reader]])
    asked, wears = request(counts), rng.random(2 * sets) < WEARERS
    before, measured = read(wears, reader, rng), []
    for gains in (GAINS[counted], (0.0, 0.0)):
        given = rng.random(2 * sets) < np.tile(gains, sets) / (1 - WEARERS)
        gained = read(wears | given, reader, rng) - before
        measured.append(measure(asked, people(sets), [ProbeScores(np.zeros(2 * sets), more={"gained_eyes": gained})]))
    return measured[0], measured[1], asked


def compared(now: Measure, before: Measure, sets: Resamples, n: int) -> PairedResult:
    """Group by group, as the gate does."""
    drawn = [each.groups for each in resample([now, before], n, DRAWS, sets)]
    design = Design(MARGIN, ALPHA, "higher")
    part = compare_draws(now.group_values - before.group_values, drawn[0] - drawn[1], n_sets=n, design=design)
    return decided([part])[0]


def cell(counted: str, reader: str, sets: int, known: int) -> Iterator[tuple[object, ...]]:
    """The row of a cell."""
    rng, count = stream(0, "attribute drift", counted, reader, str(sets), str(known)), 0
    for at in range(RUNS):
        now, before, asked = run(counted, reader, sets, known, rng)
        resamples = Resamples(sets, DRAWS, stream(at, "sets", counted, reader))
        if counted.startswith("miss"):
            (drawn,) = resample([now], sets, DRAWS, resamples)
            limits = METRICS["attribute_drift"].interval(asked, people(sets), now, drawn, ALPHA)
            count += limits.lo is None or not limits.lo <= max(GAINS[counted]) <= limits.hi
        else:
            failed = (compared(now, before, resamples, sets).verdict == "fail").tolist()
            count += failed == [True, False] if counted == "caught" else any(failed)
    upper = 1.0 if count == RUNS else float(beta.ppf(0.95, count + 1, RUNS - count))
    yield counted, reader, sets, known, RUNS, count, round(upper, 4)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, required=True)
    path = parser.parse_args().write / "attribute_drift.csv"
    written = list(csv.reader(path.open(encoding="utf-8"))) if path.exists() else []
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if not written:
            writer.writerow(COLUMNS)
        for counted, reader, (sets, known) in product(GAINS, READERS, SIZES):
            if [counted, reader, str(sets), str(known)] not in [row[:4] for row in written]:
                writer.writerows(cell(counted, reader, sets, known))
                file.flush()


if __name__ == "__main__":
    main()
