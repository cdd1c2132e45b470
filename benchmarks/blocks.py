"""Are verdicts as calibrated when very many images are drawn in blocks?

    python benchmarks/blocks.py [--runs 2000] [--csv docs/evidence/blocks.csv]
    python benchmarks/blocks.py --suites 200

Changes of single images in groups, twice: with every group at the margin (a failure is false), and with one group there
and the others unchanged (a pass of the comparison is false). Alpha is 5%. `--sets` draws the images themselves, too:
what blocks replace. `--suites` decides so many random suites of 9,000 images both ways.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairgate.data.dataset import Index
from fairgate.formulas.statistics import Design, Entries, Resamples, compare_images, compare_means, decided, resampling
from fairgate.probes import ProbeScores
from fairgate.suites import PlannedCheck
from fairgate.suites.deciding import decide
from fairgate.suites.schema import Suite

Floats = NDArray[np.float64]
MARGIN, ALPHA, DRAWS = 0.02, 0.05, 2000


def _normal(rng: np.random.Generator, group: NDArray[np.int64]) -> Floats:
    return 0.2 * rng.standard_normal(group.size)


def _skewed(sign: float) -> Callable[[np.random.Generator, NDArray[np.int64]], Floats]:
    sigma = 1.0  # of a lognormal: skewness 6.2

    def drawn(rng: np.random.Generator, group: NDArray[np.int64]) -> Floats:
        values = rng.lognormal(0.0, sigma, group.size) - np.exp(sigma**2 / 2)
        return sign * 0.05 * values

    return drawn


def _unequal(rng: np.random.Generator, group: NDArray[np.int64]) -> Floats:
    return 0.05 * (1 + group) * rng.standard_normal(group.size)


def _turning(share: float) -> Callable[[np.random.Generator, NDArray[np.int64]], Floats]:
    def drawn(rng: np.random.Generator, group: NDArray[np.int64]) -> Floats:
        return rng.choice([-1.0, 0.0, 1.0], group.size, p=[share / 2, 1 - share, share / 2])

    return drawn


KINDS: dict[str, Callable[[np.random.Generator, NDArray[np.int64]], Floats]] = {
    "normal": _normal,
    "skewness 6, long tail up": _skewed(1.0),
    "skewness 6, long tail down": _skewed(-1.0),
    "deviations 1 to 14": _unequal,
    "5% of answers turn": _turning(0.05),
    "1% of answers turn": _turning(0.01),
}


def _means(values: Floats, group: NDArray[np.int64], groups: int, sets: Resamples) -> str:
    order = np.arange(values.size)
    changes = Entries(values, order, group, (values.size, groups))
    still = Entries(0 * values, order, group, (values.size, groups))
    part = compare_means(changes, still, design=Design(MARGIN, ALPHA, "lower"), rng=sets, draws=DRAWS)
    return decided([part])[0].overall


def _gaps(values: Floats, group: NDArray[np.int64], groups: int, rng: np.random.Generator) -> str:
    design = Design(MARGIN, ALPHA, "lower")
    part = compare_images(values, 0 * values, group, groups=groups, design=design, rng=rng, draws=DRAWS)
    return decided([part])[0].overall


def rates(test: str, kind: str, sizes: list[int], runs: int) -> tuple[float, float]:
    """Shares of false failures and of false passes."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    answers = kind.endswith("turn")
    wrong = {"fail": 0, "pass": 0}
    sets = Resamples(group.size, DRAWS, np.random.default_rng([27, 1])) if test == "means" else None
    for run in range(runs):
        for outcome, at_margin in (("fail", np.ones(len(sizes))), ("pass", np.eye(len(sizes))[0])):
            rng = np.random.default_rng([27, run, outcome == "pass"])
            values = KINDS[kind](rng, group)
            if answers:  # losses that others than those above turned to
                lost = rng.random(group.size) < MARGIN * at_margin[group]
                values = np.where(lost & (values == 0), -1.0, values)
            elif test == "gaps":  # the first group falls behind the others by the margin
                values = values - MARGIN * len(sizes) / (len(sizes) - 1) * (group == 0)
            else:
                values = values - MARGIN * at_margin[group]
            got = _gaps(values, group, len(sizes), rng) if sets is None else _means(values, group, len(sizes), sets)
            wrong[outcome] += got == outcome
    return wrong["fail"] / runs, wrong["pass"] / runs


