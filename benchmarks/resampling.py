"""How fast sets are resampled and signs flipped, beside plain loops that a researcher would write, in the same run.

    python -m benchmarks.resampling --sets 6000 --groups 14 --draws 10000

Every line is a process of its own, so that its peak memory (imports included) is its own. The loops run a part of the
draws and are scaled up.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks._naive import sign_flip_test
from fairgate.formulas.statistics import Resamples, paired_test
from fairgate.ground.randomness import stream

PART = 50
"""The loops run one draw in so many."""


def difference_of(sets: int, groups: int) -> NDArray[np.float64]:
    return stream(0, "benchmark").normal(0.0, 0.1, (sets, groups))


def bootstrap(sets: int, groups: int, draws: int) -> None:
    """The paired test: limits, p-values and verdicts from the studentised max-T bootstrap."""
    difference = difference_of(sets, groups)
    paired_test(difference, np.zeros_like(difference), margin=0.02, rng=stream(0, "draws"), draws=draws)


def shared(sets: int, groups: int, draws: int) -> None:
    """Four checks of a suite on the same resamples."""
    difference = difference_of(sets, groups)
    resamples = Resamples(sets, draws, stream(0, "draws"))
    for _ in range(4):
        paired_test(difference, np.zeros_like(difference), margin=0.02, rng=resamples, draws=draws)


def flips(sets: int, groups: int, draws: int) -> None:
    """Max-T sign flips."""
    sign_flip_test(difference_of(sets, groups), rng=stream(0, "flips"), draws=draws)


def bootstrap_loop(sets: int, groups: int, draws: int) -> None:
    """One draw after the other, by fancy indexing."""
    difference, rng = difference_of(sets, groups), stream(0, "draws")
    mean = difference.mean(axis=0)
    extremes = []
    for _ in range(draws // PART):
        drawn = difference[rng.integers(0, sets, sets)]
        extremes.append(((drawn.mean(axis=0) - mean) / (drawn.std(axis=0, ddof=1) / np.sqrt(sets))).max())
    np.quantile(extremes, 0.975)


def bootstrap_pandas(sets: int, groups: int, draws: int) -> None:
    """One draw after the other, in a long table grouped by group."""
    difference = difference_of(sets, groups)
    table = pd.DataFrame(difference).melt(var_name="group", ignore_index=False).rename_axis("set").reset_index()
    by_set, rng = table.set_index("set"), stream(0, "draws")
    mean = table.groupby("group")["value"].mean()
    for _ in range(draws // PART):
        drawn = by_set.loc[rng.integers(0, sets, sets)].groupby("group")["value"].agg(["mean", "sem"])
        ((drawn["mean"] - mean) / drawn["sem"]).max()


def flips_loop(sets: int, groups: int, draws: int) -> None:
    """One flip after the other."""
    difference, rng = difference_of(sets, groups), stream(0, "flips")
    for _ in range(draws // PART):
        flipped = difference * rng.choice([-1.0, 1.0], sets)[:, None]
        (flipped.mean(axis=0) / (flipped.std(axis=0, ddof=1) / np.sqrt(sets))).max()


LINES: dict[str, tuple[Callable[[int, int, int], None], int]] = {
    "bootstrap: paired_test": (bootstrap, 1),
    "  4 checks on shared Resamples": (shared, 1),
    "  loop, fancy indexing": (bootstrap_loop, PART),
    "  loop, pandas groupby": (bootstrap_pandas, PART),
    "sign flips: sign_flip_test": (flips, 1),
    "  loop": (flips_loop, PART),
}


def measured(name: str, sets: int, groups: int, draws: int) -> tuple[float, float, float]:
    """Seconds, those of the processor (a busy machine adds to the first alone), and this process's peak MB."""
    run, times = LINES[name]
    started, busy = time.perf_counter(), time.process_time()
    run(sets, groups, draws)
    seconds, busy = (time.perf_counter() - started) * times, (time.process_time() - busy) * times
    return seconds, busy, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=6000)
    parser.add_argument("--groups", type=int, default=14)
    parser.add_argument("--draws", type=int, default=10_000)
    options = parser.parse_args()
    print(f"{options.draws:,} draws over {options.sets:,} sets x {options.groups} groups")
    print(f"{'':32} {'seconds':>8} {'CPU s':>8} {'peak MB':>8}")
    context = multiprocessing.get_context("spawn")
    for name in LINES:
        with context.Pool(1) as pool:
            seconds, busy, peak = pool.apply(partial(measured, name, options.sets, options.groups, options.draws))
        scaled = " (scaled)" if LINES[name][1] > 1 else ""
        print(f"{name:32} {seconds:8.2f} {busy:8.2f} {peak:8.0f}{scaled}", flush=True)


if __name__ == "__main__":
    main()
