"""Input checks that all metrics share: finite numbers, fitting shapes, codes of declared groups."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.ground.errors import MetricError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]


def floating(name: str, values: ArrayLike, axes: tuple[str, ...]) -> NDArray[np.floating[Any]]:
    """`values` as a floating array with one axis per name and at least one entry; refuses other shapes."""
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if array.ndim != len(axes) or array.size == 0:
        raise MetricError(
            f"{name} has shape {array.shape}, but ({', '.join(axes)}) with at least one entry is needed.",
            where=name,
            remedy=f"pass an array with the axes ({', '.join(axes)})",
        )
    if array.dtype == np.float16:
        array = array.astype(np.float32)  # exact, and ten times as fast to compare: processors do not compare halves
    return array


def finite(name: str, values: ArrayLike, axes: tuple[str, ...]) -> NDArray[np.floating[Any]]:
    """What `floating` returns; refuses NaN and infinity as well, naming the first."""
    array = floating(name, values, axes)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.vecdot(array, array)  # finite only if every entry is, and the fastest thing to ask
    if not np.isfinite(squares).all() and not np.isfinite(array).all():
        wrong = ~np.isfinite(array)
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = ", ".join(f"{axis} {i}" for axis, i in zip(axes, first, strict=True))
        raise MetricError(
            f"{int(wrong.sum())} of {array.size} {name} are not finite (NaN or infinite).",
            where=f"{name}: first at {place}",
            remedy="find out why the model returns no number there; such rows are never ranked or averaged silently",
        )
    return array


def codes(name: str, values: ArrayLike, *, size: int, groups: int | None, undefined: bool = True) -> IntArray:
    """`values` as (size,) integer codes 0..groups-1 (None: any), with -1 for undefined where that is allowed."""
    array = np.asarray(values)
    if array.shape != (size,):
        raise MetricError(
            f"{name} has shape {array.shape}, but there are {size} images.",
            where=name,
            remedy=f"pass one code per image: shape ({size},)",
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise MetricError(
            f"{name} holds {array.dtype} values, not integer codes.",
            where=name,
            remedy="code the groups as 0, 1, ... and undefined as -1",
        )
    lowest = -1 if undefined else 0
    outside = (array < lowest) | (False if groups is None else array >= groups)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        limits = f"under {lowest}" if groups is None else f"outside {lowest}..{groups - 1}"
        remedy = "correct the codes" if groups is None else f"declare more than {groups}, or correct the codes"
        raise MetricError(
            f"{name} holds the code {int(array[first])}, {limits}.",
            where=f"{name}: first at image {first}",
            remedy=remedy + (" (-1 is undefined)" if undefined else ""),
        )
    return array.astype(np.int64, copy=False)


def at_least_two(groups: int) -> None:
    """Refuse a comparison between fewer than two declared groups."""
    if groups < 2:
        raise MetricError(
            f"{groups} group is declared, and a comparison needs at least two.",
            where="groups",
            remedy="declare every group of the attribute, also those that a gallery may lack",
        )


def every_group(counts: IntArray) -> None:
    """Refuse a declared group without an image."""
    absent = np.flatnonzero(counts == 0)
    if absent.size:
        raise MetricError(
            f"{absent.size} of {counts.size} declared groups have no image: codes {absent.tolist()}.",
            where="groups",
            remedy="add images of these groups, or declare only the groups that the dataset records",
        )
