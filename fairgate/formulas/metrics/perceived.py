"""Shares of groups among pictures that somebody perceived with errors, and how far shares are from wanted ones.

Rogan and Gladen 1978 ("Estimating prevalence from the results of a screening test") for two groups; the inverse of the
confusion matrix for more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import BoolArray, FloatArray, at_least_two
from fairgate.ground.errors import MetricError


@dataclass(frozen=True, slots=True)
class CorrectedShares:
    """`shares` (..., groups), which add up to 1, and where they were `clipped` (...): the inverse left 0..1."""

    shares: FloatArray
    clipped: BoolArray


def corrected_shares(perceived: ArrayLike, confusion: ArrayLike) -> CorrectedShares:
    """Shares of groups from how often each is perceived, (..., groups), and from the reader's confusion.

    `confusion` (..., groups, groups) counts pictures of a known group (row) by the group that is perceived (column); a
    further column counts those in which none is perceived, so that a reader that overlooks a group does not hide it.
    Rows may be of any size. Of two groups, (q - f) / (s - f), with q the share perceived as the first, s that of its
    own pictures and f that of the other's. A share that falls below 0 is 0, and the others are scaled. Shapes
    broadcast. Rogan and Gladen 1978. Raises MetricError for counts that are negative or not finite, where nothing is
    perceived, for a group without a picture in the confusion, and where the matrix has no inverse.

    >>> corrected_shares([30, 70], [[80, 20], [5, 95]]).shares.round(4)
    array([0.3333, 0.6667])
    >>> corrected_shares([30, 70], [[80, 0, 20], [0, 100, 0]]).shares.round(4)
    array([0.3488, 0.6512])
    """
    seen, known = (np.asarray(table, dtype=np.float64) for table in (perceived, confusion))
    groups = seen.shape[-1] if seen.ndim else 0
    at_least_two(groups)
    if known.ndim < 2 or known.shape[-2] != groups or known.shape[-1] not in (groups, groups + 1):
        raise MetricError(
            f"the confusion has shape {known.shape}, and {groups} groups are perceived.",
            where="confusion",
            remedy="give a row per group and a column per group, with one more for pictures in which none is perceived",
        )
    totals = known.sum(axis=-1, keepdims=True)
    for name, counts, amounts in (("perceived", seen, seen.sum(axis=-1)), ("confusion", known, totals)):
        if not (np.isfinite(amounts).all() and (counts >= 0).all() and (amounts > 0).all()):
            raise MetricError(
                f"{name} holds counts that are negative or no numbers, or a row that counts nothing.",
                where=name,
                remedy="count pictures; every group needs some with a known group, and some have to be perceived",
            )
    rates = (known / totals)[..., :groups]
    solved = _solved(rates, seen / seen.sum(axis=-1, keepdims=True))
    clipped = np.asarray((solved < 0).any(axis=-1))
    shares = np.maximum(solved, 0.0)
    return CorrectedShares(shares / shares.sum(axis=-1, keepdims=True), clipped)


def corrected_change(change: ArrayLike, confusion: ArrayLike) -> FloatArray:
    """Change of a label's share, (...), from that of the share in which a reader perceives it, -1 to 1.

    `confusion` (..., 2, 2) counts pictures that show the label, and pictures that do not (rows), by whether the reader
    perceives it (columns). The change is divided by s - f, the reader's sensitivity less its share of false alarms: it
    is the difference of two shares that are corrected as by Rogan and Gladen 1978, in which false alarms cancel. It is
    cut to -1..1. Shapes broadcast. Raises MetricError for counts that are negative or not finite, for a row that counts
    nothing, and for s <= f.

    >>> corrected_change([0.3, -0.06], [[45, 5], [5, 45]]).round(4)
    array([ 0.375, -0.075])
    """
    moved, known = (np.asarray(table, dtype=np.float64) for table in (change, confusion))
    totals = known.sum(axis=-1)
    if known.shape[-2:] != (2, 2) or not (np.isfinite(totals).all() and (known >= 0).all() and (totals > 0).all()):
        raise MetricError(
            f"the confusion, of shape {known.shape}, is no table of counts for two labels.",
            where="confusion",
            remedy="count pictures with and without the label, by whether the reader perceives it: [[45, 5], [5, 45]]",
        )
    rates = known[..., 0] / totals
    told_apart: FloatArray = rates[..., 0] - rates[..., 1]
    if (told_apart <= 0).any():
        raise MetricError(
            "the reader perceives the label as often in pictures without it.",
            where="confusion",
            remedy="use a reader, or prompts, that tell the two apart",
        )
    return np.clip(moved / told_apart, -1.0, 1.0)


def _solved(rates: FloatArray, seen: FloatArray) -> FloatArray:
    """The x of x @ rates = seen, (..., groups), scaled so that its sum is above 0."""
    try:
        solution = np.linalg.solve(np.swapaxes(rates, -1, -2), seen[..., None])[..., 0]
    except np.linalg.LinAlgError:
        solution = np.full(1, np.nan)
    total = solution.sum(axis=-1, keepdims=True)
    if not np.isfinite(solution).all():  # else a share is above 0, as no rate and nothing seen is negative
        raise MetricError(
            "the reader perceives two groups alike, so that their shares cannot be told apart.",
            where="confusion",
            remedy="use a reader that tells the groups apart, and measure it on pictures of every group",
        )
    scaled: FloatArray = solution / np.where(total > 0, total, 1.0)
    return scaled


def share_distance(shares: ArrayLike, desired: ArrayLike) -> FloatArray:
    """Total variation between shares (..., groups) and wanted shares: half the sum of absolute differences, in 0..1.

    0 means that the shares are the wanted ones; it is the share of pictures that would have to show another group.
    Both are scaled to a sum of 1. Shapes broadcast. Raises MetricError for shares that are negative, not finite, or all
    0.

    >>> share_distance([0.9, 0.1], [1, 1])
    array(0.4)
    """
    shown, wanted = (np.asarray(table, dtype=np.float64) for table in (shares, desired))
    at_least_two(shown.shape[-1] if shown.ndim else 0)
    if shown.shape[-1:] != wanted.shape[-1:] or not all(
        np.isfinite(table.sum()) and (table >= 0).all() and (table.sum(axis=-1) > 0).all() for table in (shown, wanted)
    ):
        raise MetricError(
            f"shares of shape {shown.shape} and {wanted.shape} are negative, not finite, all 0, or of other groups.",
            where="shares",
            remedy="give the share of every group, found and wanted, in the same order",
        )
    difference = shown / shown.sum(axis=-1, keepdims=True) - wanted / wanted.sum(axis=-1, keepdims=True)
    return np.asarray(np.abs(difference).sum(axis=-1) / 2)
