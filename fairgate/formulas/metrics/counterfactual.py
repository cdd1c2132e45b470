"""How unequally a model treats the members of one counterfactual set (Lui et al. 2023, diffusion perturbations).

`p_true` is the probability of the true label under a softmax over the label set, at the model's own logit scale;
`scale=100.0` on cosines reproduces the paper's code. Attributes are as perceived in an image, or in its prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import FloatArray, IntArray, codes, every_group, finite
from fairgate.ground.errors import MetricError


def softmax_probability(logits: ArrayLike, true_index: ArrayLike, scale: float | None = None) -> FloatArray:
    """P(true label) per image: logits (images, labels), true_index one column, or one per image -> (images,).

    `scale` multiplies cosines (the paper's code: 100.0); None takes the logits as they are, at the model's own scale.
    Raises MetricError for numbers that are not finite and for a column that does not exist.

    >>> softmax_probability([[0.0, 0.0], [np.log(3.0), 0.0]], 0)
    array([0.5 , 0.75])
    """
    table = finite("logits", logits, ("images", "labels")).astype(np.float64)
    if scale is not None:
        if not (np.isfinite(scale) and scale > 0):
            raise MetricError(
                f"the logit scale is {scale}.", where="scale", remedy="pass the model's positive scale, or None"
            )
        table = table * scale
    images, labels = table.shape
    true = codes(
        "true_index",
        np.broadcast_to(true_index, (images,)) if np.ndim(true_index) == 0 else true_index,
        size=images,
        groups=labels,
        undefined=False,
    )
    table = np.exp(table - table.max(axis=1, keepdims=True))
    probability: FloatArray = table[np.arange(images), true] / table.sum(axis=1)
    return probability


def set_std(p_true: ArrayLike) -> FloatArray:
    """Spread of P(true label) inside each counterfactual set, (sets, members) -> (sets,), in probability units.

    0 means that every member is treated alike. Sample standard deviation (ddof=1), as in
    Lui et al. 2023, eq. for F_M. Raises MetricError for fewer than two members or a NaN.

    >>> set_std([[0.9, 0.5], [0.7, 0.7]])
    array([0.28284271, 0.        ])
    """
    spread: FloatArray = _sets(p_true).std(axis=1, ddof=1)
    return spread


def fairness(p_true: ArrayLike) -> float:
    """1 - median(set_std) over (sets, members): 1 means that at least half of the sets treat every member alike.

    Not rounded (the paper's notebook rounds the median to three places). Incomplete sets are dropped, and counted,
    by the caller. Raises MetricError as `set_std` does.

    >>> round(fairness([[0.9, 0.5], [0.7, 0.7]]), 6)
    0.858579
    """
    return float(fairness_of_spreads(set_std(p_true)))


def fairness_of_spreads(spread: ArrayLike) -> FloatArray:
    """F_M from `set_std` of every set, (sets,) of one model or (sets, models) of several: 1 - median.

    >>> fairness_of_spreads([[0.25, 0.0], [0.5, 0.0], [0.75, 0.5]])
    array([0.5, 1. ])
    """
    fair: FloatArray = 1.0 - np.median(np.asarray(spread), axis=0)
    return fair


def set_deviation(p: ArrayLike) -> FloatArray:
    """Each member's deviation from its own set's mean: (sets, members) -> (sets, members), each row summing to 0.

    What the scene does to the score cancels; what is left is the person. Raises MetricError as `set_std` does.

    >>> set_deviation([[1.0, 0.5], [0.25, 0.25]])
    array([[ 0.25, -0.25],
           [ 0.  ,  0.  ]])
    """
    table = _sets(p)
    deviation: FloatArray = table - table.mean(axis=1, keepdims=True)
    return deviation


@dataclass(frozen=True, slots=True)
class GroupAccuracy:
    """Share of correct images per group, and the number of images in each."""

    accuracy: FloatArray
    """(groups,), 0 to 1."""
    counts: IntArray
    """(groups,), images."""


def accuracy_by_group(correct: ArrayLike, labels: ArrayLike, groups: int) -> GroupAccuracy:
    """Accuracy per group from correct (images,) bool or 0/1 and labels (images,) codes, -1 undefined and left out.

    Raises MetricError for values other than 0 and 1, and for a declared group without an image.

    >>> accuracy_by_group([True, False, True], np.array([0, 0, 1]), 2).accuracy
    array([0.5, 1. ])
    """
    right = finite("correct", correct, ("images",))
    if not np.isin(right, (0.0, 1.0)).all():
        raise MetricError(
            "`correct` holds values other than 0 and 1.",
            where="correct",
            remedy="pass whether each image was right; use group_means for any other value",
        )
    table = group_means(right, labels, groups)
    return GroupAccuracy(accuracy=table.mean, counts=table.counts)


def misclassification_table(
    predicted: ArrayLike, true: ArrayLike, labels: ArrayLike, groups: int, classes: int
) -> IntArray:
    """Who is taken for whom, per group: counts (groups, true class, predicted class); the diagonal is right.

    predicted and true are (images,) class codes, labels (images,) group codes; undefined images (-1) are left out.

    >>> misclassification_table(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), 2, 2).tolist()
    [[[1, 0], [0, 0]], [[0, 1], [0, 0]]]
    """
    size = np.asarray(predicted).size
    was = codes("predicted", predicted, size=size, groups=classes, undefined=False)
    truth = codes("true", true, size=size, groups=classes, undefined=False)
    group = codes("labels", labels, size=size, groups=groups)
    defined = group >= 0
    cell = (group * classes + truth) * classes + was
    return np.bincount(cell[defined], minlength=groups * classes * classes).reshape(groups, classes, classes)


def _sets(p: ArrayLike) -> FloatArray:
    """`p` as finite (sets, members) in float64, with at least two members."""
    table = finite("p_true", p, ("sets", "members")).astype(np.float64)
    if table.shape[1] < 2:
        raise MetricError(
            "a counterfactual set needs at least two members, and these have 1.",
            where="p_true",
            remedy="pass (sets, members) with every member of a set in its row; drop and count incomplete sets first",
        )
    return table


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """Mean per group, and the number of images in each."""

    mean: FloatArray
    """(groups,), in the unit of the values."""
    counts: IntArray
    """(groups,), images."""


def group_means(values: ArrayLike, labels: ArrayLike, groups: int) -> GroupMeans:
    """Mean of values (images,) within each declared group of labels (images,); -1 is undefined and left out.

    Raises MetricError for a declared group without an image.

    >>> group_means([1.0, 3.0, 5.0], np.array([0, 0, 1]), 2).mean
    array([2., 5.])
    """
    value = finite("values", values, ("images",)).astype(np.float64)
    group = codes("labels", labels, size=value.size, groups=groups)
    defined = group >= 0
    counts = np.bincount(group[defined], minlength=groups)
    every_group(counts)
    return GroupMeans(mean=np.bincount(group[defined], value[defined], minlength=groups) / counts, counts=counts)


def by_set_and_group(values: ArrayLike, sets: ArrayLike, labels: ArrayLike, *, n_sets: int, groups: int) -> FloatArray:
    """Mean of values (images,) in each cell of set and group -> (n_sets, groups), NaN where a set lacks the group.

    What paired tests take: the images of one set are one observation, however many share a group. Undefined images
    (-1) are left out.

    >>> by_set_and_group([1.0, 3.0, 5.0], np.array([0, 0, 1]), np.array([0, 0, 1]), n_sets=2, groups=2)
    array([[ 2., nan],
           [nan,  5.]])
    """
    value = finite("values", values, ("images",)).astype(np.float64)
    member_of = codes("sets", sets, size=value.size, groups=n_sets, undefined=False)
    group = codes("labels", labels, size=value.size, groups=groups)
    defined = group >= 0
    cell = (member_of * groups + group)[defined]
    counts = np.bincount(cell, minlength=n_sets * groups)
    sums = np.bincount(cell, value[defined], minlength=n_sets * groups)
    means: FloatArray = np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return means.reshape(n_sets, groups)
