"""The reason of a verdict, as one sentence that a pull request's author can act on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from fairgate.measures import Cell, Floats, Measure
from fairgate.number_format import three_decimals
from fairgate.records import Verdict
from fairgate.statistics import PairedResult
from fairgate.suites.compare import Assessed
from fairgate.suites.plan import PlannedCheck

_NAMED: Final = 8
"""Groups that a sentence names; the record holds all."""


def thin_reason(cell: Cell, now: Measure, wanted: int) -> str:
    """Too few sets to judge."""
    if cell.n_sets < wanted or not now.groups:
        return f"only {_count(cell.n_sets, cell)}; the suite judges from {wanted} (groups.min_sets)"
    return f"{_small(cell, now, wanted)}; the suite judges from {wanted} (groups.min_sets)"


def no_baseline_reason(planned: PlannedCheck) -> str:
    """Nothing to compare with."""
    if planned.against == "anchor":
        return "there is no anchor to compare with; name one in the suite: `anchor: git:TAG`, file:DIR or model:URI"
    return (
        "there is no baseline to compare with; give git:REF, file:DIR or model:URI with --fairness-baseline "
        "(`fairgate check`: --baseline)"
    )


def absolute_reason(
    one: Assessed, groups: Sequence[Verdict | None], at: int | None, verdict: Verdict, wanted: int
) -> str:
    """Where the estimate is against a bound, with every group that fails; `at` is the worst one."""
    planned, now = one.planned, one.now
    failing = _positions(groups, "fail", now.group_badness) or ([] if at is None else [at])

    def named(position: int) -> str:
        value = now.group_values[position]
        same = value == now.value or groups[position] is None
        return f" ({now.groups[position]})" if same else f" ({now.groups[position]} {three_decimals(value)})"

    first, rest = failing[:1], failing[1:]
    text = f"{_metric(planned)} is {three_decimals(now.value)}{''.join(map(named, first))}"
    text += _listed(rest, lambda position: f"{three_decimals(now.group_values[position])} ({now.groups[position]})")
    text += f"; wanted {planned.check.rule.replace('_', ' ')} {three_decimals(planned.bound)}"
    small = bool(_small_positions(now, wanted))
    if verdict == "inconclusive" and planned.check.decide == "interval" and not small:
        text += "; the interval reaches over the bound"
    return f"{text}; {thin_reason(one.cell, now, wanted)}" if small else text


def regression_reason(
    one: Assessed,
    paired: PairedResult,
    groups: Sequence[Verdict | None],
    at: int | None,
    verdict: Verdict,
    wanted: int,
) -> str:
    """The change that decided the comparison, next to the margin: of every group that fails, else of the group `at`."""
    planned, now = one.planned, one.now
    if one.by_group and at is not None:
        failing = _positions(groups, "fail", paired.harmful) or [at]
        text = _listed(failing, lambda position: f"{now.groups[position]} {_moved(one, paired, position)}", start="")
    else:
        moved = _moved(one, paired, 0)
        if one.before is not None:
            values = f"{_metric(planned)} {{}}, {three_decimals(one.before.value)} to {three_decimals(now.value)}"
            moved = values.format(moved.partition(" [")[0]) + f" [{moved.partition(' [')[2]}"
        text = moved
    if planned.against == "anchor":
        text = f"since the anchor, {text}"
    text = f"{text}; margin {three_decimals(planned.bound)}"
    if verdict == "inconclusive":
        text += _unsettled(one, paired, 0 if at is None or not one.by_group else at)
    text = f"{text}; {thin_reason(one.cell, now, wanted)}" if _small_positions(now, wanted) else text
    return at_which_temperature(one, text, verdict)


def _unsettled(one: Assessed, paired: PairedResult, at: int) -> str:
    """Why the comparison is not decided."""
    outcome = paired.outcome(at)
    if outcome == "pass":
        return ""
    if paired.clear_alone[at]:
        return "; clear by itself, and not after the correction over all checks of the suite"
    per_group = " per group" if one.by_group else ""
    needed = paired.sets_to_settle
    settles = f": about {needed:,} {one.cell.unit}{per_group} would settle it" if needed else ""
    return f"; the interval reaches over the margin{settles}"


def _moved(one: Assessed, paired: PairedResult, at: int) -> str:
    """`fell by 0.310 against its set-mates [−0.350, −0.270]`."""
    delta, lo, hi = (float(limits[at]) for limits in (paired.delta, paired.lo, paired.hi))
    moved = "did not move" if delta == 0 else f"{'rose' if delta > 0 else 'fell'} by {three_decimals(abs(delta))}"
    if one.planned.metric.spec.relative:
        moved = f"{moved} against {'the mean of all groups' if one.cell.unit == 'images' else 'its set-mates'}"
    return f"{moved} [{three_decimals(lo)}, {three_decimals(hi)}]"


def _positions(groups: Sequence[Verdict | None], verdict: Verdict, harm: Floats) -> list[int]:
    """Groups with a verdict, the worst first."""
    found = [at for at, group in enumerate(groups) if group == verdict]
    return sorted(found, key=lambda at: -harm[at])


def _small_positions(now: Measure, wanted: int) -> list[int]:
    """Groups in too few sets, the smallest first."""
    found: list[int] = np.flatnonzero(now.group_sets < wanted).tolist()
    return sorted(found, key=lambda at: int(now.group_sets[at]))


def _small(cell: Cell, now: Measure, wanted: int) -> str:
    """`other is in only 5 images, nonbinary in 7`."""

    def held(position: int) -> str:
        return f"in {_count(int(now.group_sets[position]), cell)}"

    first, *rest = _small_positions(now, wanted)
    text = f"{now.groups[first]} is {held(first).replace('in ', 'in only ', 1)}"
    return text + _listed(rest, lambda position: f"{now.groups[position]} {held(position)}")


def _listed(positions: Sequence[int], say: Callable[[int], str], start: str = ", ") -> str:
    """The first few in words, and how many more there are."""
    more = len(positions) - _NAMED
    said = [say(position) for position in positions[:_NAMED]] + ([f"and {more} more groups"] if more > 0 else [])
    return start + ", ".join(said) if said else ""


def at_which_temperature(one: Assessed, reason: str, verdict: Verdict) -> str:
    """The reason of a regression that only one of two label temperatures shows."""
    theirs = f"at the {one.planned.against or 'baseline'}'s label temperature"
    if verdict == "pass":
        return reason
    if one.only_tempered:
        return f"{theirs}, {reason}"
    if one.only_own:
        return f"{reason}; not {theirs}: for a temperature that is changed on purpose, merge a waiver first"
    return reason


def _metric(planned: PlannedCheck) -> str:
    return planned.metric.spec.sentence_name(planned.check.k)


def _count(number: int, cell: Cell) -> str:
    return f"{number:,} {cell.unit.removesuffix('s') if number == 1 else cell.unit}"
