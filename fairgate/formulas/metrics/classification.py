"""How well labels are found: F1 (van Rijsbergen 1979) and balanced accuracy (Brodersen et al. 2010), with the
conventions of scikit-learn; and how far two boxes agree.

Those of labels take counts of images by label: `hits` that are of a label and were given it, `given` that were given
it, `actual` that are of it. Counts may be weighted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import FloatArray, finite
from fairgate.ground.errors import MetricError


def f1_by_label(hits: ArrayLike, given: ArrayLike, actual: ArrayLike) -> FloatArray:
    """F1 of every label, 2 hits / (given + actual): (..., labels). 1 is best; NaN for a label that is nowhere.

    The harmonic mean of precision and recall, and 0 where a label is never hit. Raises MetricError for counts of other
    shapes, and for counts below 0 or hits above them.

    >>> f1_by_label([3, 1], [4, 2], [4, 2]).tolist()
    [0.75, 0.5]
    """
    right, claimed, there = _counts(hits, given, actual)
    with np.errstate(invalid="ignore"):
        f1: FloatArray = 2.0 * right / (claimed + there)
    return f1


def macro_f1(hits: ArrayLike, given: ArrayLike, actual: ArrayLike) -> FloatArray:
    """Mean F1 of the labels that are somewhere, given or actual: (...). NaN where none is. Raises as `f1_by_label`.

    >>> float(macro_f1([3, 1, 0], [4, 2, 0], [4, 2, 0]))
    0.625
    """
    return _mean_of_known(f1_by_label(hits, given, actual))


def balanced_accuracy(hits: ArrayLike, actual: ArrayLike) -> FloatArray:
    """Mean recall, hits / actual, of the labels that images have: (...). NaN where there is no image.

    A model that gives every image one label gets 1 / labels, however frequent that label is. Of one label against all
    others, it is the mean of sensitivity and specificity. Raises as `f1_by_label`.

    >>> float(balanced_accuracy([90, 0], [90, 10]))
    0.5
    """
    right, there = _counts(hits, actual)
    with np.errstate(invalid="ignore"):
        return _mean_of_known(right / there)


def _counts(hits: ArrayLike, *totals: ArrayLike) -> tuple[FloatArray, ...]:
    right, *others = (np.asarray(counts, dtype=np.float64) for counts in (hits, *totals))
    if right.ndim == 0 or right.shape[-1] == 0 or any(other.shape != right.shape for other in others):
        shapes = ", ".join(str(counts.shape) for counts in (right, *others))
        raise MetricError(
            f"counts have the shapes {shapes}, where (..., labels) of one shape are needed.",
            where="hits",
            remedy="count hits, given and actual images for the same labels",
        )
    if not all(((right >= 0) & (right <= other)).all() for other in others):
        raise MetricError(
            "a count is below 0 or NaN, or hits are more than the images that they are of.",
            where="hits",
            remedy="count hits among the images that were given a label, and that are of it",
        )
    return right, *others


def _mean_of_known(values: FloatArray) -> FloatArray:
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = np.where(known, values, 0.0).sum(axis=-1) / known.sum(axis=-1)
    return mean


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
    overlap: FloatArray = shared / np.where(union > 0, union, 1.0)  # 0 / 1 for two boxes without an area
    return overlap


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
