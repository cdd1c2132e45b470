"""How far the groups of one attribute differ by the skew of another within them."""

from __future__ import annotations

import numpy as np
import pytest

from fairgate.formulas.metrics import relative_difference
from fairgate.ground.errors import MetricError


def test_the_relative_difference_is_of_the_means_over_queries_and_from_the_least() -> None:
    assert relative_difference([[0.2, 0.5, 0.3], [0.2, 0.3, 0.3]]) == pytest.approx(1.0)
    assert relative_difference([[0.25, 0.41]]) == pytest.approx(0.64)
    assert relative_difference([[0.0, 0.1]]) == float("inf")
    assert relative_difference([[0.0, 0.0]]) == 0.0
    assert relative_difference([[1e-17, 2e-16]]) == 0.0  # parity but for rounding
    with pytest.raises(MetricError, match="not finite"):
        relative_difference([[np.nan, 0.1]])
