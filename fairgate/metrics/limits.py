"""A worst group's value, and its interval from resampled sets: how it was found, or why there is none.

The value of most checks is its worst group's: the extreme part of every query, over the groups that can be judged.
Percentiles of an extreme miss it: `fairgate.formulas.statistics.extremes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairgate.data import TextColumn
from fairgate.formulas.statistics import (
    Entries,
    ImageNumbers,
    Interval,
    Resamples,
    Unavailable,
    extreme_interval,
    listed,
)
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import (
    Drawn,
    Limits,
    Means,
    Measure,
    Metric,
    MetricRequest,
    Parts,
    Units,
    limits_of,
)
from fairgate.records import Extreme, MetricSpec

WORST = "limits of the worst group"
WORDS_SHARE_SETS = "the words share their sets, so that an average of extremes has none"


def value_of(parts: Parts, extreme: Extreme) -> Floats:
    """The check's number under resamples, (draws,): worst grouping, mean over queries, extreme part.

    A part that a resample does not have (a group without an image) is passed over.
    """
    of = np.nanmax if extreme == "max" else np.nanmin
    means = [np.mean([of(part, axis=1) for part in queries], axis=0) for queries in parts]
    return np.asarray((np.max if extreme == "max" else np.min)(means, axis=0))


def means_of_draws(drawn: Counts, unit: Units, *, sums: Floats, counts: Floats) -> Floats:
    """Means of groups under multiplicities of sets (draws, sets), or of blocks, (draws, groups), from sums and counts,
    both (sets, groups); NaN for a group without an image."""
    weight = drawn.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = (weight @ in_units(sums, unit)) / (weight @ in_units(counts, unit))
    return means


def in_units(table: Any, unit: Units) -> Any:
    """What is drawn of a table (sets, columns), sparse or not: its rows, or their sums in every block."""
    if unit is None:
        return table
    from scipy.sparse import csr_array  # is not needed by most suites

    rows = len(unit)
    return csr_array((np.ones(rows), unit, np.arange(rows + 1)), shape=(rows, int(unit.max()) + 1)).T @ table


def resampled_means(sums: Entries | ImageNumbers, draws: int, sets: Resamples) -> Floats:
    """Means of groups under resamples, (draws, groups), from sums with the number of images as weight; NaN for a group
    without an image."""
    if isinstance(sums, ImageNumbers):
        if (known := sums.moments(sets)) is None:
            return resampled_means(listed(sums), draws, sets)
        now, table, squares = known.mean, known.by_unit(sets, 1), known.squares
        images = known.tally(sets, draws)
    else:
        assert sums.weight is not None
        images = sets.tally(sums, draws, images=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            if sets.unit is None:
                return np.asarray(sets.sums(sums, [sums.value], draws)[0] / images)
            now = sums.sums(sums.value) / sums.sums(sums.weight)
        centred = sums.value - sums.weight * now[sums.column]
        table, squares = sets.by_unit(sums, centred), sums.sums(centred**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(now + sets.drawn([table], draws)[0] * sets.spread(table, squares) / images)


def measure_means(cell: Cell, values: NDArray[Any], badness: Floats | Callable[[], Floats]) -> Measure:
    """A mean per group of `values` (images,), compared set by set; the value of the check is its lowest group's."""
    numbers = cell.numbers(values)
    sums, paired = (numbers, numbers) if numbers is not None else cell.sums(values)

    def under(drawn: Counts, unit: Units) -> Floats:
        entries = listed(sums)
        assert entries.weight is not None
        table = np.zeros((2, *entries.shape))
        table[:, entries.row, entries.column] = entries.value, entries.weight
        return means_of_draws(drawn, unit, sums=table[0], counts=table[1])

    return measure_groups(cell, under, sums.means(), badness, "min", group_sets=sums.sets(), sums=sums, paired=paired)


