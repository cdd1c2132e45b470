"""How often intervals of the worst group hold the truth, by simulation, beside the percentiles of the bootstrap.

    python -m benchmarks.coverage --galleries 1000 --write docs/evidence/intervals.csv

A gallery is counterfactual sets with one image per group: score = set effect + group effect + noise, correlation 0.5
inside a set. Three worlds: fair; one group shifted by 0.6; all groups spread from -0.6 to 0.6. The truth is that of an
endless gallery ranked down to the same fraction, known from the normal distribution. Cells are independent streams:
`--only 50x4` runs the cells of one size.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from fairgate.formulas.metrics import (
    counts_at_k_weighted,
    fairness,
    ndkl_at_k,
    ndkl_at_k_weighted,
    set_deviation,
    set_std,
    skew_of_counts,
    weighted_group_counts,
)
from fairgate.formulas.statistics import (
    Interval,
    Unavailable,
    divergence_interval,
    extreme_interval,
    median_interval,
    set_counts,
    skew_interval,
    weighted_median,
)
from fairgate.ground.randomness import stream

WORLDS = ("fair", "one", "spread")
SIZES = [(sets, groups) for sets in (50, 300) for groups in (4, 8, 14)]
SCORES = {"moderate": (1.0, 0.0), "near 1": (3.0, 6.0), "near 0": (3.0, -6.0)}
"""P(true) = sigmoid(slope * score + offset)"""


def shifts(world: str, groups: int, direction: float = 1.0) -> np.ndarray:
    """Group effects (groups,)."""
    if world == "spread":
        return np.linspace(-0.6, 0.6, groups)
    return np.where(np.arange(groups) == 0, direction * 0.6 * (world == "one"), 0.0)


def gallery(rng: np.random.Generator, sets: int, effect: np.ndarray) -> np.ndarray:
    """Scores (sets, groups)."""
    return np.sqrt(0.5) * (rng.normal(size=(sets, 1)) + rng.normal(size=(sets, effect.size))) + effect


def shares_above(effect: np.ndarray, fraction: float) -> np.ndarray:
    """Of each group's endless images, the share in the top fraction of all."""
    return ndtr(effect - brentq(lambda cut: ndtr(effect - cut).mean() - fraction, -12, 12))


def endless_ndkl(effect: np.ndarray, k: int, images: int) -> float:
    """NDKL of an endless gallery, every place of the top k taken as its fraction of the gallery."""
    places = np.arange(1, k + 1)
    discount = 1 / np.log2(places + 1)
    shares = np.array([shares_above(effect, place / images) / (place / images) for place in places])
    return float(discount @ (shares * np.log(shares)).mean(axis=1) / discount.sum())


@dataclass
class Tally:
    """What happened to one statistic in one cell, gallery after gallery."""

    truth: float = np.nan
    naive: list[tuple[float, float]] = field(default_factory=list)
    given: list[tuple[float, float]] = field(default_factory=list)
    galleries: int = 0

    def add(self, drawn: np.ndarray, interval: Interval | Unavailable) -> None:
        self.galleries += 1
        lo, hi = np.quantile(drawn, [0.025, 0.975], method="nearest")
        self.naive.append((lo, hi))
        if isinstance(interval, Interval):
            self.given.append((interval.lo, interval.hi))

    def covers(self, limits: list[tuple[float, float]]) -> float:
        lo, hi = np.array(limits).T
        return float(((lo - 1e-9 <= self.truth) & (self.truth <= hi + 1e-9)).mean())  # a truth of 0, up to rounding

    def cells(self) -> list[str]:
        """Truth, naive coverage, coverage and median width, and how often an interval was given."""
        if not self.given:
            return [f"{round(self.truth, 2) + 0.0:.2f}", percent(self.covers(self.naive)), "none", "", "0"]
        width = float(np.median(np.subtract(*np.array(self.given).T[::-1])))
        covers = percent(self.covers(self.given))
        return [
            f"{round(self.truth, 2) + 0.0:.2f}",
            percent(self.covers(self.naive)),
            covers,
            f"{width:.2f}",
            self.printed(),
        ]

    def printed(self) -> str:
        return f"{100 * len(self.given) / self.galleries:.0f}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def ranked(world: str, sets: int, groups: int, k: int, galleries: int, draws: int) -> dict[str, Tally]:
    """MaxSkew, MinSkew and NDKL of one cell."""
    effect = shifts(world, groups)
    skews = np.log(shares_above(effect, k / (sets * groups)) / (k / (sets * groups)))
    tally = {"max": Tally(skews.max()), "min": Tally(skews.min()), "ndkl": Tally()}
    tally["endless"] = Tally(endless_ndkl(effect, k, sets * groups))
    label, of_set = np.tile(np.arange(groups), sets), np.repeat(np.arange(sets), groups)
    ndkls = []
    for index in range(galleries):
        rng = stream(0, "coverage", world, sets, groups, k, index)
        scores = gallery(rng, sets, effect).ravel()
        # Multiplicities average one: no draw needs more images than these to fill its top k.
        order = np.argsort(-scores, kind="stable")[: 3 * k + 200]
        counts = set_counts(sets, draws, rng)
        present = np.full((draws, groups), float(sets))
        how: dict[str, Any] = {"groups": groups, "present": present}
        weights = counts[:, of_set[order]]
        drawn = skew_of_counts(counts_at_k_weighted(label[order], weights, k, groups=groups), present)
        shown = np.bincount(label[order[:k]], minlength=groups)
        skew = skew_of_counts(shown, present[0])
        for which in ("max", "min"):
            interval = skew_interval(skew, drawn, k=k, images=present[0], n_sets=sets, which=which)
            tally[which].add(drawn.max(axis=1) if which == "max" else drawn.min(axis=1), interval)
        ndkls.append(float(ndkl_at_k(scores[None], label, k, groups=groups)[0]))
        drawn = ndkl_at_k_weighted(label[order], weights, k, **how)
        tally["ndkl"].add(drawn, divergence_interval(ndkls[-1], drawn, k=k, shown=shown, images=present[0]))
        low, high = np.quantile(drawn, [0.025, 0.975])
        reflected = Interval(ndkls[-1], 2 * ndkls[-1] - high, 2 * ndkls[-1] - low, "reflected", draws)
        tally["endless"].add(drawn, reflected)
    tally["ndkl"].truth = float(np.mean(ndkls))
    return tally


