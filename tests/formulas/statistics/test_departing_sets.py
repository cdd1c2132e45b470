"""Sets that depart from a group's commonest difference, and means of sets that nearly agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.statistics import Entries, Resamples
from fairgate.formulas.statistics._limits import departures, mean_evidence
from fairgate.formulas.statistics.moments import SPARSE_ANSWERS, _departing
from fairgate.ground.randomness import stream


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10_000), departing=st.integers(0, 40), sets=st.integers(2, 300))
def test_few_sets_that_depart_are_counted_and_many_are_many(seed: int, departing: int, sets: int) -> None:
    rng = np.random.default_rng(seed)
    table = np.full((sets, 2), 0.25)
    for column in table.T:
        places = rng.choice(sets, size=min(departing, sets), replace=False)
        column[places] = rng.choice([rng.normal(), 0.5], size=len(places)) + rng.integers(0, 3, len(places))
    exact, _ = departures(np.unique(column, return_counts=True) for column in table.T)
    for counted, wanted in zip(_departing(Entries.of(table)).tolist(), exact.tolist(), strict=True):
        assert counted == wanted if wanted < SPARSE_ANSWERS else counted >= SPARSE_ANSWERS


@pytest.mark.parametrize("value", [0.1, -1 / 3, 1e-9, 1e9, 0.0])
def test_sets_that_agree_have_exactly_their_value_and_no_spread(value: float) -> None:
    for others in (np.random.default_rng(1).normal(size=9999), np.full(9999, value)):
        table = np.stack([np.full(9999, value), others], axis=1)
        evidence = mean_evidence(table, alpha=0.05, draws=100, rng=Resamples(9999, 100, stream(0, "alike")))
        assert (evidence.mean[0], evidence.error[0]) == (value, 0.0)
