"""Means of a number per image, over all images or of the worst group."""

from __future__ import annotations

import numpy as np

from fairgate.measures.cell import Cell, Counts, Floats
from fairgate.measures.contract import Drawn, Measure


def shares(cell: Cell, right: Floats) -> Measure:
    """How right a model is, from 0 to 1 per image, on average; over groups, the worst group's average."""
    wrong = np.bincount(cell.set_code, 1.0 - right, minlength=cell.n_sets).astype(np.float64)
    if cell.groups:
        return worst_group_mean(cell, right, badness=wrong)
    size = np.bincount(cell.set_code, minlength=cell.n_sets).astype(np.float64)
    total = np.bincount(cell.set_code, right, minlength=cell.n_sets)
    return Measure(
        value=float(right.mean()),
        draw=lambda counts: Drawn((counts @ total) / (counts @ size)),
        badness=wrong,
        paired=(total / size)[:, None],
    )


def worst_group_mean(cell: Cell, values: Floats, badness: Floats) -> Measure:
    """A mean per group of `values` (images,); the value of the check is the worst (lowest) group's.

    `badness` (sets,) ranks the sets, the worst highest.
    """
    sums, counts = cell.per_set(values)
    paired = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    with np.errstate(invalid="ignore"):  # a group without an image has no mean
        group_values = sums.sum(axis=0) / counts.sum(axis=0)

    def draw(resampled: Counts) -> Drawn:
        weight = resampled.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (weight @ sums) / (weight @ counts)
        return Drawn(np.nanmin(means, axis=1), means, ((means,),))

    return Measure(
        value=float(np.nanmin(group_values)),
        draw=draw,
        badness=badness,
        groups=cell.group_names(),
        group_values=group_values,
        group_badness=-group_values,
        group_images=cell.group_images(),
        group_sets=(counts > 0).sum(axis=0),
        paired=paired,
        extreme="min",
        parts=((group_values,),),
        blocks=(len(group_values),),
    )
