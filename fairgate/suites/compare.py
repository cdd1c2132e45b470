"""Compare checks with their baselines in the groups that are large enough, and decide all comparisons as a family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas import statistics
from fairgate.ground.randomness import stream
from fairgate.metrics import Cell, Drawn, Floats, Limits, Measure, Ties
from fairgate.probes import ProbeScores
from fairgate.records import STRICTNESS
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import DecisionRule, Suite


@dataclass(frozen=True, slots=True)
class Assessed:
    """A measured and resampled check with its comparison: the input of its verdict.

    `by_group`: the paired test compared group by group; the check's own numbers are then those of the group that
    settled it, so that baseline, value and change belong together. `only_tempered`: of the comparisons at the model's
    own temperature and at the baseline's, `paired` holds the stricter one, without which the verdict would be milder;
    `answers`, `now` and `limits` are then those at the baseline's. `only_own`: the other way round.
    """

    planned: PlannedCheck
    cell: Cell
    answers: Sequence[ProbeScores]
    now: Measure
    before: Measure | None
    limits: Limits
    paired: statistics.PairedResult | None
    ties: Ties | None
    only_tempered: bool = False
    only_own: bool = False

    @property
    def by_group(self) -> bool:
        """Whether `paired` holds a difference for every group."""
        return self.paired is not None and bool(self.now.groups) and len(self.paired.delta) == len(self.now.groups)

    @property
    def n_sets(self) -> int:
        """The sets that the check's number is made of: of a metric with gaps, those with a number."""
        return _known_sets(self.planned, self.cell, self.now)


@dataclass(frozen=True, slots=True)
class CheckComparison:
    """A check against its baseline. `comparison` holds the groups `large_enough` (groups,) alone, in the family; of
    the others `blank` says only how far they moved. None: no group is large enough. `now` is the candidate's part.
    `further` are comparisons of further groupings, where groups are compared with those of their own alone."""

    now: Measure
    comparison: statistics.PairedComparison | None
    large_enough: NDArray[np.bool_]
    blank: statistics.PairedResult
    further: tuple[statistics.PairedComparison, ...] = ()
    span: float = math.inf
    """The largest size of a difference."""

    @property
    def every(self) -> tuple[statistics.PairedComparison, ...]:
        """All comparisons, whose groups follow each other."""
        return () if self.comparison is None else (self.comparison, *self.further)


def compare(
    suite: Suite,
    planned: PlannedCheck,
    cell: Cell,
    now: Measure,
    before: Measure,
    deltas: Floats | None,
    sets: statistics.Resamples,
    drawn: Floats | None = None,
) -> CheckComparison:
    """Compare the groups in `min_sets` sets or more; `deltas` (draws, groups), or (draws, 1) of the check's value, are
    the resampled differences of what is no mean, `drawn`, in the same shape, the candidate's own resamples."""
    if planned.metric.spec.gaps:
        now, before = _in_both(now, before)
    rule, wanted = suite.decision, max(suite.groups.min_sets, 2)  # one set has no spread
    harm: Literal["lower", "higher"] = "lower" if planned.spec.better == "higher" else "higher"
    design = statistics.Design(planned.bound, rule.alpha, harm)
    known_sets = np.array([min(_known_sets(planned, cell, side) for side in (now, before))])
    if now.group_by_group:
        known_sets = np.where(now.judged & before.judged, np.minimum(now.group_sets, before.group_sets), 0)
    value = now.compared(_once(now))[0]
    moved = value - before.compared(_once(before))[0]
    enough = (known_sets >= wanted) & (cell.n_sets >= wanted)
    if deltas is not None:  # what a resample may lack altogether is too rare to compare
        enough &= ~np.isnan(deltas).any(axis=0) & ~np.isnan(moved)
    blank = statistics.not_judged(design, moved, known_sets, draws=rule.draws)
    if now.images is not None:  # a group alone has none to be held against
        several = [block & (block.sum() > 1) for block in _by_grouping(now, enough)]
        enough = np.concatenate(several)
    if not enough.any():
        return CheckComparison(now, None, np.zeros(known_sets.size, dtype=bool), blank)
    test: dict[str, Any] = {"design": design, "draws": rule.draws}
    further: list[statistics.PairedComparison] = []
    if now.paired is not None and before.paired is not None:
        pair, farthest = _compared_means(planned, now, before, enough)
        test |= {"gap": planned.spec.relative, "farthest": farthest}
        results = statistics.compare_means(*pair, rng=sets, **test)
    elif now.images is not None and before.images is not None:
        blocks = _by_grouping(now, enough)
        results, *further = _between_groups(suite, planned, cell, now.images, before.images, blocks, test)
    else:
        assert deltas is not None
        of_draws: dict[str, Any] = {"n_sets": known_sets[enough], "design": design}
        results = statistics.compare_draws(moved[enough], deltas[:, enough], **of_draws)
        if planned.spec.relative and drawn is not None:
            results = replace(
                results, gap=statistics.compare_draws(value[enough], drawn[:, enough], **of_draws).evidence
            )
    return CheckComparison(now, results, enough, blank, tuple(further), _span(planned))


