"""How far two boxes agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairgate.errors import MetricError
from fairgate.metrics._checks import FloatArray, finite


def intersection_over_union(boxes: ArrayLike, others: ArrayLike) -> FloatArray:
    """Area of the intersection of two boxes over that of their union, pair by pair: (pairs, 4) twice -> (pairs,).

    A box is left, top, right and bottom in pixels, as in PASCAL VOC (Everingham et al. 2010) and COCO: 1 where two
    boxes are the same, 0 where they share no area. Raises MetricError for numbers not finite, another number of boxes,
    and a box whose right is left of its left.

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
    sides = np.minimum(first[:, 2:], second[:, 2:]) - np.maximum(first[:, :2], second[:, :2])
    shared = np.maximum(sides, 0).prod(axis=1)
    areas = [(one[:, 2:] - one[:, :2]).prod(axis=1) for one in (first, second)]
    union = areas[0] + areas[1] - shared
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
