"""What the drawings of an audit show, computed: dot plots of models, forest plots of group effects, strips of skew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairgate.records.comparison import EffectRow, FairnessRow, PairRow, SkewRow, SkewSummary
from fairgate.reports.charts import Box, Scale, Track, percent, scale_for
from fairgate.reports.comparison_findings import conclusion_of, why_of


@dataclass(frozen=True, slots=True)
class Dots:
    """Models on one line, with their intervals: F_M on one scale, accuracy on another."""

    rows: tuple[tuple[FairnessRow, Track, Track], ...]
    fairness: Scale
    accuracy: Scale
    measured: bool


@dataclass(frozen=True, slots=True)
class PairView:
    """A pair of models: change of F_M and of the mean spread, and what it comes to. `differs`: beyond the margin."""

    pair: PairRow
    spread: Track
    said: str
    why: str
    differs: bool


@dataclass(frozen=True, slots=True)
class PairTable:
    """All pairs on one subject, on one scale of the change of spread."""

    subject: str | None
    rows: tuple[PairView, ...]
    scale: Scale
    measured: bool


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One model's effect of one group; `clear` where it holds after correction."""

    effect: EffectRow
    track: Track
    clear: bool


@dataclass(frozen=True, slots=True)
class Forest:
    """Effects of groups against a reference, group by group, every model under each group."""

    subject: str | None
    reference: str
    means: tuple[tuple[str, float | None], ...]
    groups: tuple[tuple[str, tuple[ForestRow, ...]], ...]
    scale: Scale


@dataclass(frozen=True, slots=True)
class SkewStrip:
    """One model's subjects on one line: `dots` in percent, those beyond the fair ranker's 95% point marked."""

    summary: SkewSummary
    dots: tuple[tuple[str, bool], ...]
    box: Box | None
    null: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class SkewFigure:
    """All models' strips for one grouping and one k."""

    over: str
    k: int
    strips: tuple[SkewStrip, ...]
    scale: Scale


def share_scale(shares: Iterable[float | None]) -> Scale:
    """A line for shares. Where all are one number, a stretch below it: never one beyond 1."""
    held = [share for share in shares if share is not None]
    return scale_for([*held, 0.9 * min(held)] if held and min(held) == max(held) else held)


def dots_of(rows: Sequence[FairnessRow]) -> Dots:
    """Models on all subjects, the highest F_M first (the highest accuracy, where F_M is not defined)."""
    ordered = sorted(rows, key=lambda row: (-(row.fairness or 0.0), -(row.accuracy or 0.0)))
    fairness = share_scale(x for row in ordered for x in (row.fairness, row.lo, row.hi))
    accuracy = share_scale(x for row in ordered for x in (row.accuracy, row.accuracy_lo, row.accuracy_hi))
    drawn = tuple(
        (
            row,
            Track(value=fairness.at(row.fairness), lo=fairness.at(row.lo), hi=fairness.at(row.hi)),
            Track(value=accuracy.at(row.accuracy), lo=accuracy.at(row.accuracy_lo), hi=accuracy.at(row.accuracy_hi)),
        )
        for row in ordered
    )
    return Dots(drawn, fairness, accuracy, any(row.fairness is not None for row in rows))


def pairs_of(pairs: Sequence[PairRow], margin: float) -> PairTable:
    """Pairs of one subject; the band is what counts as no difference."""
    scale = scale_for([-margin, margin, *(x for p in pairs for x in (p.spread_delta, p.spread_lo, p.spread_hi))])
    start, end = scale.place(-margin), scale.place(margin)
    rows = []
    for pair in pairs:
        differs = pair.conclusion in ("first_fairer", "second_fairer")
        track = Track(
            zero=scale.at(0.0),
            value=scale.at(pair.spread_delta),
            lo=scale.at(pair.spread_lo),
            hi=scale.at(pair.spread_hi),
            null=(percent(start), percent(end - start), percent(scale.place(0.0))),
            failed=differs,
        )
        rows.append(PairView(pair, track, conclusion_of(pair, margin), why_of(pair), differs))
    measured = any(pair.spread_delta is not None for pair in pairs)
    return PairTable(pairs[0].subject, tuple(rows), scale, measured)


def forests_of(effects: Sequence[EffectRow], alpha: float) -> list[Forest]:
    """One forest per subject of one outcome and grouping: all subjects first, then by the strongest clear effect."""
    by_subject: dict[str | None, list[EffectRow]] = {}
    for row in effects:
        by_subject.setdefault(row.subject, []).append(row)
    scale = scale_for([0.0, *(x for row in effects for x in (row.effect, row.lo, row.hi))])
    forests = [_forest(subject, rows, scale, alpha) for subject, rows in by_subject.items()]
    return sorted(forests, key=lambda forest: (forest.subject is not None, -_strongest(forest)))


def _strongest(forest: Forest) -> float:
    return max((abs(row.effect.effect or 0.0) for _, rows in forest.groups for row in rows if row.clear), default=0.0)


def _forest(subject: str | None, effects: Sequence[EffectRow], scale: Scale, alpha: float) -> Forest:
    groups: dict[str, list[ForestRow]] = {}
    for row in effects:
        clear = row.p_adjusted is not None and row.p_adjusted <= alpha
        track = Track(
            zero=scale.at(0.0),
            value=scale.at(row.effect),
            lo=scale.at(row.lo),
            hi=scale.at(row.hi),
            failed=clear and (row.effect or 0.0) < 0 and row.outcome != "p_positive",  # neither way is better there
        )
        groups.setdefault(row.group, []).append(ForestRow(row, track, clear))
    means = dict.fromkeys((row.model, row.reference_mean) for row in effects)
    named = tuple((group, tuple(rows)) for group, rows in groups.items())
    return Forest(subject, effects[0].reference, tuple(means), named, scale)


def skews_of(summaries: Sequence[SkewSummary], skews: Sequence[SkewRow]) -> list[SkewFigure]:
    """One figure per grouping and k, every model a strip of its subjects."""
    figures = []
    for over, k in dict.fromkeys((row.over, row.k) for row in summaries):
        held = [row for row in skews if (row.over, row.k) == (over, k)]
        mine = [row for row in summaries if (row.over, row.k) == (over, k)]
        scale = scale_for([0.0, *(row.value for row in held), *(row.null_p95 for row in held)])
        strips = tuple(_strip(row, [one for one in held if one.model == row.model], scale) for row in mine)
        figures.append(SkewFigure(over, k, strips, scale))
    return figures


def _strip(summary: SkewSummary, rows: Sequence[SkewRow], scale: Scale) -> SkewStrip:
    start, end = scale.place(summary.null_median), scale.place(summary.null_p95)
    dots = tuple((percent(scale.place(row.value)), row.value > row.null_p95) for row in rows if row.value is not None)
    return SkewStrip(summary, dots, _box(summary, scale), (percent(start), percent(end - start), percent(start)))


def _box(row: SkewSummary, scale: Scale) -> Box | None:
    """The five numbers of the box, where there are subjects enough and all are finite."""
    found = [x for x in (row.lowest, row.lower_quartile, row.median, row.upper_quartile, row.highest) if x is not None]
    if row.subjects < 3 or len(found) < 5 or not all(math.isfinite(x) for x in found):
        return None
    low, lower, median, upper, high = (scale.place(x) for x in found)
    return Box(percent(low), percent(lower), percent(upper - lower), percent(median), percent(high))
