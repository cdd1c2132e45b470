"""Tables of any per-image value over groups, marginal or intersectional alike, always beside their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.errors import MetricError
from fairgate.metrics._checks import FloatArray, IntArray, codes, every_group, finite


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """Mean per group, beside the number of images it rests on; NaN with count 0 where nothing stands for a group."""

    mean: FloatArray
    """(groups,), in the unit of the values."""
    counts: IntArray
    """(groups,), images."""


def group_means(
    values: ArrayLike, labels: ArrayLike, groups: int, *, absent: Literal["error", "nan"] = "error"
) -> GroupMeans:
    """Mean of values (images,) within each declared group of labels (images,); -1 is undefined and left out.

    Raises MetricError for a declared group without an image, unless `absent="nan"`: then NaN stands beside count 0.

    >>> group_means([1.0, 3.0, 5.0], np.array([0, 0, 1]), 2).mean
    array([2., 5.])
    """
    value = finite("values", values, ("images",)).astype(np.float64)
    group = codes("labels", labels, size=value.size, groups=groups)
    defined = group >= 0
    counts = np.bincount(group[defined], minlength=groups)
    if absent == "error":
        every_group(counts)
    return GroupMeans(mean=_ratio(np.bincount(group[defined], value[defined], minlength=groups), counts), counts=counts)


def intersection(attributes: Sequence[ArrayLike], sizes: Sequence[int]) -> IntArray:
    """One code per image for a combination of attributes: (images,) each -> (images,), the last attribute fastest.

    The number of groups is the product of `sizes`. Undefined (-1) in any attribute is undefined in the combination.

    >>> intersection([np.array([0, 1, 1]), np.array([1, 0, -1])], [2, 2]).tolist()
    [1, 2, -1]
    """
    if len(attributes) != len(sizes) or not sizes:
        raise MetricError(
            f"{len(attributes)} attributes came with {len(sizes)} sizes.",
            where="attributes",
            remedy="pass, for each attribute, its codes and the number of its declared groups",
        )
    images = np.asarray(attributes[0]).size
    combined = np.zeros(images, dtype=np.int64)
    undefined = np.zeros(images, dtype=bool)
    for number, (attribute, size) in enumerate(zip(attributes, sizes, strict=True)):
        code = codes(f"attributes[{number}]", attribute, size=images, groups=size)
        undefined |= code < 0
        combined = combined * size + code
    combined[undefined] = -1
    return combined


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
    return _ratio(np.bincount(cell, value[defined], minlength=n_sets * groups), counts).reshape(n_sets, groups)


def _ratio(sums: NDArray[Any], counts: IntArray) -> FloatArray:
    ratio: FloatArray = np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return ratio
