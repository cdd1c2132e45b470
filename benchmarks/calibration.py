"""False alarms of the paired test, by simulation: every group sits exactly at the margin, so every verdict is wrong.

    python benchmarks/calibration.py --nulls 1000

A row is a shape of noise at a size: the share of runs with a false *fail* and a false *pass* of any group, in percent,
each with its Clopper-Pearson upper 95% limit. Both may reach alpha / 2 = 2.5 where the limits are exact.
`deviations` are taken from the mean of each set, as the check `group_gap` takes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from fairgate.randomness import stream
from fairgate.statistics import paired_test

MARGIN = 0.02
Noise = Callable[[np.random.Generator, int, int], NDArray[np.float64]]


def skewed(rng: np.random.Generator, sets: int, groups: int) -> NDArray[np.float64]:
    """Lognormal around its mean: the long tail lies above."""
    return rng.lognormal(0.0, 1.0, (sets, groups)) - np.exp(0.5)


def deviations(noise: Noise) -> Noise:
    """The same noise after each set's own mean is taken away, scaled back to its mean of zero."""

    def centred(rng: np.random.Generator, sets: int, groups: int) -> NDArray[np.float64]:
        table = noise(rng, sets, groups)
        return table - table.mean(axis=1, keepdims=True)

    return centred


SHAPES: dict[str, Noise] = {
    "normal": lambda rng, sets, groups: rng.normal(size=(sets, groups)),
    "heavy tails (t3)": lambda rng, sets, groups: rng.standard_t(3, (sets, groups)),
    "unequal variances": lambda rng, sets, groups: rng.normal(size=(sets, groups)) * np.geomspace(0.1, 3, groups),
    "skewed up": skewed,
    "skewed down": lambda rng, sets, groups: -skewed(rng, sets, groups),
    "deviations, normal": deviations(lambda rng, sets, groups: rng.normal(size=(sets, groups))),
    "deviations, skewed up": deviations(skewed),
    "deviations, skewed down": deviations(lambda rng, sets, groups: -skewed(rng, sets, groups)),
    "answers lost (2%)": lambda rng, sets, groups: MARGIN - (rng.random((sets, groups)) < MARGIN),
}


def wrong_verdicts(noise: Noise, sets: int, groups: int, nulls: int, rng: np.random.Generator) -> tuple[int, int]:
    """Runs with at least one group falsely failed, and falsely passed."""
    fails = passes = 0
    for _ in range(nulls):
        zero = np.zeros((sets, groups))
        result = paired_test(noise(rng, sets, groups) - MARGIN, zero, margin=MARGIN, rng=rng, draws=2000)
        fails += "fail" in result.verdict
        passes += "pass" in result.verdict
    return fails, passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nulls", type=int, default=200)
    parser.add_argument("--sets", type=int, nargs="+", default=[50, 300])
    parser.add_argument("--groups", type=int, nargs="+", default=[4, 8])
    options = parser.parse_args()
    print(f"{'noise':24} {'sets':>5} {'groups':>6}   false fail (upper)   false pass (upper)")
    for name, noise in SHAPES.items():
        for sets in options.sets:
            for groups in options.groups:
                rng = stream(0, "calibration", name, sets, groups)
                counts = wrong_verdicts(noise, sets, groups, options.nulls, rng)
                cells = []
                for count in counts:
                    upper = beta.ppf(0.95, count + 1, options.nulls - count) if count < options.nulls else 1.0
                    cells.append(f"{100 * count / options.nulls:8.1f} ({100 * upper:4.1f})")
                print(f"{name:24} {sets:5} {groups:6}   {cells[0]:>18}   {cells[1]:>18}", flush=True)


if __name__ == "__main__":
    main()
