"""Intervals of a worst group's value, from resampled sets: how they were found, or why there are none.

The value of most checks is its worst group's, and percentiles of an extreme miss it: `fairgate.statistics.extremes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.measures.cell import Cell, Floats
from fairgate.measures.contract import Drawn, Limits, Measure, MetricRequest, percentile_of, percentiles
from fairgate.statistics import Interval, Unavailable, extreme_interval

WORST = "limits of the worst group"


def limits(found: Interval | Unavailable, how: str, cell: Cell, drawn: Drawn, alpha: float) -> Limits:
    """An interval of the value with percentiles of every group; `how` it was found."""
    lows, highs = percentiles(drawn.groups, alpha) if drawn.groups is not None else (None, None)
    plain = percentile_of(cell, alpha)
    if isinstance(found, Unavailable):
        reason = found.reason.replace(" sets ", f" {cell.unit} ")
        return Limits(None, None, f"no interval: {reason}", lows, highs, plain)
    return Limits(found.lo, found.hi, how, lows, highs, plain)


def bootstrapped(found: Interval | Unavailable, of: str, cell: Cell, drawn: Drawn, alpha: float) -> Limits:
    """An interval from resampled sets; `of` says what it is an interval of."""
    return limits(found, f"{1 - alpha:.0%} bootstrap of {cell.unit}, {of}", cell, drawn, alpha)


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
    parts = stacked(r, cell, now, drawn)
    if isinstance(parts, Unavailable):
        return bootstrapped(parts, WORST, cell, drawn, alpha)
    found = extreme_interval(
        parts.values,
        parts.draws,
        n_sets=parts.sets if degrees is None else degrees,
        which=now.extreme or "max",
        alpha=alpha,
        trials=trials,
        attribute=parts.attribute,
        names=parts.names,
    )
    return bootstrapped(found, WORST, cell, drawn, alpha)


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
        sets = _sets_of_subjects(cell)
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


def _sets_of_subjects(cell: Cell) -> Floats:
    """Number of sets of every subject, in the order of the cell's queries."""
    names = dict.fromkeys(cell.subject.tolist())
    return np.array([len(np.unique(cell.set_code[cell.subject == name])) for name in names], dtype=np.float64)
