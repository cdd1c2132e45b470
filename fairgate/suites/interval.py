"""How sure a check's number is: limits from resampled sets, and in words how they were found or why there are none.

The value of most checks is its worst group's, and percentiles of an extreme miss it: `fairgate.statistics.extremes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.statistics import (
    Interval,
    Unavailable,
    divergence_interval,
    extreme_interval,
    median_interval,
    skew_interval,
)
from fairgate.suites.cell import Cell, Floats
from fairgate.suites.measure import Counted, Drawn, Measure
from fairgate.suites.plan import PlannedCheck


@dataclass(frozen=True, slots=True)
class Limits:
    """`lo` and `hi` of the value, None where no interval would cover; `how` they were found, or why there are none.

    Every group has limits of its own, `group_lo` and `group_hi` (groups,), found as `group_how` says.
    """

    lo: float | None
    hi: float | None
    how: str
    group_lo: Floats | None = None
    group_hi: Floats | None = None
    group_how: str = ""


def limits_of(planned: PlannedCheck, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
    """Limits at confidence 1 - alpha of a measured and resampled check."""
    plain = f"{1 - alpha:.0%} bootstrap of {cell.unit}, percentile"
    lows, highs = percentiles(drawn.groups, alpha) if drawn.groups is not None else (None, None)
    if planned.check.metric == "fairness":
        found, how = _fairness(now, alpha), f"{1 - alpha:.0%} order statistics of the spreads inside sets"
    elif now.extreme is None:
        lo, hi = percentiles(drawn.value, alpha)
        return Limits(float(lo), float(hi), plain)
    else:
        found, of = _extreme(planned, cell, now, drawn, alpha)
        how = f"{1 - alpha:.0%} bootstrap of {cell.unit}, {of}"
    if isinstance(found, Unavailable):
        reason = found.reason.replace(" sets ", f" {cell.unit} ")
        return Limits(None, None, f"no interval: {reason}", lows, highs, plain)
    return Limits(found.lo, found.hi, how, lows, highs, plain)


def percentiles(draws: Floats, alpha: float) -> tuple[Any, Any]:
    """Percentile interval along the draws. A resample whose statistic is infinite (an absent group) stays infinite."""
    lo, hi = np.nanquantile(draws, [alpha / 2, 1 - alpha / 2], axis=0, method="inverted_cdf")
    return lo, hi


def _fairness(now: Measure, alpha: float) -> Interval | Unavailable:
    """1 less the median of the sets' spreads, whose interval is exact; the bootstrap's percentiles fall short."""
    spread = median_interval(now.badness, alpha=alpha)
    if isinstance(spread, Unavailable):
        return spread
    return replace(spread, estimate=1 - spread.estimate, lo=1 - spread.hi, hi=1 - spread.lo)


def _extreme(
    planned: PlannedCheck, cell: Cell, now: Measure, drawn: Drawn, alpha: float
) -> tuple[Interval | Unavailable, str]:
    """The interval of the worst group, or of a divergence, and in words what it is an interval of."""
    metric, worst, speaking = planned.check.metric, "limits of the worst group", now.speaking
    names = _names_of_parts(now)
    if metric in ("ndkl_at_k", "normalized_entropy_at_k") and now.counted is not None:
        return _divergence(planned, now, now.counted, drawn, alpha), "for galleries of this size"
    values, draws, attribute = _stacked(now, drawn)
    sets: Any = cell.n_sets
    if len(values) > 1:
        if planned.words:
            return Unavailable(
                "the words share their sets, so that an average of extremes has none; ask `by: word`"
            ), ""
        sets = _sets_of_subjects(cell)
    which: Any = now.extreme
    if metric in ("max_skew_at_k", "min_skew_at_k") and now.counted is not None:
        return skew_interval(
            values,
            draws,
            k=planned.check.k or 0,
            images=now.counted.images[:, speaking],
            n_sets=sets,
            desired=_desired(planned, now, now.counted),
            which=which,
            alpha=alpha,
            attribute=attribute,
            names=names,
        ), worst
    if metric == "bias_at_k" and now.counted is not None:
        return _bias(
            values, draws, attribute, _compared(now, now.counted), sets, alpha, names
        ), "limits of the group that is shown more"
    if metric in ("group_gap", "p_true"):
        sets = int(
            now.group_sets[speaking].min()
        )  # Student's degrees of freedom, where groups have images of their own
    trials = now.group_sets[None, speaking] if metric in ("accuracy", "recall_at_k") else None
    return extreme_interval(
        values, draws, n_sets=sets, which=which, alpha=alpha, trials=trials, attribute=attribute, names=names
    ), worst


def _names_of_parts(now: Measure) -> list[str]:
    """What each part of the stacked ones is called: its group; of C-ASC, which has a part for either sign, both."""
    blocks = np.split(np.arange(len(now.groups)), np.cumsum(now.blocks)[:-1])
    named = [[now.groups[at] for at in block if now.speaking[at]] for block in blocks]
    spoken = [names for names in named if names]
    return [
        name
        for names, queries in zip(spoken, now.parts, strict=True)
        for name in np.resize(names, len(queries[0])).tolist()
    ]


def _attribute(now: Measure) -> NDArray[np.int64]:
    """Which part each of all groups belongs to, (groups,)."""
    return np.repeat(np.arange(len(now.blocks)), now.blocks)


def _desired(planned: PlannedCheck, now: Measure, counted: Counted) -> Any:
    """The groups' desired shares; where only some groups are judged, as shares of all images all the same."""
    if now.speaking.all():
        return planned.check.desired
    attribute = _attribute(now)
    weight = counted.images if planned.check.desired == "dataset" else np.ones(counted.images.shape)
    shares = weight / (weight @ (attribute[:, None] == attribute).astype(np.float64))
    return shares[:, now.speaking]


