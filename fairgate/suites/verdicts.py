"""Verdicts, each with its reason: groups are judged one by one, and a check fails where any of them fails, whatever is
missing elsewhere. A reason is one sentence that a pull request's author can act on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairgate.formulas.statistics import PairedResult
from fairgate.ground.number_format import gap_words, share_words, three_decimals
from fairgate.metrics import Cell, Floats, Measure
from fairgate.records import Verdict, over_views
from fairgate.suites.compare import Assessed
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Suite

Verdicts = tuple[Verdict | None, ...]

_NAMED = 8
"""Groups that a sentence names; the record holds all."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A check's verdict with its reason, every group's own (None: the metric judges no group alone), and the position
    of the group that settled the check; None for a check without groups."""

    verdict: Verdict
    reason: str
    groups: Verdicts = ()
    at: int | None = None


def judge(assessed: Assessed, suite: Suite) -> Judgement:
    """Decide an assessed check: fail where a group with enough sets fails, else inconclusive where a group is too small
    or undecided, else pass."""
    now, wanted, groups = assessed.now, suite.groups.min_sets, _small(assessed, suite)
    if assessed.n_sets < wanted or (now.groups and not now.judged.any()):
        return Judgement("inconclusive", thin_reason(assessed, wanted), groups, _worst(assessed, groups))
    if assessed.planned.check.no_worse_than is None:
        return _absolute(assessed, groups, wanted)
    if assessed.paired is None:
        return Judgement("inconclusive", no_baseline_reason(assessed.planned), groups, _worst(assessed, groups))
    return _regression(assessed, assessed.paired, groups, wanted)


def _small(assessed: Assessed, suite: Suite) -> Verdicts:
    """`inconclusive` for every group that is too small, or is compared with one that is; else None."""
    of_groups = assessed.planned.metric.spec.group_bound != "none"
    enough = assessed.now.judged if of_groups else assessed.now.group_sets >= suite.groups.min_sets
    return tuple(None if fits else "inconclusive" for fits in enough)


def _absolute(assessed: Assessed, small: Verdicts, wanted: int) -> Judgement:
    """The estimate against the bound; with `decide: interval` the whole interval, undecided where there is none."""
    limits, missing = assessed.limits, ""
    verdict: Verdict = "pass" if _within(assessed, assessed.now.value) else "fail"
    if assessed.planned.check.decide == "interval":
        if limits.lo is None or limits.hi is None:
            verdict, missing = "inconclusive", f"; {limits.how}"
        else:
            verdict = _side(assessed, limits.lo, limits.hi)
    groups = small
    if assessed.planned.metric.spec.group_bound != "none":
        groups = tuple(known or _of_group(assessed, at, verdict) for at, known in enumerate(small))
    if verdict == "pass" and "inconclusive" in groups:
        verdict = "inconclusive"
    at = _worst(assessed, groups)
    return Judgement(verdict, absolute_reason(assessed, groups, at, verdict, wanted) + missing, groups, at)


def _of_group(assessed: Assessed, at: int, verdict: Verdict) -> Verdict:
    """A group against the bound. `verdict` is the check's, over all groups that are large enough.

    Intervals of groups are not corrected for the number of groups, as the check's is: where `decide: interval`, no
    group fails unless the check does.
    """
    values, limits = assessed.now.group_values, assessed.limits
    if assessed.planned.check.decide != "interval":
        return "pass" if _within(assessed, values[at]) else "fail"
    if verdict == "pass":
        return "pass"
    if at == int(np.argmax(np.where(assessed.now.judged, assessed.now.group_badness, -np.inf))):
        return verdict
    if limits.group_lo is None or limits.group_hi is None:
        return "inconclusive"
    own = _side(assessed, limits.group_lo[at], limits.group_hi[at])
    return "inconclusive" if own == "fail" != verdict else own


def _within(assessed: Assessed, value: float) -> bool:
    """Whether a value, or of a metric with a sign its size, is on the good side of the bound."""
    bound = assessed.planned.bound
    if assessed.planned.metric.spec.group_bound == "size":
        value = abs(value)
    return value >= bound if assessed.planned.check.at_least is not None else value <= bound


def _side(assessed: Assessed, lo: float, hi: float) -> Verdict:
    """Where a whole interval lies: on the good side of the bound, beyond it, or on both."""
    ends = [lo, hi, 0.0] if lo < 0 < hi else [lo, hi]  # of sizes, the smallest
    sides = {_within(assessed, end) for end in ends}
    return "inconclusive" if len(sides) > 1 else "pass" if sides == {True} else "fail"


def _regression(assessed: Assessed, paired: PairedResult, small: Verdicts, wanted: int) -> Judgement:
    """Clearly worse than the margin after correction: fail. Clearly not: pass. Otherwise the evidence is too thin."""
    groups = small
    if assessed.by_group:
        groups = tuple(known or paired.outcome(at) for at, known in enumerate(small))
        verdict: Verdict = "fail" if "fail" in groups else "inconclusive" if "inconclusive" in groups else "pass"
        at: int | None = _settling(assessed, paired, groups, verdict)
    else:
        verdict = "inconclusive" if paired.overall == "pass" and "inconclusive" in small else paired.overall
        at = _worst(assessed, groups)
    reason = regression_reason(assessed, paired, groups, at, verdict, wanted)
    return Judgement(verdict, reason, groups, at)


def _settling(assessed: Assessed, paired: PairedResult, groups: Verdicts, verdict: Verdict) -> int:
    """The most harmful difference among the groups that have the verdict of the whole and are large enough: a group
    that clearly fell is named before one that only seems to have fallen further."""
    judged = assessed.now.judged
    same = np.array([group == verdict for group in groups]) & judged
    return _most(paired.harmful, same & ((paired.verdict == "fail") | paired.clear_alone), same, judged)


def _worst(assessed: Assessed, groups: Verdicts) -> int | None:
    """The group that is farthest off: among those that fail, else among those that are large enough, else among all."""
    if not assessed.now.groups:
        return None
    return _most(assessed.now.group_badness, np.array([group == "fail" for group in groups]), assessed.now.judged)


def _most(harm: Floats, *among: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Position of the largest number in the first of these choices that is not empty, else in all."""
    known = np.where(np.isnan(harm), -np.inf, harm)
    chosen = next((mask for mask in among if mask.any()), np.ones(len(harm), dtype=bool))
    return int(np.argmax(np.where(chosen, known, -np.inf)))


