"""Means over marginal and intersectional groups, beside their counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.metrics import by_set_and_group, group_means, intersection
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream


def test_an_absent_group_is_a_count_of_nothing_where_that_is_asked_for() -> None:
    table = group_means([1.0, 2.0, 9.0], np.array([0, 0, -1]), 2, absent="nan")
    assert table.mean == pytest.approx([1.5, np.nan], nan_ok=True)
    assert table.counts.tolist() == [2, 0]


def test_an_absent_group_is_refused_otherwise() -> None:
    with pytest.raises(MetricError, match="1 of 2 declared groups have no image") as caught:
        group_means([1.0], np.array([0]), 2)
    assert "declare only the groups" in caught.value.remedy


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000))
def test_marginal_means_are_intersections_weighed_by_their_counts(seed: int) -> None:
    rng = stream(seed, "cross")
    race, gender, value = rng.integers(0, 3, 60), rng.integers(0, 2, 60), rng.random(60)
    cells = group_means(value, intersection([race, gender], [3, 2]), 6, absent="nan")
    totals = np.nansum((cells.mean * cells.counts).reshape(3, 2), axis=1)
    race_means = group_means(value, race, 3)
    np.testing.assert_allclose(totals / cells.counts.reshape(3, 2).sum(axis=1), race_means.mean, atol=1e-12)


def test_attributes_must_come_with_their_sizes() -> None:
    with pytest.raises(MetricError, match="2 attributes came with 1 sizes") as caught:
        intersection([np.array([0]), np.array([0])], [2])
    assert "number of its declared groups" in caught.value.remedy


def test_members_of_one_group_in_one_set_are_one_observation() -> None:
    values = by_set_and_group(
        [0.2, 0.4, 0.9, 0.5, 7.0],
        np.array([0, 0, 0, 1, 1]),
        np.array([0, 0, 1, 1, -1]),
        n_sets=2,
        groups=2,
    )
    assert values == pytest.approx(np.array([[0.3, 0.9], [np.nan, 0.5]]), nan_ok=True)
