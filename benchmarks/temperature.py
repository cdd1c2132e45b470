"""False alarms of regressions of P(true) that are decided at two label temperatures, on honest retrainings.

    python benchmarks/temperature.py [--nulls 2000]

Candidate and baseline come from one process: both answer 3 labels for the images of counterfactual sets of 8 groups
(2 subjects), and differ by the noise of a run alone. Margins are 0, so that every comparison is at the border of its
null. `same` has the baseline's temperature in truth; `sharper` and `flatter` have logits 1.2 and 0.8 times as large, so
that only the comparison at the baseline's temperature is at its null.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from fairgate.models.contract import log_softmax
from fairgate.probes import ProbeScores, classify, match_entropies, mean_entropies
from fairgate.records import CheckResult
from fairgate.suites.deciding import decide
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Check, Suite

SIZES = (50, 300)
SCALES = {"same": 1.0, "sharper": 1.2, "flatter": 0.8}
SHARPNESS = {"unsure": 1.0, "sure": 4.0}
"""What multiplies logits whose true label stands 2 higher, and that vary by 1 by set, 0.5 by member and 0.5 by run."""

ATTRIBUTES = {"tone": ["light", "tan", "brown", "dark"], "gender": ["male", "female"]}
LABELS = {"chef": ["chef", "cook", "server"], "doctor": ["doctor", "nurse", "vet"]}
CHECKS = [
    {"id": "fairness", "metric": "fairness"},
    {"id": "gap", "metric": "group_gap", "over": "crossed"},
    {"id": "p-true", "metric": "p_true", "over": "crossed"},
]


@dataclass(frozen=True)
class Images:
    """The columns of a dataset that shows every group in every set."""

    subject: NDArray[Any]
    set_id: NDArray[Any]
    member: NDArray[Any]
    attributes: Mapping[str, NDArray[Any]]

    def codes(self, attributes: str | Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
        """Groups of the crossing, coded."""
        assert not isinstance(attributes, str)
        names = [" x ".join(group) for group in product(*(ATTRIBUTES[name] for name in attributes))]
        return np.tile(np.arange(len(names)), len(self.subject) // len(names)), names


def images(sets: int) -> Images:
    """`sets` sets of 8, of the subjects by turns."""
    groups = list(product(*ATTRIBUTES.values()))
    columns = zip(*groups, strict=True)
    return Images(
        np.repeat([list(LABELS)[number % 2] for number in range(sets)], len(groups)).astype(object),
        np.repeat([f"set-{number:04d}" for number in range(sets)], len(groups)).astype(object),
        np.array(["-".join(group) for group in groups] * sets, dtype=object),
        {name: np.array(list(column) * sets, dtype=object) for name, column in zip(ATTRIBUTES, columns, strict=True)},
    )


@dataclass(frozen=True)
class Answers:
    """A scorer of given logits, (images, 3), whichever labels are asked for; the first label is the true one."""

    logits: NDArray[np.float64]

    def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        """Log-softmax over the three labels."""
        assert len(prompts) == 3
        return log_softmax(self.logits)


def two_runs(
    rng: np.random.Generator, index: Images, sharpness: float, scale: float
) -> tuple[ProbeScores, ProbeScores]:
    """Baseline and candidate."""
    sets, members = len(np.unique(index.set_id)), len(index.subject) // len(np.unique(index.set_id))
    shared = rng.normal(0, 1.0, (sets, 1, 3)) + rng.normal(0, 0.5, (sets, members, 3)) + np.array([2.0, 0.0, 0.0])
    runs = [sharpness * (shared + rng.normal(0, 0.5, shared.shape)).reshape(-1, 3) for _ in range(2)]
    baseline, candidate = (
        classify(Answers(logits), index.subject, index.subject, LABELS.__getitem__, str)
        for logits in (runs[0], scale * runs[1])
    )
    return baseline, candidate


def suite(draws: int) -> tuple[Suite, list[PlannedCheck]]:
    """Regressions of the three metrics of P(true), margin 0."""
    checks = [{"probe": "labels", "no_worse_than": "baseline", "margin": 0.0, **check} for check in CHECKS]
    loaded = Suite.model_validate(
        {
            "schema": 1,
            "suite": "temperature",
            "dataset": "images",
            "probes": {"labels": {"kind": "zero_shot_classification", "template": "{label}", "labels": LABELS}},
            "decision": {"draws": draws},
            "checks": checks,
        }
    )
    planned = [PlannedCheck(one, None, _groupings(one), "here", (), "baseline") for one in loaded.checks]
    return loaded, planned


def _groupings(check: Check) -> tuple[tuple[str, ...], ...]:
    return (tuple(ATTRIBUTES),) if check.over else ()


def false_alarms(sets: int, sharpness: float, scale: float, nulls: int, draws: int, seed: int) -> Counter[str]:
    """In how many nulls a check fails: at the baseline's temperature, and, if it is the own, at that or either."""
    index, (loaded, planned) = images(sets), suite(draws)
    found: Counter[str] = Counter()
    for null in range(nulls):
        rng = np.random.default_rng([seed, sets, int(10 * sharpness), int(10 * scale), null])
        baseline, candidate = two_runs(rng, index, sharpness, scale)
        tempered = {"labels": match_entropies(candidate, mean_entropies(baseline)).scores}
        own, before = {"labels": candidate}, {"baseline": {"labels": baseline}}
        found["baseline's"] += _fails(decide(planned, index, loaded, tempered, before, {}))
        if scale == 1.0:
            found["own"] += _fails(decide(planned, index, loaded, own, before, {}))
            found["both"] += _fails(decide(planned, index, loaded, own, before, {}, {"baseline": tempered}))
    return found


def _fails(results: Sequence[CheckResult]) -> bool:
    return any(one.verdict == "fail" for one in results)


def upper_limit(count: int, nulls: int) -> float:
    """Clopper and Pearson, 95% one-sided, of a share."""
    return float(beta.ppf(0.95, count + 1, nulls - count)) if count < nulls else 1.0


def _share(count: int | None, nulls: int) -> str:
    return "–" if count is None else f"{count / nulls:.1%} ({upper_limit(count, nulls):.1%})"


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nulls", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=20261122)
    asked = parser.parse_args()
    print("| sets | answers | candidate | own temperature alone | baseline's alone | both, as the gate decides |")
    print("| --- | --- | --- | --- | --- | --- |")
    for sets, (answers, sharpness), (candidate, scale) in product(SIZES, SHARPNESS.items(), SCALES.items()):
        counts = false_alarms(sets, sharpness, scale, asked.nulls, asked.draws, asked.seed)
        shares = [
            f"{counts[kind] / asked.nulls:.1%} ({upper_limit(counts[kind], asked.nulls):.1%})"
            if kind in counts
            else "–"
            for kind in ("own", "baseline's", "both")
        ]
        print(f"| {sets} | {answers} | {candidate} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
