"""Do the intervals of generated pictures' shares cover, and how often is an unchanged generator called more biased?

    python -m benchmarks.perceived_shares coverage [--runs 1000]
    python -m benchmarks.perceived_shares alarms [--runs 600]

Pictures of known groups are read with the errors of a reader, which is measured on `known` labelled pictures of each
group. `coverage` counts how often a 95% interval holds the true value. `alarms` compares two generators that are drawn
with correlated noise and truly differ by exactly the margin, where a false alarm is likeliest, alpha 0.05.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

from fairgate.formulas.statistics import Design, Resamples, compare_draws, decided
from fairgate.ground.randomness import stream
from fairgate.metrics import METRICS, Cell, Floats, MetricRequest, measure, resample
from fairgate.probes import PROBES, ProbeScores

Groups = NDArray[np.int64]
NAMES = np.array([f"g{place}" for place in range(7)], dtype=object)
TWO = ([0.05, 0.95], [0.1, 0.9], [0.3, 0.7], [0.5, 0.5], [0.8, 0.2])
MORE = ([0.25] * 4, [0.55, 0.25, 0.15, 0.05], [0.5, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02])
"""True shares; the first group is the one that is missed more often."""
SIZES = ((50, 50), (200, 300))
"""Pictures, and known pictures of each group."""
READERS = {"good": (0.99, 0.99), "fair": (0.9, 0.95), "misses": (0.7, 0.95)}
"""How often the first group, and every other one, is read right; what is wrong is any other group."""
METRICS_OF = ("perceived_share", "target_distance", "target_skew", "painted_entropy")


def confusion_of(reader: str, groups: int) -> Floats:
    """Rates of known groups (rows) by what is perceived."""
    right = np.array([READERS[reader][0], *[READERS[reader][1]] * (groups - 1)])
    found: Floats = np.diag(right) + (1 - np.eye(groups)) * ((1 - right) / (groups - 1))[:, None]
    return found


def read(true: Groups, rates: Floats, rng: np.random.Generator) -> Groups:
    """What a reader perceives in pictures of known groups."""
    return np.asarray((rng.random(len(true))[:, None] > rates.cumsum(axis=1)[true]).sum(axis=1))


def request(metric: str, counts: NDArray[np.int64]) -> MetricRequest:
    """A check of a metric on pictures whose reader was measured with these counts."""
    names = NAMES[: len(counts)].tolist()
    measured = {name: dict(zip(names, map(int, row), strict=True)) for name, row in zip(names, counts, strict=True)}
    labels = {"attribute": "seen", "groups": names}
    probe = PROBES["generation"].model_validate({"kind": "generation", "labels": labels, "measured": measured})
    settings = METRICS[metric].Settings(**({"group": "g0"} if metric == "perceived_share" else {}))
    return MetricRequest("check", metric, "painted", settings, asked=probe)


def answers(seen: Groups, alike: Groups | None = None) -> ProbeScores:
    """Perceived groups as a probe returns them; `alike` is the first picture that is the same."""
    more = {} if alike is None else {"picture": alike.astype(np.float64)}
    return ProbeScores(np.ones(len(seen)), predicted=NAMES[seen], more=more)


def cell(pictures: int) -> Cell:
    """One subject's pictures."""
    rows = np.arange(pictures)
    return Cell(rows, rows, rows.astype(str), np.array(["doctor"] * pictures), (), ())


def truth(metric: str, shares: Floats) -> float:
    """The value of the true shares."""
    even = 1 / len(shares)
    found = {
        "perceived_share": lambda: shares[0],
        "target_distance": lambda: np.abs(shares - even).sum() / 2,
        "target_skew": lambda: np.log(shares.max() / even),
        "painted_entropy": lambda: -(shares * np.log(shares)).sum() / np.log(len(shares)),
    }
    return float(found[metric]())


def covered(
    metric: str, shares: Floats, n: int, reader: str, known: int, runs: int, copies: int = 1
) -> tuple[float, float]:
    """Share of intervals that hold the true value, and their mean width. Every picture is made `copies` times."""
    rng, rates = (
        stream(0, metric, str(shares), str(n), reader, str(known), str(copies)),
        confusion_of(reader, len(shares)),
    )
    images, hits, width = cell(n * copies), 0, 0.0
    alike = np.repeat(np.arange(n) * copies, copies)
    for _ in range(runs):
        counts = np.stack([rng.multinomial(known, row) for row in rates])
        if (counts.argmax(axis=0) != np.arange(len(counts))).any():
            continue  # a reader that a suite refuses
        asked = replace(request(metric, counts), subject=str(rng.integers(2**32)))
        seen = np.repeat(read(rng.choice(len(shares), size=n, p=shares), rates, rng), copies)
        now = measure(asked, images, [answers(seen, alike)])
        limits = METRICS[metric].interval(asked, images, now, now.draw(np.ones((1, len(seen)), dtype=np.int32)), 0.05)
        assert limits.lo is not None
        assert limits.hi is not None
        hits += limits.lo - 1e-9 <= truth(metric, shares) <= limits.hi + 1e-9
        width += limits.hi - limits.lo
    return hits / runs, width / runs


