"""Sign flips: an exact test for symmetric differences, and a warning example for skewed ones.

If a paired difference is as likely to be x as -x around the margin, every pattern of signs is equally likely, and the
largest studentised mean under flipped signs has the null's own distribution. Where differences are skewed, they are
not: false alarms then reach several times alpha (docs/calibration.md), and verdicts use the set bootstrap instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairgate.statistics.draws import FloatArray, spans
from fairgate.statistics.paired import Design, Harm, differences

_TIE = 1e-9
"""Flips that give the observed t again, up to rounding, count as reaching it."""


def sign_flip_test(
    difference: ArrayLike, *, rng: np.random.Generator, draws: int = 4000, margin: float = 0.0, harm: Harm = "lower"
) -> FloatArray:
    """Adjusted p-values (groups,), that a group is worse than the margin, by max-T over flipped signs of whole sets.

    difference: (sets,) or (sets, groups), candidate minus baseline, NaN where a set lacks the group. All groups of a
    set flip together, which keeps their dependence. One-sided for `harm` "lower" or "higher"; "either" tests that the
    change differs from 0 and takes no margin. Raises StatisticsError for infinite values, fewer than two sets of a
    group, and a margin out of range.
    """
    design = Design(margin if harm != "either" else 0.0, 0.05, harm)
    values = np.asarray(difference, dtype=np.float64)
    table = design.sign * differences(values, np.where(np.isnan(values), np.nan, 0.0)) + design.margin
    n = (~np.isnan(table)).sum(axis=0)
    table = np.nan_to_num(table, nan=0.0)
    squares = (table**2).sum(axis=0)
    observed = _t(-table.sum(axis=0), squares, n)
    largest = np.empty(draws)
    for rows in spans(len(table), draws):
        length = -(-len(table) // 8)
        noise = np.frombuffer(rng.bytes((rows.stop - rows.start) * length), dtype=np.uint8).reshape(-1, length)
        signs = np.unpackbits(noise, axis=1, count=len(table)) * 2.0 - 1.0
        t = _t(signs @ table, squares, n)
        largest[rows] = (np.abs(t) if harm == "either" else t).max(axis=1)
    reached = np.abs(observed) if harm == "either" else observed
    beyond = draws - np.searchsorted(np.sort(largest), reached - _TIE * (1 + np.abs(reached)), side="left")
    p: FloatArray = (1 + beyond) / (draws + 1)
    return p


def _t(total: FloatArray, squares: FloatArray, n: ArrayLike) -> FloatArray:
    """Student's t of a sum: flips leave the sum of squares as it is. 0 for all zeros, finite where all agree."""
    size = np.asarray(n, dtype=np.float64)
    aligned = np.divide(total, np.sqrt(squares * size), out=np.zeros_like(total), where=squares > 0)
    aligned = np.clip(aligned, _TIE - 1, 1 - _TIE)
    t: FloatArray = aligned * np.sqrt((size - 1) / (1 - aligned**2))
    return t
