"""How far limits of contrasts between groups of unequal evidence reach, and the p-values that follow: step by step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta
from scipy.stats import t as student

from fairgate.statistics._strata import _Reach

ERROR, FREEDOM = np.array([0.1, 0.2]), np.array([30.0, 4.0])
LEVERAGE = np.array([[0.5, 0.1], [0.25, 0.3]])
DEPARTING, N_SPARSE = np.array([2, 0]), np.array([40, 25])
DRAWN = np.sort(np.abs(np.random.default_rng(0).standard_t(5, 999)))
NOBODY = np.array([], dtype=int)


def reach(part: float = 0.5, *, sparse: bool = True) -> _Reach:
    return _Reach(
        error=ERROR,
        freedom=FREEDOM,
        part=part,
        departing=DEPARTING if sparse else NOBODY,
        n_sparse=N_SPARSE if sparse else NOBODY,
        leverage=LEVERAGE if sparse else np.zeros((2, 0)),
    )


def by_hand(level: float, part: float, *, sparse: bool = True) -> np.ndarray:
    """Noise of the dense groups at their part of the level, and what the sparse ones may still hide."""
    far = np.zeros(2)
    if part:
        beyond = int(level * part / 2 * 1000 + 1e-9) - 1  # draws that may lie beyond, of 999 and the data
        far = np.maximum(DRAWN[998 - beyond], student.ppf(1 - level / 2, FREEDOM)) * ERROR
    if sparse:
        seen = DEPARTING / N_SPARSE
        far = far + LEVERAGE @ (beta.ppf(1 - level / 2 / 2, DEPARTING + 1, N_SPARSE - DEPARTING) - seen)
    return far


CASES = [(0.5, True), (1.0, False), (0.0, True)]


@pytest.mark.parametrize(("part", "sparse"), CASES)
def test_limits_add_the_noise_of_dense_groups_to_what_sparse_ones_hide(part: float, sparse: bool) -> None:
    found = reach(part, sparse=sparse).at(DRAWN, np.array([0.02, 0.05, 0.3]))
    expected = [by_hand(level, part, sparse=sparse) for level in (0.02, 0.05, 0.3)]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(("part", "sparse"), CASES)
def test_p_is_the_smallest_of_two_hundred_levels_and_alpha_that_clears_the_bound(part: float, sparse: bool) -> None:
    least = 2 / ((part or 1.0) * 1000)
    levels = np.append(np.geomspace(least, 1.0, 200), 0.0501)
    limits = np.array([by_hand(level, part, sparse=sparse) for level in levels])
    for distance in (0.0, 0.05, 0.12, 0.2, 0.3, 0.45, 9.0):
        clears = distance > limits
        expected = np.where(clears, levels[:, None], 1.0).min(axis=0)
        assert reach(part, sparse=sparse).p_value(np.full(2, distance), DRAWN, 0.0501) == pytest.approx(expected)
    assert reach(part, sparse=sparse).p_value(np.full(2, 9.0), DRAWN, 0.0501) == pytest.approx([least, least])
    exact = by_hand(0.0501, part, sparse=sparse)
    assert (reach(part, sparse=sparse).p_value(exact * (1 + 1e-9), DRAWN, 0.0501) <= 0.0501).all()
    assert (reach(part, sparse=sparse).p_value(exact * (1 - 1e-9), DRAWN, 0.0501) > 0.0501).all()
