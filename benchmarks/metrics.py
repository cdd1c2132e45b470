"""How fast the metrics are, beside a straightforward pandas reference that gives the same numbers.

python benchmarks/metrics.py --images 24000 --groups 8 --queries 261
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from fairgate.metrics import max_skew_at_k, ndkl_at_k, ranking, set_std, skew_at_k_weighted
from fairgate.randomness import stream
from fairgate.statistics import set_counts


def max_skew_reference(scores: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """One query at a time: the largest scores, their value counts, the largest log ratio."""
    desired = pd.Series(labels).value_counts(normalize=True)
    result = []
    for row in scores:
        frame = pd.DataFrame({"score": row, "group": labels})
        shown = frame.nlargest(k, "score")["group"].value_counts(normalize=True)
        result.append(np.log(shown / desired).max())
    return np.array(result)


def ndkl_reference(scores: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """One query and one prefix at a time."""
    desired = np.bincount(labels) / labels.size
    discount = 1 / np.log2(np.arange(1, k + 1) + 1)
    result = []
    for row in scores:
        ranked = labels[np.argsort(-row, kind="stable")[:k]]
        total = 0.0
        for i in range(1, k + 1):
            share = np.bincount(ranked[:i], minlength=desired.size) / i
            seen = share > 0
            total += discount[i - 1] * (share[seen] * np.log(share[seen] / desired[seen])).sum()
        result.append(total / discount.sum())
    return np.array(result)


def bootstrap_reference(scores: np.ndarray, labels: np.ndarray, sets: np.ndarray, draws: int, k: int) -> np.ndarray:
    """Rank the repeated images of every draw again."""
    counts = set_counts(int(sets.max()) + 1, draws, stream(0, "bootstrap"))
    result = []
    for row in counts:
        images = np.repeat(np.arange(labels.size), row[sets])
        result.append(max_skew_at_k(scores[:, images], labels[images], k, groups=int(labels.max()) + 1)[0])
    return np.array(result)


def bootstrap_weighted(scores: np.ndarray, labels: np.ndarray, sets: np.ndarray, draws: int, k: int) -> np.ndarray:
    """Rank once, then count with multiplicities."""
    groups = int(labels.max()) + 1
    order = ranking(scores, labels, k, groups=groups)[0]
    counts = set_counts(int(sets.max()) + 1, draws, stream(0, "bootstrap"))
    return skew_at_k_weighted(labels[order], counts[:, sets[order]], k, groups=groups).max(axis=1)


def compare(name: str, fast: Callable[[], Any], reference: Callable[[], Any]) -> None:
    """Time both, hold their numbers equal, print the ratio."""
    seconds, answers = [], []
    for run in (fast, reference):
        start = time.perf_counter()
        answers.append(run())
        seconds.append(time.perf_counter() - start)
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-9)
    print(f"{name:34} {seconds[0]:9.3f} s   reference {seconds[1]:9.3f} s   {seconds[1] / seconds[0]:7.1f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=24_000)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--queries", type=int, default=261)
    options = parser.parse_args()
    rng = stream(0, "benchmark")
    sets = np.repeat(np.arange(options.images // options.groups), options.groups)
    labels = np.tile(np.arange(options.groups), sets.size // options.groups)
    scores = rng.normal(size=(options.queries, labels.size))
    p = rng.random((labels.size // options.groups, options.groups))
    rows = pd.DataFrame({"set": np.repeat(np.arange(len(p)), options.groups), "p": p.ravel()})
    compare("set_std", lambda: set_std(p), lambda: rows.groupby("set")["p"].std().to_numpy())
    k = 100
    compare(
        f"max_skew_at_{k}",
        lambda: max_skew_at_k(scores, labels, k, groups=options.groups),
        lambda: max_skew_reference(scores, labels, k),
    )
    compare(
        f"ndkl_at_{k}",
        lambda: ndkl_at_k(scores, labels, k, groups=options.groups),
        lambda: ndkl_reference(scores, labels, k),
    )
    compare(
        "max_skew of 200 resampled sets",
        lambda: bootstrap_weighted(scores[:1], labels, sets, 200, k),
        lambda: bootstrap_reference(scores[:1], labels, sets, 200, k),
    )


if __name__ == "__main__":
    main()
