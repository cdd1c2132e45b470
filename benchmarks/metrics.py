"""How fast the metrics are, beside references that a researcher would write with pandas, which give the same numbers.

python benchmarks/metrics.py --images 24000 --groups 8 --queries 261
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from fairgate.formulas.metrics import (
    bias_at_k,
    c_asc,
    counts_at_k_weighted,
    max_skew_at_k,
    min_skew_at_k,
    ndkl_at_k,
    normalized_entropy_at_k,
    ranking,
    recall_at_k,
    set_std,
    skew_at_k,
    skew_of_counts,
    tie_at_k,
    weighted_group_counts,
)
from fairgate.formulas.statistics import set_counts
from fairgate.ground.randomness import stream

K = 100


def shown_reference(scores: np.ndarray, labels: np.ndarray) -> Iterator[pd.DataFrame]:
    """One query at a time: the K images with the largest scores, best first, and their groups."""
    for row in scores:
        yield pd.DataFrame({"score": row, "group": labels}).nlargest(K, "score")


def skew_reference(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Value counts of the shown against those of the gallery, and the log ratio."""
    desired = pd.Series(labels).value_counts(normalize=True).sort_index()
    result = []
    for shown in shown_reference(scores, labels):
        share = shown["group"].value_counts(normalize=True).reindex(desired.index, fill_value=0)
        result.append(np.log(share / desired))
    return np.array(result)


def bias_reference(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Value counts of the shown, two of them compared."""
    counts = [shown["group"].value_counts() for shown in shown_reference(scores, labels)]
    pairs = [(count.get(0, 0), count.get(1, 0)) for count in counts]
    return np.array([(a - b) / (a + b) if a + b else 0.0 for a, b in pairs])


def entropy_reference(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Value counts of the shown, and their entropy."""
    shares = [shown["group"].value_counts(normalize=True) for shown in shown_reference(scores, labels)]
    return np.array([-(share * np.log(share)).sum() / np.log(labels.max() + 1) for share in shares])


def ndkl_reference(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One query and one prefix at a time."""
    desired = np.bincount(labels) / labels.size
    discount = 1 / np.log2(np.arange(1, K + 1) + 1)
    result = []
    for row in scores:
        ranked = labels[np.argsort(-row, kind="stable")[:K]]
        total = 0.0
        for i in range(1, K + 1):
            share = np.bincount(ranked[:i], minlength=desired.size) / i
            seen = share > 0
            total += discount[i - 1] * (share[seen] * np.log(share[seen] / desired[seen])).sum()
        result.append(total / discount.sum())
    return np.array(result)


def tie_reference(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether more than K images reach the lowest score that is shown."""
    tops = shown_reference(scores, labels)
    return np.array([(row >= shown["score"].min()).sum() > K for row, shown in zip(scores, tops, strict=True)])


def recall_reference(scores: np.ndarray, labels: np.ndarray, positives: np.ndarray) -> float:
    """Whether the one right image is among the shown."""
    tops = shown_reference(scores, labels)
    return float(np.mean([right in shown.index for right, shown in zip(positives, tops, strict=True)]))


def c_asc_reference(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One query and one group at a time."""
    result = []
    for row in scores:
        score = pd.Series(row)
        spread = score.std()
        groups = np.unique(labels)
        result.append([(score[labels == g].mean() - score[labels != g].mean()) / spread for g in groups])
    return np.array(result)


def bootstrap_reference(scores: np.ndarray, labels: np.ndarray, sets: np.ndarray, draws: int) -> np.ndarray:
    """Rank the repeated images of every draw again."""
    counts = set_counts(int(sets.max()) + 1, draws, stream(0, "bootstrap"))
    result = []
    for row in counts:
        images = np.repeat(np.arange(labels.size), row[sets])
        result.append(max_skew_at_k(scores[:, images], labels[images], K, groups=int(labels.max()) + 1)[0])
    return np.array(result)


def bootstrap_weighted(scores: np.ndarray, labels: np.ndarray, sets: np.ndarray, draws: int) -> np.ndarray:
    """Rank once, then count with multiplicities."""
    groups = int(labels.max()) + 1
    order = ranking(scores, labels, K, groups=groups)[0]
    counts = set_counts(int(sets.max()) + 1, draws, stream(0, "bootstrap"))
    ranked, weights = labels[order], counts[:, sets[order]]
    shown = counts_at_k_weighted(ranked, weights, K, groups=groups)
    return skew_of_counts(shown, weighted_group_counts(ranked, weights, groups)).max(axis=1)


def seconds(run: Callable[[], Any]) -> float:
    """Processor time of one call: what else a machine does lengthens it least."""
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(name: str, fast: Callable[[], Any], reference: Callable[[], Any]) -> None:
    """Hold the numbers of both equal, time both, best of several, and print the ratio."""
    np.testing.assert_allclose(fast(), reference(), atol=1e-9)
    ours = min(seconds(fast) for _ in range(10))
    theirs = min(seconds(reference) for _ in range(2))
    print(f"{name:28} {ours:10.4f} {theirs:10.4f} {theirs / ours:9.1f}", flush=True)


def compare_all(images: int, groups: int, queries: int) -> None:
    """The table: every metric against its reference, then all of them against one partition."""
    rng = stream(0, "benchmark")
    sets = np.repeat(np.arange(images // groups), groups)
    labels = np.tile(np.arange(groups), images // groups)
    scores = rng.normal(size=(queries, labels.size))
    positives = rng.integers(labels.size, size=queries)
    p = rng.random((labels.size // groups, groups))
    rows = pd.DataFrame({"set": sets, "p": p.ravel()})
    print(f"{images} images, {groups} groups, {queries} queries, K={K}, {scores.dtype}; processor seconds, the best")
    print(f"{'metric':28} {'fairgate':>10} {'reference':>10} {'ratio':>9}")

    def of_ranking(metric: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: metric(scores, labels, K, groups=groups)

    compare("skew_at_k", of_ranking(skew_at_k), lambda: skew_reference(scores, labels))
    compare("max_skew_at_k", of_ranking(max_skew_at_k), lambda: skew_reference(scores, labels).max(axis=1))
    compare("min_skew_at_k", of_ranking(min_skew_at_k), lambda: skew_reference(scores, labels).min(axis=1))
    compare("ndkl_at_k", of_ranking(ndkl_at_k), lambda: ndkl_reference(scores, labels))
    compare("bias_at_k", of_ranking(bias_at_k), lambda: bias_reference(scores, labels))
    compare("normalized_entropy_at_k", of_ranking(normalized_entropy_at_k), lambda: entropy_reference(scores, labels))
    compare("tie_at_k", of_ranking(tie_at_k), lambda: tie_reference(scores, labels))
    compare(
        "recall_at_k", lambda: recall_at_k(scores, positives, K), lambda: recall_reference(scores, labels, positives)
    )
    compare("c_asc", lambda: c_asc(scores, labels, groups=groups), lambda: c_asc_reference(scores, labels))
    compare("set_std", lambda: set_std(p), lambda: rows.groupby("set")["p"].std().to_numpy())
    compare(
        "max_skew, 200 resamples",
        lambda: bootstrap_weighted(scores[:1], labels, sets, 200),
        lambda: bootstrap_reference(scores[:1], labels, sets, 200),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=24_000)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--queries", type=int, default=261)
    options = parser.parse_args()
    compare_all(options.images, options.groups, options.queries)


if __name__ == "__main__":
    main()
