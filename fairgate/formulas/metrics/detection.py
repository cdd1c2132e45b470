"""How far two boxes agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import FloatArray, finite
from fairgate.ground.errors import MetricError


def intersection_over_union(boxes: ArrayLike, others: ArrayLike) -> FloatArray:
    """Area of the intersection of two boxes over that of their union, pair by pair: (pairs, 4) twice -> (pairs,).

    A box is left, top, right and bottom in pixels, and its sides are differences of these, as in COCO (Lin et al. 2014;
    PASCAL VOC adds a pixel): 1 where two boxes with an area are the same, 0 where they share no area; a box without any
    shares none, even with itself. Raises MetricError for numbers not finite, another number of boxes, a box whose right
    is left of its left, and areas too large for a float64.

    >>> intersection_over_union([[0, 0, 2, 2]], [[1, 0, 3, 2]]).round(4).tolist()
    [0.3333]
    """
    first, second = _boxes("boxes", boxes), _boxes("others", others)
    if len(first) != len(second):
        raise MetricError(
            f"boxes holds {len(first)} boxes and others {len(second)}.",
            where="others",
            remedy="pass both in pairs, in the same order",
        )
    with np.errstate(over="ignore", invalid="ignore"):
        sides = np.minimum(first[:, 2:], second[:, 2:]) - np.maximum(first[:, :2], second[:, :2])
        shared = np.maximum(sides, 0).prod(axis=1)
        areas = [(one[:, 2:] - one[:, :2]).prod(axis=1) for one in (first, second)]
        union = areas[0] + areas[1] - shared
    if (lost := ~np.isfinite(union)).any():
        raise MetricError(
            f"{int(lost.sum())} pairs of boxes are too large for their area to be a number.",
            where=f"boxes: first at pair {int(lost.argmax())}",
            remedy="pass pixels of an image",
        )
    found: FloatArray = np.divide(shared, union, out=np.zeros(len(shared)), where=union > 0)
    return found


def _boxes(name: str, values: ArrayLike) -> FloatArray:
    table = finite(name, values, ("pairs", "corners")).astype(np.float64)
    if table.shape[1] != 4:
        raise MetricError(
            f"{name} has {table.shape[1]} numbers a box.", where=name, remedy="pass left, top, right and bottom"
        )
    if (inside_out := (table[:, 2:] < table[:, :2]).any(axis=1)).any():
        raise MetricError(
            f"{int(inside_out.sum())} of {name} end before they begin.",
            where=f"{name}: first at pair {int(inside_out.argmax())}",
            remedy="pass left, top, right and bottom, not a width and a height",
        )
    return table
