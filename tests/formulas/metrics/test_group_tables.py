"""Means over groups, and over the images of a group in a set."""

from __future__ import annotations

import numpy as np
import pytest

from fairgate.formulas.metrics import by_set_and_group, group_means
from fairgate.ground.errors import MetricError


def test_an_absent_group_is_refused() -> None:
    with pytest.raises(MetricError, match="1 of 2 declared groups have no image") as caught:
        group_means([1.0], np.array([0]), 2)
    assert "declare only the groups" in caught.value.remedy


def test_members_of_one_group_in_one_set_are_one_observation() -> None:
    values = by_set_and_group(
        [0.2, 0.4, 0.9, 0.5, 7.0],
        np.array([0, 0, 0, 1, 1]),
        np.array([0, 0, 1, 1, -1]),
        n_sets=2,
        groups=2,
    )
    assert values == pytest.approx(np.array([[0.3, 0.9], [np.nan, 0.5]]), nan_ok=True)