def _compared(now: Measure, counted: Counted) -> Floats:
    """How many images of both compared groups are shown, (queries, groups), of the groups that are judged."""
    attribute = _attribute(now)
    both: Floats = counted.shown @ (attribute[:, None] == attribute).astype(np.float64)
    return both[:, now.speaking]


def _stacked(now: Measure, drawn: Drawn) -> tuple[Floats, Floats, Any]:
    """Parts as (queries, parts) and (draws, queries, parts), and the grouping that each part belongs to (parts,)."""
    values = np.concatenate([np.stack(queries) for queries in now.parts], axis=1)
    draws = np.concatenate([np.stack(queries, axis=1) for queries in drawn.parts], axis=2)
    attribute = np.repeat(np.arange(len(now.parts)), [len(queries[0]) for queries in now.parts])
    return values, draws, attribute


def _sets_of_subjects(cell: Cell) -> Floats:
    """Number of sets of every subject, in the order of the cell's queries."""
    names = dict.fromkeys(cell.subject.tolist())
    return np.array([len(np.unique(cell.set_code[cell.subject == name])) for name in names], dtype=np.float64)


def _divergence(
    planned: PlannedCheck, now: Measure, counted: Counted, drawn: Drawn, alpha: float
) -> Interval | Unavailable:
    """NDKL of every grouping, averaged over queries; entropy as its distance from 1, a divergence from equal shares."""
    entropy = planned.check.metric == "normalized_entropy_at_k"
    means = np.array([np.mean(queries) for queries in now.parts])
    draws = np.stack([np.mean(queries, axis=0)[:, 0] for queries in drawn.parts], axis=1)
    found = divergence_interval(
        1 - means if entropy else means,
        1 - draws if entropy else draws,
        k=planned.check.k or 0,
        shown=counted.shown[:, now.speaking],
        images=counted.images[:, now.speaking],
        alpha=alpha,
    )
    if not entropy:
        return found
    if isinstance(found, Unavailable):
        return Unavailable(found.reason.replace("NDKL", "entropy"))
    return Interval(1 - found.estimate, max(0.0, 1 - found.hi), 1 - found.lo, found.method, found.draws)


def _bias(
    values: Floats, draws: Floats, attribute: Any, both: Floats, sets: Any, alpha: float, names: list[str]
) -> Interval | Unavailable:
    """|Bias@K| from the larger of the two groups' shares of what is shown of both: 2 share - 1."""
    if both.min() == 0:
        return Unavailable("neither group is in the top k")
    share = extreme_interval(
        (1 + values) / 2,
        (1 + draws) / 2,
        n_sets=sets,
        which="max",
        alpha=alpha,
        trials=both,
        attribute=attribute,
        names=names,
    )
    if isinstance(share, Unavailable):
        return share
    estimate, lo, hi = (2 * x - 1 for x in (share.estimate, share.lo, share.hi))
    return Interval(estimate, max(0.0, lo), hi, share.method, share.draws)