def _random_suite(rng: np.random.Generator) -> tuple[list[PlannedCheck], Suite, Index, ProbeScores, ProbeScores]:
    """Accuracy, P(true) and gaps over one, two or both attributes, with margins that some groups are near."""
    images, sizes = 9000, {"a": int(rng.integers(2, 5)), "b": int(rng.integers(2, 8))}
    groups = {name: [f"{name}{at}" for at in range(size)] for name, size in sizes.items()}
    columns = {name: rng.choice(np.array(names, dtype=object), images) for name, names in groups.items()}
    ids, same = np.array([f"{at:05}" for at in range(images)], dtype=object), np.full(images, "person", dtype=object)
    index = Index(ids, same, same, same, ids, columns, groups)
    before = np.clip(rng.beta(4, 2, images), 0, 1)
    fell = rng.choice(groups["b"])
    loss = rng.uniform(0, 0.05) * (columns["b"] == fell) + rng.uniform(0, 0.01)
    after = np.clip(before + rng.normal(0, 0.1, images) - loss, 0, 1)
    sides = [ProbeScores(value, same, value > 0.5) for value in (before, after)]
    checks = [
        {"id": f"{metric}-{at}".replace("_", "-"), "metric": metric, "probe": "labels", "over": over}
        | {"no_worse_than": "baseline", "margin": float(rng.uniform(0.005, 0.03))}
        for at, over in enumerate(("a", "b", ["a", "b"]))
        for metric in ("accuracy", "p_true", "group_gap")
        if rng.random() < 0.6
    ] or [{"id": "p-true", "metric": "p_true", "probe": "labels", "no_worse_than": "baseline", "margin": 0.01}]
    probe = {"kind": "zero_shot_classification", "template": "{label}", "labels": ["x", "y"], "truth": "a"}
    suite = Suite.model_validate(
        {"schema": 1, "suite": "random", "dataset": "images", "probes": {"labels": probe}, "checks": checks}
    )

    def crossings(over: object) -> tuple[tuple[str, ...], ...]:
        return () if over is None else ((over,) if isinstance(over, str) else tuple(over),)  # type: ignore[arg-type]

    planned = [PlannedCheck(check, None, crossings(check.over), "here", (), "baseline") for check in suite.checks]
    return planned, suite, index, sides[1], sides[0]


def suites_alike(many: int, seeds: bool) -> None:
    """How far apart verdicts and adjusted p of blocks and of sets are, or of sets by two `seeds`, in their errors."""
    apart, verdicts, groups = list[float](), 0, 0
    for number in range(many):
        planned, suite, index, now, then = _random_suite(np.random.default_rng([27, 2, number]))
        sides = []
        for most, seed in ((10**9 if seeds else 1000, suite.decision.seed + seeds), (10**9, suite.decision.seed)):
            resampling.MOST = most
            drawn = suite.model_copy(update={"decision": suite.decision.model_copy(update={"seed": seed})})
            sides.append(decide(planned, index, drawn, {"labels": now}, {"baseline": {"labels": then}}, {}))
        for blocks, sets in zip(*sides, strict=True):
            for own, theirs in zip(blocks.groups, sets.groups, strict=True):
                groups += 1
                verdicts += own.verdict != theirs.verdict
                p, q = own.p_adjusted or 0.0, theirs.p_adjusted or 0.0
                middle, draws = (p + q) / 2, suite.decision.draws
                apart.append((p - q) / np.sqrt(2 * middle * (1 - middle) / draws + 1 / draws**2))
        if (number + 1) % 10 == 0 or number + 1 == many:
            size = np.abs(apart)
            mean, root = np.mean(apart), np.sqrt(np.mean(size**2))
            print(f"{number + 1} suites, {groups} groups: {verdicts} verdicts differ; p apart by", end=" ")
            print(f"{mean:+.2f} errors on average, {root:.2f} root mean square, {size.max():.1f} at most", flush=True)


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--sets", action="store_true", help="also draw the images themselves, which takes hours")
    parser.add_argument("--suites", type=int, help="compare so many random suites instead")
    parser.add_argument("--seeds", action="store_true", help="compare these with another seed, and no blocks")
    given = parser.parse_args()
    if given.suites:
        suites_alike(given.suites, given.seeds)
        return
    cells = [("means", kind, [1000] * 14) for kind in KINDS]
    cells += [("means", "skewness 6, long tail down", [10_000, 4000, 1000, 300, 100])]
    skewed = "skewness 6, long tail down"
    cells += [("gaps", kind, sizes) for kind in ("normal", skewed) for sizes in ([9000] * 3, [1000] * 14)]
    cells += [("gaps", skewed, [4000, 4000, 1000, 1000, *[300] * 10])]
    rows = []
    for drawn, most in (("blocks", resampling.MOST), ("sets", 10**9))[: 1 + given.sets]:
        resampling.MOST = most
        for test, kind, sizes in cells:
            runs = given.runs if (drawn, test) == ("blocks", "means") else given.runs // 5
            started = time.process_time()
            fails, passes = rates(test, kind, sizes, runs)
            seconds = time.process_time() - started
            rows.append((drawn, test, kind, len(sizes), sum(sizes), runs, f"{fails:.3f}", f"{passes:.3f}"))
            print(*rows[-1], f"{seconds / runs / 2:.3f} s", sep=" | ", flush=True)
    if given.csv:
        with given.csv.open("w", encoding="utf-8", newline="") as handle:
            names = ("drawn", "test", "changes", "groups", "images", "runs", "false_fails", "false_passes")
            csv.writer(handle, lineterminator="\n").writerows([names, *rows])


if __name__ == "__main__":
    sys.exit(main())
