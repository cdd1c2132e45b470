"""Simulated: intervals of generated pictures' shares hold the truth as often as they say, whoever the reader misses.

docs/evidence/metrics.md has all cells (`python -m benchmarks.perceived_shares coverage`). Streams draw the same numbers
everywhere; of 150 runs at 95%, 99 in 100 simulations hold the truth in at least 135.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.perceived_shares import covered, truth
from fairgate.formulas.metrics import corrected_shares

RUNS = 150


@pytest.mark.parametrize(
    ("metric", "shares", "reader"),
    [("perceived_share", [0.3, 0.7], "misses"), ("painted_entropy", [0.5, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02], "fair")],
)
def test_a_95_percent_interval_holds_the_truth_that_often(metric: str, shares: list[float], reader: str) -> None:
    held, width = covered(metric, np.array(shares), 100, reader, 300, RUNS)
    assert held >= 135 / RUNS
    assert width < 0.3, "and says something"


def test_without_the_correction_it_would_miss() -> None:
    """A reader that takes three of ten women for men sees 24.5% where 30% are painted."""
    seen = np.array([0.3, 0.7]) @ np.array([[0.7, 0.3], [0.05, 0.95]])
    assert seen[0] == pytest.approx(0.245)
    found = corrected_shares(seen, [[70, 30], [5, 95]]).shares[0]
    assert found == pytest.approx(truth("perceived_share", np.array([0.3, 0.7])))
