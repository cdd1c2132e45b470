"""How far limits of contrasts reach next to sparse groups, and the p-values that follow: step by step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta
from scipy.stats import t as student

from fairgate.formulas.statistics.regression import _Sparse

ERROR, FREEDOM = np.array([0.1, 0.2]), np.array([30.0, 2.0])
LEVERAGE = np.array([[0.5, 0.1], [0.25, 0.3]])
DEPARTING, N_SPARSE = np.array([2, 0]), np.array([40, 25])
DRAWN = np.sort(np.abs(np.random.default_rng(0).standard_t(5, (999, 2))), axis=0)


def reach(part: float = 0.5) -> _Sparse:
    return _Sparse(error=ERROR, freedom=FREEDOM, part=part, departing=DEPARTING, n_sparse=N_SPARSE, leverage=LEVERAGE)


def by_hand(level: float, part: float) -> np.ndarray:
    """Noise of the dense groups at their part of the level, and what the two sparse ones may still hide."""
    far = np.zeros(2)
    if part:
        beyond = max(int(level * part * 1000 + 1e-9) - 1, 0)  # draws that may lie beyond, of 999 and the data
        far = np.maximum(DRAWN[998 - beyond], student.ppf(1 - level * part, FREEDOM)) * ERROR
    hidden = beta.ppf(1 - level * (1 - part) / 2, DEPARTING + 1, N_SPARSE - DEPARTING) - DEPARTING / N_SPARSE
    return np.asarray(far + LEVERAGE @ hidden)


@pytest.mark.parametrize("part", [0.5, 0.0])
def test_limits_add_the_noise_of_dense_groups_to_what_sparse_ones_hide(part: float) -> None:
    levels = np.array([0.003, 0.02, 0.05, 0.3, 0.9998])
    np.testing.assert_allclose(reach(part).at(DRAWN, levels), [by_hand(level, part) for level in levels.tolist()])


@pytest.mark.parametrize("part", [0.5, 0.0])
def test_p_is_the_smallest_of_two_hundred_levels_that_clears_the_bound(part: float) -> None:
    least = 1 / ((part or 1.0) * 1000)
    levels = np.geomspace(least, 1.0, 200)
    limits = np.array([by_hand(level, part) for level in levels])
    for distance in (0.0, 0.05, 0.12, 0.2, 0.3, 0.45, 9.0):
        expected = np.where(distance > limits, levels[:, None], 1.0).min(axis=0)
        assert reach(part).p_value(np.full(2, distance), DRAWN) == pytest.approx(expected)
    assert reach(part).p_value(np.full(2, 9.0), DRAWN) == pytest.approx([least, least])
