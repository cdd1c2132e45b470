"""What evidence on groups' means is made of: sums over the sets of every group, and over what is drawn of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.statistics.entries import Entries
from fairgate.formulas.statistics.resampling import FloatArray, Resamples

SPARSE_ANSWERS = 24
"""Right-or-wrong answers are sparse where fewer sets depart: up to here, the exact test sees more than a bootstrap."""

LOOKED_AT = 2 * SPARSE_ANSWERS + 1
"""Numbers of a group that show that it is not sparse: of twice as many as may depart and one more, most would agree."""

ALIKE = 1e-4
"""Of a mean, the spread up to which rounding can put the mean outside the numbers: sums of 10^8 numbers err by less."""

_FIRST = 1000
"""Numbers that are looked at before all are"""


@dataclass(frozen=True, slots=True)
class Moments:
    """Of numbers of `n_sets` sets in groups, (groups,) each: how many, `n`, their mean, and sums of squares and cubes
    of the deviations from it.

    `turned` holds, of right-or-wrong answers, those that are lower, those that are higher, and all; `departing` the
    sets that depart from the commonest number. `by_unit(sets, power)` sums powers of the deviations by what is drawn
    and group, (sets or blocks, groups), and `tally(sets, draws)` gives the resampled sets of every group, (draws,
    groups).
    """

    n_sets: int
    n: NDArray[np.int64]
    mean: FloatArray
    squares: FloatArray
    cubes: FloatArray
    turned: list[tuple[int, int, int]] | None
    departing: NDArray[np.int64]
    by_unit: Callable[[Resamples, int], FloatArray]
    tally: Callable[[Resamples, int], FloatArray]
    samples: Callable[[], list[FloatArray]]
    """Every group's numbers, (sets of the group,) each"""
    apart: Callable[[], bool]
    """Whether no set has numbers of two groups"""


def moments_of(entries: Entries, *, answers: bool) -> Moments:
    """The moments of numbers that may be `answers`, right or wrong."""
    turned = _turned(entries) if answers and are_answers(entries.value) else None
    mean, deviation = _mean_and_deviation(entries)
    square = deviation**2
    return Moments(
        entries.shape[0],
        entries.sets(),
        mean,
        entries.sums(square),
        entries.sums(square * deviation),
        turned,
        _departing(entries) if turned is None else departing_answers(turned),
        lambda sets, power: sets.by_unit(entries, deviation if power == 1 else square),
        lambda sets, draws: sets.tally(entries, draws),
        entries.samples,
        lambda: bool(np.bincount(entries.row).max() <= 1),
    )


def departing_answers(turned: list[tuple[int, int, int]]) -> NDArray[np.int64]:
    """Per group, the answers that depart from the commonest."""
    return np.array([total - max(lost, won, total - lost - won) for lost, won, total in turned])


def _turned(entries: Entries) -> list[tuple[int, int, int]]:
    """Per group, the answers that are lower, those that are higher, and all."""
    other, groups = np.flatnonzero(entries.value), entries.shape[1]
    lower, column = entries.value[other] < 0, entries.column[other]
    lost, won = (np.bincount(column[which], minlength=groups).tolist() for which in (lower, ~lower))
    return list(zip(lost, won, entries.sets().tolist(), strict=True))


def are_answers(difference: FloatArray) -> bool:
    """Whether differences are those of answers, one per set: -1, 0 and 1, and not all the same."""
    for some in (difference[:_FIRST], difference):  # most others are told by the first ones
        if not ((some == 0) | (np.abs(some) == 1)).all():
            return False
    return bool(difference.min() < difference.max())


def _mean_and_deviation(entries: Entries) -> tuple[FloatArray, FloatArray]:
    """Mean of every group over the sets that hold it, (groups,), and each number's deviation, (entries,); exactly the
    value and 0 where all sets agree."""
    n = entries.sets()
    mean = entries.sums(entries.value) / n
    deviation = entries.value - mean[entries.column]
    near = np.flatnonzero(entries.sums(deviation**2) <= n * (ALIKE * mean) ** 2)  # a rounded mean may be outside
    if near.size:
        places = entries.places()
        for group in near:
            sample = entries.value[places[group]]
            mean[group] = np.clip(mean[group], sample.min(), sample.max())
        deviation = entries.value - mean[entries.column]
    return mean, deviation


def _departing(entries: Entries) -> NDArray[np.int64]:
    """Per group, the sets that depart from its commonest number; all of its sets where they are many."""
    departing = entries.sets()
    for group, places in enumerate(entries.places()):
        _, counts = np.unique(entries.value[places[:LOOKED_AT]], return_counts=True)
        if len(places) < LOOKED_AT or counts.max() > SPARSE_ANSWERS:
            _, counts = np.unique(entries.value[places], return_counts=True)
            departing[group] -= counts.max()
    return departing