def alarms(metric: str, base: Floats, candidate: Floats, n: int, reader: str, known: int, runs: int) -> int:
    """Comparisons that fail where the truth differs by exactly the margin."""
    rng, rates = stream(1, metric, str(base), str(n), reader, str(known)), confusion_of(reader, len(base))
    images, found = cell(n), 0
    margin = abs(truth(metric, candidate) - truth(metric, base))
    design = Design(margin, 0.05, "lower" if METRICS[metric].spec.better == "higher" else "higher")
    for run in range(runs):
        counts = np.stack([rng.multinomial(known, row) for row in rates])
        if (counts.argmax(axis=0) != np.arange(len(counts))).any():
            continue
        asked, shared = request(metric, counts), rng.standard_normal(n)
        both = []
        for shares in (candidate, base):
            level = norm.cdf(np.sqrt(0.5) * shared + np.sqrt(0.5) * rng.standard_normal(n))
            true = np.minimum((level[:, None] > shares.cumsum()).sum(axis=1), len(shares) - 1)
            both.append(measure(asked, images, [answers(read(true, rates, rng))]))
        drawn = resample(both, n, 1000, Resamples(n, 1000, stream(run, "sets")))
        compared = compare_draws(
            both[0].value - both[1].value, drawn[0].value - drawn[1].value, n_sets=n, design=design
        )
        found += decided([compared])[0].overall == "fail"
    return found


def coverage_page(runs: int) -> None:
    """A line per cell."""
    cells = [(shares, reader, *size, METRICS_OF[:1]) for shares in TWO for reader in READERS for size in SIZES]
    cells += [(shares, "fair", 200, 300, METRICS_OF[1:]) for shares in ([0.3, 0.7], [0.5, 0.5], *MORE)]
    for shares, reader, n, known, metrics in cells:
        found = [covered(metric, np.array(shares), n, reader, known, runs) for metric in metrics]
        told = ", ".join(f"{m} {c:.3f} (width {w:.3f})" for m, (c, w) in zip(metrics, found, strict=True))
        print(f"{shares}, {reader}, {n} pictures, {known} known: {told}", flush=True)
    c, w = covered("perceived_share", np.array([0.3, 0.7]), 100, "fair", 300, runs, copies=3)
    print(f"[0.3, 0.7], fair, 100 pictures each made three times, 300 known: {c:.3f} (width {w:.3f})")


def alarms_page(runs: int) -> None:
    """A line per cell."""
    pairs = {
        "perceived_share": [([0.15, 0.85], [0.1, 0.9]), ([0.5, 0.5], [0.4, 0.6])],
        "target_distance": [([0.4, 0.6], [0.3, 0.7]), ([0.3, 0.3, 0.2, 0.2], [0.4, 0.3, 0.15, 0.15])],
        "target_skew": [([0.4, 0.6], [0.3, 0.7]), ([0.3, 0.3, 0.2, 0.2], [0.4, 0.3, 0.15, 0.15])],
        "painted_entropy": [([0.4, 0.6], [0.3, 0.7]), ([0.3, 0.3, 0.2, 0.2], [0.4, 0.3, 0.15, 0.15])],
    }
    for metric, every in pairs.items():
        for base, candidate in every:
            for n in (50, 200):
                for reader, known in (("good", 300), ("misses", 100)):
                    found = alarms(metric, np.array(base), np.array(candidate), n, reader, known, runs)
                    upper = beta.ppf(0.95, found + 1, runs - found)
                    print(
                        f"{metric}, {base} to {candidate}, {n} pictures, {reader}, {known} known: {found / runs:.3f} "
                        f"of {runs} (95% upper limit {upper:.3f})",
                        flush=True,
                    )


def main() -> None:
    """Print one page."""
    pages: dict[str, Callable[[int], None]] = {"coverage": coverage_page, "alarms": alarms_page}
    parser = argparse.ArgumentParser()
    parser.add_argument("page", choices=pages)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    pages[options.page](options.runs)


if __name__ == "__main__":
    main()
