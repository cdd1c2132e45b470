"""Adjusted p-values by hand, and the order between the corrections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.statistics import bonferroni, holm
from fairgate.ground.errors import StatisticsError

P = [0.01, 0.02, 0.03, 0.005, 0.9]


@pytest.mark.parametrize(
    ("adjust", "expected"),
    [
        (bonferroni, [0.05, 0.1, 0.15, 0.025, 1.0]),
        (holm, [0.04, 0.06, 0.06, 0.025, 0.9]),
    ],
)
def test_adjusted_values_worked_by_hand(adjust, expected: list[float]) -> None:
    assert adjust(P) == pytest.approx(expected)
    assert adjust([]).size == 0


@settings(max_examples=60, deadline=None)
@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=12), order=st.randoms(use_true_random=False))
def test_corrections_are_ordered_and_follow_their_tests(p: list[float], order) -> None:
    assert (holm(p) <= bonferroni(p) + 1e-12).all()
    assert (np.array(p) <= holm(p) + 1e-12).all()
    places = list(range(len(p)))
    order.shuffle(places)
    for adjust in (bonferroni, holm):
        np.testing.assert_allclose(adjust([p[i] for i in places]), adjust(p)[places])


@pytest.mark.parametrize("p", [[0.1, np.nan], [1.1], [-0.1], [[0.1]]])
@pytest.mark.parametrize("adjust", [bonferroni, holm])
def test_a_missing_p_value_is_never_left_out(adjust, p: list[float]) -> None:
    with pytest.raises(StatisticsError, match="not all numbers from 0 to 1") as caught:
        adjust(p)
    assert "must not be left out" in caught.value.remedy