def _by_grouping(now: Measure, of_groups: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """What is known of all groups, (groups,), cut into groupings."""
    return np.split(of_groups, np.cumsum(now.blocks, dtype=np.int64)[:-1])


def _between_groups(
    suite: Suite,
    planned: PlannedCheck,
    cell: Cell,
    now: Floats,
    before: Floats,
    enough: Sequence[NDArray[np.bool_]],
    test: dict[str, Any],
) -> list[statistics.PairedComparison]:
    """Groups that are large `enough`, (groups,) of every grouping, against the others of theirs. Images are resampled
    within their groups, so that resamples of all images do not fit."""
    comparisons = []
    for at, (codes, own) in enumerate(zip(cell.group_codes, enough, strict=True)):
        if not own.any():
            continue
        place = np.where(own, np.cumsum(own) - 1, -1)
        labels = np.where(codes >= 0, place[codes], -1)
        rng = stream(suite.decision.seed, "images", suite.suite, planned.item, *([str(at)] if at else []))
        groups, units = int(own.sum()), None if cell.unit == "images" else cell.set_code
        comparisons.append(statistics.compare_images(now, before, labels, groups=groups, units=units, rng=rng, **test))
    return comparisons


def _known_sets(planned: PlannedCheck, cell: Cell, now: Measure) -> int:
    """The sets that a measure is made of; groups have counts of their own."""
    if planned.metric.spec.gaps and now.paired is not None:
        return np.unique(_entries(now).row).size
    return cell.n_sets if now.sets is None else now.sets


def numbers_of(planned: PlannedCheck, cell: Cell, measure: Measure, known: list[Floats]) -> Measure:
    """What is reported of a measure: its numbers alone, as it was measured from many numbers an image.

    Checks over several groups rank the same sets: what is `known` already is not stored again.
    """
    badness = measure.badness
    if not callable(badness) and not any(each is badness for each in known):
        alike = (each for each in known if np.array_equal(each[:99], badness[:99]))  # most differ there
        badness = next((each for each in alike if np.array_equal(each, badness)), badness)
        known += [badness] if badness is measure.badness else []
    return replace(measure.numbers_alone(), badness=badness, sets=_known_sets(planned, cell, measure))


def _once(measure: Measure) -> Drawn:
    """The measure's own values, as a single resample's."""
    return Drawn(np.array([measure.value]), measure.group_values[None, :])


def _compared_means(
    planned: PlannedCheck, now: Measure, before: Measure, enough: NDArray[np.bool_]
) -> tuple[Sequence[statistics.Entries | statistics.ImageNumbers], float | None]:
    """What a paired test compares in the groups that are large enough; and of means over views, the largest size that a
    difference can have."""
    own, theirs = now.paired, before.paired
    if planned.views == 1 and isinstance(own, statistics.ImageNumbers) and isinstance(theirs, statistics.ImageNumbers):
        return [own.among(enough), theirs.among(enough)], None
    means = [_entries(side).among(enough) for side in (now, before)]
    now_weight, before_weight = (side.weight for side in means)
    weights = None
    if now_weight is not None and before_weight is not None:
        # By their images, in units of the group's mean: the difference of weighed means is that of the two values.
        images = now_weight + before_weight
        weights = images / (means[0].sums(images) / means[0].sets())[means[0].column]
    weighed = [side if weights is None else replace(side, value=side.value * weights) for side in means]
    span = _span(planned) if weights is None else float(_span(planned) * weights.max())
    return weighed, None if planned.views == 1 else span


def _entries(measure: Measure) -> statistics.Entries:
    """The means of every set in every group, with the images that they are means of as weight."""
    assert measure.paired is not None
    return statistics.listed(measure.paired, measure.weights)


def _span(planned: PlannedCheck) -> float:
    """The largest size that a group's difference can have; a gap is from -1 to 1."""
    return 2.0 if planned.spec.relative else planned.spec.highest - planned.spec.lowest


def _in_both(now: Measure, before: Measure) -> tuple[Measure, Measure]:
    """Two measures without the sets in which either has no number, group by group."""
    if now.paired is None or before.paired is None:
        return now, before
    sides = [_entries(side) for side in (now, before)]
    both = np.intersect1d(sides[0].keys(), sides[1].keys(), assume_unique=True)
    own, theirs = (side.having(np.isin(side.keys(), both, assume_unique=True)) for side in sides)
    sets_left = own.sets() if now.groups else now.group_sets
    return (
        replace(now, paired=own, weights=None, group_sets=sets_left),
        replace(before, paired=theirs, weights=None, group_sets=sets_left),
    )


def decide_family(parts: Sequence[CheckComparison], rule: DecisionRule) -> list[statistics.PairedResult]:
    """Every comparison decided, in all its groups. The suite's `holm` is the step-down max-T."""
    results = iter(statistics.decided([each for part in parts for each in part.every], steps=rule.correction == "holm"))
    return [_joined(part, [next(results).within(part.span) for _ in part.every]) for part in parts]


def _joined(part: CheckComparison, results: Sequence[statistics.PairedResult]) -> statistics.PairedResult:
    """The results of a check's groupings as one, with the groups that are too small."""
    if not results:
        return part.blank
    values: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in results]) for name in statistics.BY_GROUP
    }
    overall: statistics.Outcome = max((each.overall for each in results), key=STRICTNESS.__getitem__)
    return _filled(part, replace(results[0], **values, overall=overall))