def thin_reason(assessed: Assessed, wanted: int) -> str:
    """Too few sets to judge."""
    cell, now = assessed.cell, assessed.now
    if assessed.n_sets < wanted or not now.groups:
        lacking = f" {now.evidence or 'with a number'}, of {cell.n_sets:,}" if assessed.n_sets < cell.n_sets else ""
        return f"only {_count(assessed.n_sets, cell)}{lacking}; the suite judges from {wanted} (groups.min_sets)"
    if not _small_positions(now, wanted):
        return "no group has another one to be held against"
    return f"{_too_small(cell, now, wanted)}; the suite judges from {wanted} (groups.min_sets)"


def no_baseline_reason(planned: PlannedCheck) -> str:
    """Nothing to compare with."""
    if planned.against == "anchor":
        return "there is no anchor to compare with; name one in the suite: `anchor: git:TAG`, file:DIR or model:URI"
    return (
        "there is no baseline to compare with; give git:REF, file:DIR or model:URI with --baseline "
        "(pytest: --fairness-baseline)"
    )


def absolute_reason(
    assessed: Assessed, groups: Sequence[Verdict | None], at: int | None, verdict: Verdict, wanted: int
) -> str:
    """Where the estimate is against a bound, with every group that fails; `at` is the worst one."""
    planned, now = assessed.planned, assessed.now
    failing = _positions(groups, "fail", now.group_badness) or ([] if at is None else [at])

    def named(position: int) -> str:
        value = now.group_values[position]
        same = value == now.value or groups[position] is None
        return f" ({now.groups[position]})" if same else f" ({now.groups[position]} {three_decimals(value)})"

    first, rest = failing[:1], failing[1:]
    text = f"{_metric(planned)} is {three_decimals(now.value)}{''.join(map(named, first))}"
    text += _listed(rest, lambda position: f"{three_decimals(now.group_values[position])} ({now.groups[position]})")
    text += f"; wanted {planned.check.rule.replace('_', ' ')} {three_decimals(planned.bound)}"
    text += " in size" if now.value < 0 and planned.metric.spec.group_bound == "size" else ""
    small = bool(_small_positions(now, wanted))
    if verdict == "inconclusive" and planned.check.decide == "interval" and not small:
        text += "; the interval reaches over the bound"
    return f"{text}; {thin_reason(assessed, wanted)}" if small else text


def regression_reason(
    assessed: Assessed,
    paired: PairedResult,
    groups: Sequence[Verdict | None],
    at: int | None,
    verdict: Verdict,
    wanted: int,
) -> str:
    """The change that decided the comparison, next to the margin: of every group that fails, else of the group `at`."""
    planned, now = assessed.planned, assessed.now
    if assessed.by_group and at is not None:
        failing = _positions(groups, "fail", paired.harmful) or [at]
        text = _listed(
            failing, lambda position: f"{now.groups[position]} {_moved(assessed, paired, position)}", start=""
        )
    else:
        moved = _moved(assessed, paired, 0)
        if assessed.before is not None:
            values = f"{_metric(planned)} {{}}, {three_decimals(assessed.before.value)} to {three_decimals(now.value)}"
            moved = values.format(moved.partition(" [")[0]) + _farthest(assessed) + f" [{moved.partition(' [')[2]}"
        text = moved
    if planned.against == "anchor":
        text = f"since the anchor, {text}"
    text = f"{text}; margin {three_decimals(planned.bound)}"
    if verdict == "inconclusive":
        text += _unsettled(assessed, paired, 0 if at is None or not assessed.by_group else at)
    text = f"{text}; {thin_reason(assessed, wanted)}" if _small_positions(now, wanted) else text
    return at_which_temperature(assessed, text, verdict)