def scored(world: str, scores: str, sets: int, groups: int, galleries: int, draws: int) -> dict[str, Tally]:
    """Fairness, the lowest mean group gap, and worst-group accuracy of one cell."""
    effect = shifts(world, groups, direction=-1.0)
    slope, offset = SCORES[scores]
    endless = expit(slope * gallery(stream(0, "endless", world, groups), 400_000 // groups, effect) + offset)
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    mean = expit(slope * (nodes + effect[:, None]) + offset) @ weights / weights.sum()
    tally = {
        "fairness": Tally(fairness(endless)),
        "gap": Tally(float((mean - mean.mean()).min())),
        "accuracy": Tally(float(ndtr(effect + offset / slope).min())),
    }
    for index in range(galleries):
        rng = stream(0, "coverage", world, scores, sets, groups, index)
        logit = slope * gallery(rng, sets, effect) + offset
        counts = set_counts(sets, draws, rng)
        p = expit(logit)
        drawn = 1 - weighted_median(set_std(p), counts)
        tally["fairness"].add(drawn, median_interval(1 - set_std(p)))
        for name, values, trials in (("gap", set_deviation(p), None), ("accuracy", (logit > 0) * 1.0, [sets] * groups)):
            drawn = counts @ values / sets
            interval = extreme_interval(values.mean(axis=0), drawn, n_sets=sets, which="min", trials=trials)
            tally[name].add(drawn.min(axis=1), interval)
    return tally


def averaged(world: str, sets: int, groups: int, k: int, galleries: int, draws: int) -> dict[str, Tally]:
    """MaxSkew averaged over five subjects, each with a gallery of its own and other group effects."""
    subjects = 5
    effects = [np.roll(shifts(world, groups) * (1 + subject / 4), subject) for subject in range(subjects)]
    fraction = k / (sets * groups)
    truth = np.mean([np.log(shares_above(effect, fraction) / fraction).max() for effect in effects])
    tally = {"max": Tally(float(truth))}
    label, of_set = np.tile(np.arange(groups), sets), np.repeat(np.arange(sets), groups)
    present = np.full((draws, groups), float(sets))
    for index in range(galleries):
        rng = stream(0, "averaged", world, sets, groups, k, index)
        skew, drawn = np.empty((subjects, groups)), np.empty((draws, subjects, groups))
        for subject, effect in enumerate(effects):
            order = np.argsort(-gallery(rng, sets, effect).ravel(), kind="stable")[: 3 * k + 200]
            weights = set_counts(sets, draws, rng)[:, of_set[order]]
            counted = counts_at_k_weighted(label[order], weights, k, groups=groups)
            drawn[:, subject] = skew_of_counts(counted, present)
            skew[subject] = skew_of_counts(np.bincount(label[order[:k]], minlength=groups), present[0])
        interval = skew_interval(skew, drawn, k=k, images=np.full(skew.shape, sets), n_sets=sets)
        tally["max"].add(drawn.max(axis=2).mean(axis=1), interval)
    return tally


def unbalanced(world: str, images: int, k: int, galleries: int, draws: int) -> dict[str, Tally]:
    """MaxSkew of single images, no sets, of four groups with shares 50, 30, 15 and 5 in a hundred."""
    effect, desired = shifts(world, 4)[::-1], np.array([0.5, 0.3, 0.15, 0.05])
    cut = brentq(lambda at: desired @ ndtr(effect - at) - k / images, -12, 12)
    skews = np.log(ndtr(effect - cut) / (k / images))
    tally = {"max": Tally(skews.max()), "min": Tally(skews.min())}
    for index in range(galleries):
        rng = stream(0, "unbalanced", world, images, k, index)
        label = rng.choice(4, size=images, p=desired)
        order = np.argsort(-(rng.normal(size=images) + effect[label]), kind="stable")
        weights = set_counts(images, draws, rng)[:, order]
        counted = counts_at_k_weighted(label[order], weights, k, groups=4)
        drawn = skew_of_counts(counted, weighted_group_counts(label[order], weights, 4))
        held = np.bincount(label, minlength=4)
        skew = skew_of_counts(np.bincount(label[order[:k]], minlength=4), held)
        for which in ("max", "min"):
            interval = skew_interval(skew, drawn, k=k, images=held, n_sets=images, which=which)
            tally[which].add(drawn.max(axis=1) if which == "max" else drawn.min(axis=1), interval)
    return tally


def unbalanced_gap(world: str, scores: str, images: int, galleries: int, draws: int) -> dict[str, Tally]:
    """Lowest group_gap of single images, no sets, of four groups with shares 50, 30, 15 and 5 in a hundred."""
    effect, desired = shifts(world, 4, direction=-1.0)[::-1], np.array([0.5, 0.3, 0.15, 0.05])
    slope, offset = SCORES[scores]
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    mean = expit(slope * (nodes + effect[:, None]) + offset) @ weights / weights.sum()
    tally = Tally(float((mean - mean.mean()).min()))
    for index in range(galleries):
        rng = stream(0, "unbalanced gap", world, scores, images, index)
        label = rng.choice(4, size=images, p=desired)
        p = expit(slope * (rng.normal(size=images) + effect[label]) + offset)
        held = (label[:, None] == np.arange(4)).astype(np.float64)
        counts = np.concatenate([np.ones((1, images)), set_counts(images, draws, rng)])
        with np.errstate(invalid="ignore"):  # a group that a resample lost: no interval
            means = counts @ (held * p[:, None]) / (counts @ held)
        drawn = means - means.mean(axis=1, keepdims=True)
        smallest = int(held.sum(axis=0).min())
        tally.add(drawn[1:].min(axis=1), extreme_interval(drawn[0], drawn[1:], n_sets=smallest, which="min"))
    return {"gap": tally}


Row = tuple[str, str, list[str], Tally]


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """(table, statistic, cell, tally), cell after cell."""
    count = {"galleries": options.galleries, "draws": options.draws}
    for sets, groups in SIZES:
        if options.only and options.only != f"{sets}x{groups}":
            continue
        size = f"{sets} x {groups}"
        for world in WORLDS:
            for k in (25, 100):
                for name, tally in ranked(world, sets, groups, k, **count).items():
                    yield name, name, [world, size, str(k)], tally
            for scores in SCORES:
                for name, tally in scored(world, scores, sets, groups, **count).items():
                    yield name, name, [world, size, scores], tally
    for world in WORLDS if options.only in ("", "more") else ():
        for sets, groups, k in ((50, 4, 25), (50, 8, 100)):
            tally = averaged(world, sets, groups, k, **count)["max"]
            yield "more", "max", [f"{world}, MaxSkew, mean of 5 subjects", f"{sets} x {groups}", str(k)], tally
        for images, k in ((400, 50), (2000, 100)):
            for which, tally in unbalanced(world, images, k, **count).items():
                yield "more", which, [f"{world}, {which.title()}Skew, single images", f"{images} x 1", str(k)], tally
        for images, scores in product((400, 2000), SCORES):
            tally = unbalanced_gap(world, scores, images, **count)["gap"]
            yield "more", "gap", [f"{world}, group_gap, single images", f"{images} x 1", scores], tally


TITLES = {
    "max": "MaxSkew@K",
    "min": "MinSkew@K",
    "ndkl": "NDKL@K, mean over galleries of this size",
    "endless": "NDKL@K of an endless gallery: percentiles and reflected limits, neither offered",
    "fairness": "Fairness, 1 - median(set std)",
    "gap": "Lowest group_gap",
    "accuracy": "Lowest accuracy of a group",
    "more": "Averages over subjects; images that are no sets",
}


HEAD = ("statistic", "world", "sets x groups", "k or P(true)", "truth", "percentiles", "interval", "width", "given")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--galleries", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", default="", help="SETSxGROUPS, or 'more'")
    parser.add_argument("--write", type=Path, required=True, help="the CSV")
    options = parser.parse_args()
    found: dict[str, list[list[str]]] = defaultdict(list)
    for table, _, cell, tally in rows(options):
        found[table].append([TITLES[table], *cell, *tally.cells()])
        print(" ".join(found[table][-1]), file=sys.stderr, flush=True)
    with options.write.open("w", encoding="utf-8", newline="") as handle:
        lines = csv.writer(handle, lineterminator="\n")
        lines.writerow(HEAD)
        lines.writerows(line for table in TITLES for line in found[table])


if __name__ == "__main__":
    main()