def _filled(part: CheckComparison, result: statistics.PairedResult) -> statistics.PairedResult:
    """The comparison with the groups that are too small put back, undecided."""
    if part.large_enough.all():
        return result
    values = {}
    for name in statistics.BY_GROUP:
        values[name] = getattr(part.blank, name).copy()
        values[name][part.large_enough] = getattr(result, name)
    return replace(result, **values, overall="fail" if result.overall == "fail" else "inconclusive")


def stricter(own: statistics.PairedResult, tempered: statistics.PairedResult) -> tuple[statistics.PairedResult, bool]:
    """Of comparisons at the model's own temperature and at the baseline's: each group as the stricter one has it (its
    own where both agree), and whether `own` alone is milder.

    P(true) depends on the temperature, a number in the checkpoint: a lower one shrinks every spread and every gap.
    """
    rank = [np.array([STRICTNESS[result.outcome(at)] for at in range(result.delta.size)]) for result in (own, tempered)]
    counts = rank[1] > rank[0]
    chosen = {name: np.where(counts, getattr(tempered, name), getattr(own, name)) for name in statistics.BY_GROUP}
    chosen["margin_decided"] = np.fmax(own.margin_decided, tempered.margin_decided)  # both have to pass at it
    overall: statistics.Outcome = max(own.overall, tempered.overall, key=STRICTNESS.__getitem__)
    return replace(own, **chosen, overall=overall), STRICTNESS[tempered.overall] > STRICTNESS[own.overall]