def measure_groups(
    cell: Cell,
    values: Callable[[Counts, Units], Floats],
    now: Floats,
    badness: Floats | Callable[[], Floats],
    extreme: Extreme,
    *,
    group_sets: NDArray[np.int64],
    group_images: NDArray[np.int64] | None = None,
    blocks: tuple[int, ...] | None = None,
    by_size: bool = False,
    sums: Entries | ImageNumbers | None = None,
    **more: Any,
) -> Measure:
    """A metric with a value `now` (groups,) in every group, of which the worst is the check's; or with one value.

    `values` maps multiplicities of sets, or of blocks, to (draws, groups); of means, `sums` are what they are made of.
    `by_size`: the worst is farthest from 0, either way. `more` are further fields of the measure.
    """

    def measured(value: float, finish: Callable[[Floats], Drawn], **fields: Any) -> Measure:
        def draw(drawn: Counts, unit: Units = None) -> Drawn:
            return finish(values(drawn, unit))

        means = None if sums is None else Means(sums, finish)
        return Measure(value, draw, badness, means=means, in_blocks=draw, **fields, **more)

    if not cell.groups:
        return measured(float(now[0]), lambda drawn: Drawn(drawn[:, 0]))
    worst, sign = (np.fmax.reduce, 1.0) if extreme == "max" else (np.fmin.reduce, -1.0)

    def parts_of_groups(groups: Floats) -> Floats:
        return np.concatenate([groups, -groups], axis=-1) if by_size else groups

    def finish(drawn: Floats) -> Drawn:
        parts = parts_of_groups(drawn)
        return Drawn(worst(parts, axis=1), drawn, ((parts,),))

    return measured(
        float(worst(parts_of_groups(now))),
        finish,
        groups=cell.group_names(),
        group_values=now,
        group_badness=np.abs(now) if by_size else sign * now,
        group_images=cell.group_images() if group_images is None else group_images,
        group_sets=group_sets,
        extreme=extreme,
        parts=((parts_of_groups(now),),),
        blocks=blocks or (len(now),),
    )


def parts_of(parts: Parts, blocks: Sequence[int], keep: NDArray[np.bool_]) -> Parts:
    """The parts of some groups. A part has a column per group, one per group and sign, or, of a joint metric, one."""
    masks = np.split(keep, np.cumsum(blocks)[:-1])
    return tuple(
        tuple(part[..., np.resize(mask, part.shape[-1])] for part in queries)
        for queries, mask in zip(parts, masks, strict=True)
        if mask.any()
    )


def large_enough(
    group_sets: NDArray[np.int64], blocks: Sequence[int], metric: MetricSpec, min_sets: int
) -> NDArray[np.bool_]:
    """Which groups can be judged, (groups,): those in `min_sets` sets; of a joint metric, a whole block or none."""
    enough = group_sets >= min_sets
    if not metric.jointly:
        return enough
    return np.concatenate([np.full(len(block), block.all()) for block in np.split(enough, np.cumsum(blocks)[:-1])])


def over_judged(whole: Measure) -> Measure:
    """The same measure with the judged groups alone in its value, its resamples and its parts."""
    keep, extreme = whole.judged_or_all, whole.extreme
    if keep.all() or extreme is None:
        return whole

    def of_judged(drawn: Drawn) -> Drawn:
        parts = parts_of(drawn.parts, whole.blocks, keep)
        return Drawn(value_of(parts, extreme), drawn.groups, parts)

    parts = parts_of(whole.parts, whole.blocks, keep)
    value = value_of(tuple(tuple(part[None] for part in queries) for queries in parts), extreme)
    return whole.through(of_judged, value=float(value[0]), parts=parts)


def bootstrapped(interval: Interval | Unavailable, of: str, cell: Cell, drawn: Drawn, alpha: float) -> Limits:
    """An interval from resampled sets; `of` says what it is an interval of."""
    return limits_of(interval, cell, drawn, alpha, how=f"{1 - alpha:.0%} bootstrap of {cell.drawn}, {of}")


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
        unknown = ~np.isfinite(parts.values).all(axis=0)
        if unknown.any():
            return Unavailable(f"no image of {parts.names[int(unknown.argmax())]} has a number")
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


class OfWorstGroup(Metric):
    """A metric with limits of its worst group, or, without groups, percentiles."""

    counts_sets: ClassVar[bool] = True
    """Whether Student's t takes the sets of the smallest group, and not all."""

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of the worst group; of a share of answers, binomial ones.

        Of groups at the sample size that the spread of their resamples implies. Without groups percentiles are enough,
        but where all answers agree.
        """
        if now.extreme is None and self.spec.turns and not np.ptp(drawn.value) > 0:
            answered = int((~np.isnan(now.set_badness())).sum())
            shares, how = drawn.value[:, None], f"{1 - alpha:.0%} binomial limits: all {cell.unit} agree"
            interval = extreme_interval([now.value], shares, n_sets=answered, alpha=alpha, trials=[answered])
            return limits_of(interval, cell, drawn, alpha, how=how)
        if now.extreme is None:
            return super().interval(r, cell, now, drawn, alpha)
        if self.spec.turns:
            return worst_group(r, cell, now, drawn, alpha, trials=now.group_sets[None, now.judged_or_all])
        degrees = int(now.group_sets[now.judged_or_all].min()) if self.counts_sets else None
        return worst_group(r, cell, now, drawn, alpha, degrees=degrees)


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
            return Unavailable(f"{WORDS_SHARE_SETS}; ask `by: word`")
        subjects = TextColumn.of(cell.subject).distinct()  # in the order of the queries
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
