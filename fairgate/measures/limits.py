"""Intervals of a worst group's value, from resampled sets: how they were found, or why there are none.

The value of most checks is its worst group's, and percentiles of an extreme miss it: `fairgate.statistics.extremes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.measures.cell import Cell, Floats
from fairgate.measures.contract import Drawn, Limits, Measure, MetricRequest, limits_of
from fairgate.statistics import Interval, Unavailable, extreme_interval

WORST = "limits of the worst group"


def bootstrapped(found: Interval | Unavailable, of: str, cell: Cell, drawn: Drawn, alpha: float) -> Limits:
    """An interval from resampled sets; `of` says what it is an interval of."""
    return limits_of(found, cell, drawn, alpha, how=f"{1 - alpha:.0%} bootstrap of {cell.unit}, {of}")


def from_parts(
    find: Callable[[Stacked], Interval | Unavailable],
    r: MetricRequest,
    cell: Cell,
    now: Measure,
    drawn: Drawn,
    alpha: float,
    *,
    of: str = WORST,
) -> Limits:
    """The interval that `find` makes of the stacked parts, where they have one."""
    parts = stacked(r, cell, now, drawn)
    return bootstrapped(parts if isinstance(parts, Unavailable) else find(parts), of, cell, drawn, alpha)


def worst_group(
    r: MetricRequest,
    cell: Cell,
    now: Measure,
    drawn: Drawn,
    alpha: float,
    *,
    trials: NDArray[Any] | None = None,
    degrees: int | None = None,
) -> Limits:
    """Limits of a worst group. `trials` (queries, groups) are the images that a share is of; `degrees` is the number of
    sets that Student's t takes, where groups have images of their own."""

    def find(parts: Stacked) -> Interval | Unavailable:
        return extreme_interval(
            parts.values,
            parts.draws,
            n_sets=parts.sets if degrees is None else degrees,
            which=now.extreme or "max",
            alpha=alpha,
            trials=trials,
            attribute=parts.attribute,
            names=parts.names,
        )

    return from_parts(find, r, cell, now, drawn, alpha)


@dataclass(frozen=True, slots=True)
class Stacked:
    """Parts as `values` (queries, parts) and `draws` (draws, queries, parts), with the grouping and the name of each
    part, and the number of `sets`, of several subjects one for each."""

    values: Floats
    draws: Floats
    attribute: NDArray[np.int64]
    names: list[str]
    sets: Any


def stacked(r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn) -> Stacked | Unavailable:
    """The parts of a measure and of its resamples, which an interval of an extreme is made of."""
    values = np.concatenate([np.stack(queries) for queries in now.parts], axis=1)
    draws = np.concatenate([np.stack(queries, axis=1) for queries in drawn.parts], axis=2)
    attribute = np.repeat(np.arange(len(now.parts)), [len(queries[0]) for queries in now.parts])
    sets: Any = cell.n_sets
    if len(values) > 1:
        if r.words:
            return Unavailable("the words share their sets, so that an average of extremes has none; ask `by: word`")
        subjects = dict.fromkeys(cell.subject.tolist())  # in the order of the queries
        sets = np.array([len(np.unique(cell.set_code[cell.subject == name])) for name in subjects], dtype=np.float64)
    return Stacked(values, draws, attribute, _names_of_parts(now), sets)


def same_attribute(now: Measure) -> Floats:
    """Whether two groups are of one part, (groups, groups)."""
    attribute = np.repeat(np.arange(len(now.blocks)), now.blocks)
    same: Floats = (attribute[:, None] == attribute).astype(np.float64)
    return same


def _names_of_parts(now: Measure) -> list[str]:
    """What each part of the stacked ones is called: its group; of C-ASC, which has a part for either sign, both."""
    blocks = np.split(np.arange(len(now.groups)), np.cumsum(now.blocks)[:-1])
    named = [[now.groups[at] for at in block if now.judged_or_all[at]] for block in blocks]
    spoken = [names for names in named if names]
    return [
        name
        for names, queries in zip(spoken, now.parts, strict=True)
        for name in np.resize(names, len(queries[0])).tolist()
    ]
