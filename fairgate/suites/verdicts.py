"""Verdicts: groups are judged one by one, and a check fails where any of them fails, whatever is missing elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairgate.measures import Floats
from fairgate.records import Verdict
from fairgate.statistics import PairedResult
from fairgate.suites.compare import Assessed
from fairgate.suites.reasons import absolute_reason, no_baseline_reason, regression_reason, thin_reason
from fairgate.suites.schema import Suite

Verdicts = tuple[Verdict | None, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A check's verdict with its reason, every group's own (None: the metric judges no group alone), and the position
    of the group that settled the check; None for a check without groups."""

    verdict: Verdict
    reason: str
    groups: Verdicts = ()
    at: int | None = None


def judge(one: Assessed, suite: Suite) -> Judgement:
    """Decide an assessed check: fail where a group with enough sets fails, else inconclusive where a group is too small
    or undecided, else pass."""
    now, wanted, groups = one.now, suite.groups.min_sets, _small(one, suite)
    if one.cell.n_sets < wanted or (now.groups and not now.judged.any()):
        return Judgement("inconclusive", thin_reason(one.cell, now, wanted), groups, _worst(one, groups))
    if one.planned.check.no_worse_than is None:
        return _absolute(one, groups, wanted)
    if one.paired is None:
        return Judgement("inconclusive", no_baseline_reason(one.planned), groups, _worst(one, groups))
    return _regression(one, one.paired, groups, wanted)


def _small(one: Assessed, suite: Suite) -> Verdicts:
    """`inconclusive` for every group that is too small, or is compared with one that is; else None."""
    of_groups = one.planned.metric.spec.group_bound != "none"
    enough = one.now.judged if of_groups else one.now.group_sets >= suite.groups.min_sets
    return tuple(None if fits else "inconclusive" for fits in enough)


def _absolute(one: Assessed, small: Verdicts, wanted: int) -> Judgement:
    """The estimate against the bound; with `decide: interval` the whole interval, undecided where there is none."""
    limits, missing = one.limits, ""
    verdict: Verdict = "pass" if _within(one, one.now.value) else "fail"
    if one.planned.check.decide == "interval":
        if limits.lo is None or limits.hi is None:
            verdict, missing = "inconclusive", f"; {limits.how}"
        else:
            verdict = _side(one, limits.lo, limits.hi)
    groups = small
    if one.planned.metric.spec.group_bound != "none":
        groups = tuple(known or _of_group(one, at, verdict) for at, known in enumerate(small))
    if verdict == "pass" and "inconclusive" in groups:
        verdict = "inconclusive"
    at = _worst(one, groups)
    return Judgement(verdict, absolute_reason(one, groups, at, verdict, wanted) + missing, groups, at)


def _of_group(one: Assessed, at: int, verdict: Verdict) -> Verdict:
    """A group against the bound. `verdict` is the check's, over all groups that are large enough.

    Intervals of groups are not corrected for the number of groups, as the check's is: where `decide: interval`, no
    group fails unless the check does.
    """
    values, limits = one.now.group_values, one.limits
    if one.planned.check.decide != "interval":
        return "pass" if _within(one, _size(one, values)[at]) else "fail"
    if verdict == "pass":
        return "pass"
    if at == int(np.argmax(np.where(one.now.judged, one.now.group_badness, -np.inf))):
        return verdict
    if limits.group_lo is None or limits.group_hi is None:
        return "inconclusive"
    own = _side(one, _size(one, limits.group_lo)[at], _size(one, limits.group_hi)[at])
    return "inconclusive" if own == "fail" != verdict else own


def _size(one: Assessed, values: Floats) -> Floats:
    """The values that are compared with the bound: of a metric with a sign, absolute values."""
    return np.abs(values) if one.planned.metric.spec.group_bound == "size" else values


def _within(one: Assessed, value: float) -> bool:
    bound = one.planned.bound
    return value >= bound if one.planned.check.at_least is not None else value <= bound


def _side(one: Assessed, lo: float, hi: float) -> Verdict:
    """Where a whole interval lies: on the good side of the bound, beyond it, or on both."""
    sides = {_within(one, lo), _within(one, hi)}
    return "inconclusive" if len(sides) > 1 else "pass" if sides == {True} else "fail"


def _regression(one: Assessed, paired: PairedResult, small: Verdicts, wanted: int) -> Judgement:
    """Clearly worse than the margin after correction: fail. Clearly not: pass. Otherwise the evidence is too thin."""
    groups = small
    if one.by_group:
        groups = tuple(known or paired.outcome(at) for at, known in enumerate(small))
        verdict: Verdict = "fail" if "fail" in groups else "inconclusive" if "inconclusive" in groups else "pass"
        at: int | None = _settling(one, paired, groups, verdict)
    else:
        verdict = "inconclusive" if paired.overall == "pass" and "inconclusive" in small else paired.overall
        at = _worst(one, groups)
    reason = regression_reason(one, paired, groups, at, verdict, wanted)
    return Judgement(verdict, reason, groups, at)


def _settling(one: Assessed, paired: PairedResult, groups: Verdicts, verdict: Verdict) -> int:
    """The most harmful difference among the groups that have the verdict of the whole and are large enough: a group
    that clearly fell is named before one that only seems to have fallen further."""
    judged = one.now.judged
    same = np.array([group == verdict for group in groups]) & judged
    return _most(paired.harmful, same & ((paired.verdict == "fail") | paired.clear_alone), same, judged)


def _worst(one: Assessed, groups: Verdicts) -> int | None:
    """The group that is farthest off: among those that fail, else among those that are large enough, else among all."""
    if not one.now.groups:
        return None
    return _most(one.now.group_badness, np.array([group == "fail" for group in groups]), one.now.judged)


def _most(harm: Floats, *among: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Position of the largest number in the first of these choices that is not empty, else in all."""
    known = np.where(np.isnan(harm), -np.inf, harm)
    chosen = next((mask for mask in among if mask.any()), np.ones(len(harm), dtype=bool))
    return int(np.argmax(np.where(chosen, known, -np.inf)))
