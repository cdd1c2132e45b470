"""Power to the digit: the formulas of curves, of caution, and of groups in which hardly anything changes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, chi2, kurtosis, norm
from scipy.stats import t as student

from fairgate.formulas.statistics import paired_test, power
from fairgate.ground.randomness import stream


def heavy() -> np.ndarray:
    """Differences (60, 3): heavy tails, of three sizes and kurtoses; the third group in 40 sets."""
    difference = stream(0, "heavy").standard_t(3, (60, 3)) * [0.1, 0.2, 0.4]
    difference[5] = [1.0, 3.0, 4.0]
    difference[40:, 2] = np.nan
    return difference


def test_caution_follows_the_heaviest_tails_of_the_groups() -> None:
    difference = heavy()
    found = power(difference, margin=0.02, rng=stream(0, "power"), odds=0.9)
    moments = max(kurtosis(difference[:n, group], fisher=False) for group, n in enumerate([60, 60, 40]))
    assert moments > 3.5
    for group, n in enumerate([60, 60, 40]):
        freedom = 2 * n / (moments - 1)
        assert found.caution[group] == pytest.approx(np.sqrt(freedom / chi2.ppf(0.1, freedom)))
    flat = power(np.tile([0.1, -0.1], 30), margin=0.02, rng=stream(0, "power"))  # kurtosis 1: taken for 3
    assert flat.caution[0] == pytest.approx(np.sqrt(60 / chi2.ppf(0.2, 60)))
    small = power(difference / 1e3, margin=0.02, rng=stream(0, "power"), odds=0.9)
    assert small.caution == pytest.approx(found.caution)


def test_curves_shrink_by_the_root_of_the_sets_and_students_critical_value() -> None:
    found = power(heavy(), margin=0.02, rng=stream(1, "power"), odds=0.9, alpha=0.1)
    level = 1 - 0.09 / 3
    for sets in (10, 50, 1000):
        shrunk = found.caution * np.sqrt(found.n_sets / sets)
        reach = found.reach * student.ppf(level, sets - 1) / student.ppf(level, found.n_sets - 1)
        expected = 0.02 + shrunk * (reach + norm.ppf(0.9) * found.standard_error)
        assert found.at(sets) == pytest.approx(expected)


def lost_answers(bound: float, n: int, *, alpha: float = 0.05, odds: float = 0.8, groups: int = 1) -> float:
    """The share of lost answers that is seen past the bound, and in eight sets (n - 1 of fewer than nine)."""
    least = min(8, n - 1)
    shown = beta.ppf(odds, least, n - least + 1)
    z = student.ppf(1 - 0.9 * alpha / groups, n - 1) + norm.ppf(odds)
    roots = np.roots([1 + z**2 / n, -(2 * bound + z**2 / n), bound**2])  # (r - bound)^2 = z^2 r (1 - r) / n
    return max(shown, float(roots.real.max()))


@pytest.mark.parametrize(("sets", "margin"), [(8, 0.02), (20, 0.1), (60, 0.25), (400, 0.05)])
def test_groups_in_which_hardly_an_answer_changes_must_lose_enough_of_them(sets: int, margin: float) -> None:
    difference = np.zeros((sets, 2))
    difference[0] = [-0.5, 0.0]
    found = power(difference, margin=margin, rng=stream(2, "answers"), wanted=0.4)
    expected = [0.5 * lost_answers(margin / 0.5, n, groups=2) for n in (sets, 25, 900)]
    assert found.detectable.tolist() == pytest.approx([expected[0]] * 2)
    assert found.at([25, 900])[:, 0].tolist() == pytest.approx(expected[1:])
    assert found.caution[1] == pytest.approx(np.sqrt(sets / chi2.ppf(0.2, sets)))  # as of normal noise
    certain = power(difference, margin=margin, rng=stream(2, "answers"), odds=0.95, alpha=0.2)
    assert certain.detectable[1] == pytest.approx(
        0.5 * lost_answers(margin / 0.5, sets, odds=0.95, alpha=0.2, groups=2)
    )


def test_a_group_is_sparse_under_eight_departures_that_leave_two_sets_alike() -> None:
    def sparse(departing: int, sets: int) -> bool:
        difference = np.where(np.arange(sets) < departing, -0.5 - np.arange(sets) / 100, 0.0)
        found = power(difference, margin=0.1, rng=stream(3, "sparse"))
        largest = 0.5 + (departing - 1) / 100
        expected = largest * lost_answers(0.1 / largest, sets)
        return bool(found.detectable[0] == pytest.approx(expected))

    assert [sparse(departing, 30) for departing in (1, 7, 8)] == [True, True, False]
    assert [sparse(departing, 7) for departing in (4, 5, 6)] == [True, True, False]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_either_harm_looks_as_far_as_the_farther_side(sign: float) -> None:
    difference = sign * stream(4, "skewed").exponential(0.1, (100, 2))
    result = paired_test(difference, np.zeros((100, 2)), margin=0.0, rng=stream(4, "power"), harm="either")
    sides = np.stack([result.hi - result.delta, result.delta - result.lo])
    found = power(difference, margin=0.0, rng=stream(4, "power"), harm="either")
    assert (sign * sides[0] > sign * sides[1]).all()
    assert found.reach == pytest.approx(sides.max(axis=0))
    for harm, side in (("lower", 0), ("higher", 1)):
        one = power(difference, margin=0.0, rng=stream(4, "power"), harm=harm, alpha=0.025)
        assert one.reach == pytest.approx(sides[side])


def test_four_thousand_draws_are_usual() -> None:
    def left(**options: int) -> float:
        rng = stream(5, "power")
        power(heavy(), margin=0.02, rng=rng, **options)
        return rng.random()

    assert left() == left(draws=4000) != left(draws=4001)
