"""How well labels are found: F1 (van Rijsbergen 1979) and balanced accuracy (Brodersen et al. 2010), with the
conventions of scikit-learn.

All take counts of images by label: `hits` that are of a label and were given it, `given` that were given it, `actual`
that are of it. Counts may be weighted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import FloatArray
from fairgate.ground.errors import MetricError


def f1_by_label(hits: ArrayLike, given: ArrayLike, actual: ArrayLike) -> FloatArray:
    """F1 of every label, 2 hits / (given + actual): (..., labels). 1 is best; NaN for a label that is nowhere.

    The harmonic mean of precision and recall, and 0 where a label is never hit. Raises MetricError for counts of other
    shapes, and for counts below 0 or hits above them.

    >>> f1_by_label([3, 1], [4, 2], [4, 2]).tolist()
    [0.75, 0.5]
    """
    found, claimed, there = _counts(hits, given, actual)
    with np.errstate(invalid="ignore"):
        f1: FloatArray = 2.0 * found / (claimed + there)
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
    found, there = _counts(hits, actual)
    with np.errstate(invalid="ignore"):
        return _mean_of_known(found / there)


def _counts(hits: ArrayLike, *totals: ArrayLike) -> tuple[FloatArray, ...]:
    found, *others = (np.asarray(each, dtype=np.float64) for each in (hits, *totals))
    if found.ndim == 0 or found.shape[-1] == 0 or any(other.shape != found.shape for other in others):
        shapes = ", ".join(str(each.shape) for each in (found, *others))
        raise MetricError(
            f"counts have the shapes {shapes}, where (..., labels) of one shape are needed.",
            where="hits",
            remedy="count hits, given and actual images for the same labels",
        )
    if not all(((found >= 0) & (found <= other)).all() for other in others):
        raise MetricError(
            "a count is below 0 or NaN, or hits are more than the images that they are of.",
            where="hits",
            remedy="count hits among the images that were given a label, and that are of it",
        )
    return found, *others


def _mean_of_known(values: FloatArray) -> FloatArray:
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = np.where(known, values, 0.0).sum(axis=-1) / known.sum(axis=-1)
    return mean
