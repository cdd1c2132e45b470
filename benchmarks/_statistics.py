"""False alarms on statistics that are no means: fairness (the median spread of sets), MaxSkew@100, and the largest
MaxSkew@40 of two groups within each of others.

Both runs come from one distribution, so that every verdict other than *inconclusive* at a margin of 0 is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks import _nulls
from fairgate.formulas.metrics import counts_at_k_weighted, ranking, set_std, skew_of_counts
from fairgate.formulas.statistics import paired_statistic_test, set_counts, weighted_median
from fairgate.ground.randomness import stream

DRAWS = 2000
K = 100
K_WITHIN = 40
STEP = 0.05
"""The naive rule: MaxSkew rose by more than this."""

_TOP = 600
"""Best images of a gallery that are kept: multiplicities average one, and hold the top 100 many times over."""

Floats = NDArray[np.float64]
Drawn = tuple[float, Floats]
"""The change in the data, and in each resample of the sets."""


def fairness_change(rng: np.random.Generator, sets: int, groups: int) -> Drawn:
    """Minus the median spread, of probabilities near 0 and 1."""
    new, old = (set_std(p) for p in _nulls.saturated(rng, sets, np.zeros(groups)))
    counts = set_counts(sets, DRAWS, rng)
    change = np.median(old) - np.median(new)
    return float(change), weighted_median(old, counts) - weighted_median(new, counts)


def max_skew_change(rng: np.random.Generator, sets: int, groups: int, favour: float = 0.0) -> Drawn:
    """MaxSkew@100 of one query over sets * groups images; `favour` lifts the first group's scores in both runs."""
    shared = rng.normal(size=(sets, 1)) + rng.normal(size=(sets, groups)) + favour * (np.arange(groups) == 0)
    counts = set_counts(sets, DRAWS, rng)
    counts = np.concatenate([np.ones((1, sets), dtype=counts.dtype), counts])
    labels = np.tile(np.arange(groups), sets)
    present = np.full((DRAWS + 1, groups), float(sets))  # every set holds every group
    skew = []
    for _ in range(2):
        scores = shared + rng.normal(size=(sets, groups))
        order = ranking(scores.ravel()[None], labels, K, groups=groups)[0][:_TOP]
        weights = counts[:, order // groups]
        skew.append(skew_of_counts(counts_at_k_weighted(labels[order], weights, K, groups=groups), present).max(axis=1))
    change = skew[1] - skew[0]
    return float(change[0]), change[1:]


def marginal_skew_change(rng: np.random.Generator, sets: int, groups: int, favour: float = 0.0) -> Drawn:
    """The largest MaxSkew@40 of two groups within each of groups / 2 others, ranked apart; `favour` as above."""
    shared = rng.normal(size=(sets, 1)) + rng.normal(size=(sets, groups)) + favour * (np.arange(groups) == 0)
    counts = set_counts(sets, DRAWS, rng)
    counts = np.concatenate([np.ones((1, sets), dtype=counts.dtype), counts])
    labels, present = np.tile([0, 1], sets), np.full((DRAWS + 1, 2), float(sets))
    worst = []
    for _ in range(2):
        scores = shared + rng.normal(size=(sets, groups))
        skews = []
        for first in range(0, groups, 2):
            inside = scores[:, first : first + 2].ravel()
            order = ranking(inside[None], labels, K_WITHIN, groups=2)[0][:_TOP]
            shown = counts_at_k_weighted(labels[order], counts[:, order // 2], K_WITHIN, groups=2)
            skews.append(skew_of_counts(shown, present).max(axis=1))
        worst.append(np.max(skews, axis=0))
    change = worst[1] - worst[0]
    return float(change[0]), change[1:]


STATISTICS: dict[str, Callable[[np.random.Generator, int, int], Drawn]] = {
    "fairness": fairness_change,
    "MaxSkew@100, fair ranker": max_skew_change,
    "MaxSkew@100, skewed ranker": lambda rng, sets, groups: max_skew_change(rng, sets, groups, favour=1.0),
    "marginal MaxSkew@40, fair ranker": marginal_skew_change,
    "marginal MaxSkew@40, skewed ranker": lambda rng, sets, groups: marginal_skew_change(rng, sets, groups, favour=1.0),
}

CELLS = [(name, "no change", sets, groups) for name in STATISTICS for sets in (50, 300) for groups in (4, 8, 14)]


def rows(shape: str, sets: int, groups: int, runs: int) -> Iterator[tuple[str, str, int, int]]:
    """(rule, what, runs, count) of a cell."""
    rng = stream(0, "statistic", shape, sets, groups)
    harm, worse = ("lower", -1.0) if shape == "fairness" else ("higher", 1.0)
    fails = passes = naive = 0
    for _ in range(runs):
        change, drawn = STATISTICS[shape](rng, sets, groups)
        verdict = paired_statistic_test(change, drawn, n_sets=sets, margin=0.0, harm=harm).overall
        fails += verdict == "fail"
        passes += verdict == "pass" and change != 0
        naive += worse * change > STEP
    yield "fairgate", "false fail", runs, fails
    yield "fairgate", "false pass", runs, passes
    if shape != "fairness":
        yield "MaxSkew rose by more than 0.05", "false fail", runs, naive
