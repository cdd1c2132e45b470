"""Runs as they are read from MLflow, by hand."""

from __future__ import annotations

from typing import Any

from fairgate.records.history import PastRun, Question

FAIRNESS = Question("fairness", "higher", "at_least", None, "q1")
MARGIN = Question("fairness", "higher", "no_worse_than", "anchor", "q1")
SKEW = Question("max_skew_at_k", "lower", "at_most", None, "q2", k=100)


def a_run(number: int, value: float = 0.9, half: float = 0.01, **changes: Any) -> PastRun:
    """Run `number`, of as many commits, with `fairness` measured as `value` ± `half`."""
    metrics = {"fairness/all": value, "fairness/all/bound": 0.85, "gate/pass": 1.0}
    metrics |= {} if half is None else {"fairness/all/lo": value - half, "fairness/all/hi": value + half}
    known: dict[str, Any] = {
        "run_id": f"{number:032d}",
        "created_at": f"2026-03-{number:02d}T10:00:00+00:00",
        "started_ms": 1000 * number,
        "commit": f"{number:07d}" + "c" * 33,
        "branch": "main",
        "height": number,
        "dirty": False,
        "pull_request": None,
        "verdict": "pass",
        "dataset": "faces/v1",
        "fingerprint": "f" * 64,
        "model": "0a1b2c3d" * 8,
        "notice": None,
        "metrics": metrics | changes.pop("more", {}),
        "questions": {"fairness": FAIRNESS, **changes.pop("asked", {})},
    }
    return PastRun(**(known | changes))


def jobs(number: int, doctor: float, chef: float) -> PastRun:
    """A run with a skew by subject too."""
    more = {f"skew/{job}{end}": value + add for job, value in (("doctor", doctor), ("chef", chef))
            for end, add in (("", 0.0), ("/lo", -0.05), ("/hi", 0.05))}  # fmt: skip
    return a_run(number, more=more, asked={"skew": SKEW})