def _farthest(assessed: Assessed) -> str:
    """` (male 0.310, female −0.310)`: the groups that depart farthest, of a metric that goes by their size."""
    if assessed.planned.metric.spec.group_bound != "size" or not assessed.now.groups:
        return ""
    size = np.where(assessed.now.judged_or_all, np.abs(assessed.now.group_values), -np.inf)
    far = np.flatnonzero(size >= size.max() - 1e-12).tolist()
    named = _listed(
        far, lambda at: f"{assessed.now.groups[at]} {three_decimals(assessed.now.group_values[at])}", start=""
    )
    return f" ({named})"


def _unsettled(assessed: Assessed, paired: PairedResult, at: int) -> str:
    """Why the comparison is not decided."""
    outcome = paired.outcome(at)
    if outcome == "pass":
        return ""
    needed = paired.sets_to_settle
    per_group = " per group" if assessed.by_group and needed else ""
    many = f"about {needed:,}" if needed else "no number of"
    settles = f"{many} {assessed.cell.unit}{per_group} would settle it"
    if paired.clear_alone[at]:
        return f"; clear by itself, and not after the correction over all checks of the suite: {settles}"
    return f"; the interval reaches over the margin: {settles}"


def _moved(assessed: Assessed, paired: PairedResult, at: int) -> str:
    """`fell by 0.310 [−0.350, −0.270]`; of a gap, both ends:
    `0.048 ahead of its set-mates before and 0.262 behind now, −0.310 [−0.350, −0.270]`."""
    delta, lo, hi = (float(limits[at]) for limits in (paired.delta, paired.lo, paired.hi))
    limits = f"[{three_decimals(lo)}, {three_decimals(hi)}]"
    if assessed.planned.metric.spec.relative and assessed.by_group and assessed.before is not None:
        between = assessed.cell.unit == "images" or assessed.planned.clusters
        others = "the mean of all groups" if between else "its set-mates"
        before, now = (float(side.group_values[at]) for side in (assessed.before, assessed.now))
        return f"{gap_words(before, others)} before and {gap_words(now)} now, {three_decimals(delta)} {limits}"
    moved = "did not move" if delta == 0 else f"{'rose' if delta > 0 else 'fell'} by {three_decimals(abs(delta))}"
    if delta and assessed.planned.metric.spec.group_bound == "size":
        moved += " in size"
    return f"{moved} {limits}"


def _positions(groups: Sequence[Verdict | None], verdict: Verdict, harm: Floats) -> list[int]:
    """Groups with a verdict, the worst first."""
    positions = [at for at, group in enumerate(groups) if group == verdict]
    return sorted(positions, key=lambda at: -harm[at])


def _small_positions(now: Measure, wanted: int) -> list[int]:
    """Groups in too few sets, the smallest first."""
    positions: list[int] = np.flatnonzero(now.group_sets < wanted).tolist()
    return sorted(positions, key=lambda at: int(now.group_sets[at]))


def _too_small(cell: Cell, now: Measure, wanted: int) -> str:
    """`other is in only 5 images, nonbinary in 7`."""

    def held(position: int) -> str:
        return f"in {_count(int(now.group_sets[position]), cell)}"

    first, *rest = _small_positions(now, wanted)
    kind = f" {now.evidence}" if now.evidence else ""
    text = f"{now.groups[first]} is {held(first).replace('in ', 'in only ', 1)}{kind}"
    return text + _listed(rest, lambda position: f"{now.groups[position]} {held(position)}")


def _listed(positions: Sequence[int], say: Callable[[int], str], start: str = ", ") -> str:
    """The first few in words, and how many more there are."""
    more = len(positions) - _NAMED
    shown = [say(position) for position in positions[:_NAMED]]
    shown += [f"and {share_words(more, 'more group')}"] if more > 0 else []
    return start + ", ".join(shown) if shown else ""


def at_which_temperature(assessed: Assessed, reason: str, verdict: Verdict) -> str:
    """The reason of a regression that only one of two label temperatures shows."""
    theirs = f"at the {assessed.planned.against or 'baseline'}'s label temperature"
    if verdict == "pass":
        return reason
    if assessed.only_tempered:
        return f"{theirs}, {reason}"
    if assessed.only_own:
        return f"{reason}; not {theirs}: for a temperature that is changed on purpose, merge a waiver first"
    return reason


def _metric(planned: PlannedCheck) -> str:
    name, counted = planned.metric.spec.sentence_name(planned.check.k), planned.check.settings.counted
    return (name if counted is None else f"{name} of {counted}") + over_views(planned.views)


def _count(number: int, cell: Cell) -> str:
    return share_words(number, cell.unit.removesuffix("s"))
