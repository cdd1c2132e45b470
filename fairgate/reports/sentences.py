"""The finding of a check, for every report: who, which way, how far, from where to where, and what was allowed.

Each is made of the record's numbers. `reason` is read for an error alone, and for what no field of a record has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import boundless, gap_words, number, share_words, with_interval
from fairgate.records import CheckResult, GroupResult, RunRecord
from fairgate.reports.formatting import (
    compared_with,
    measured_words,
    null_words,
    reference,
    spec_of,
    tie_words,
    unit_of,
    worse_is_higher,
)

_REASON: Final = 300
_ROUND_OFF: Final = 0.0005
_NOT_SETTLED: Final = "; not settled"
_READING: Final = re.compile(r"(with the (?:baseline|anchor)'s [a-z ]{1,60}) \(with its own: ")
"""What was swapped for the baseline's where that is harder on a check: its reason names it, and its numbers are so."""
_WHY: Final = re.compile(
    r"(?:^|; )((?:not|not decided) at the (?:baseline|anchor)'s label temperature.*|no group has another one.*"
    r"|clear by itself, and not after the correction over all checks of the suite|the [a-z ]+ differs? from the .*)",
    re.DOTALL,
)
"""What no field of a record has, of why a check is not decided."""
NAMED: Final = 3
"""Groups that a sentence names, the worst first; tables have all."""


def sentence(check: CheckResult, record: RunRecord) -> str:
    """A check of a run in plain words, foreign text cleaned but not escaped.

    `doctor: dark × female fell 0.310 behind its set-mates; margin 0.040`. "all subjects" is
    left out where no check of the run is about a single subject. Where checks are of several probes, the sentence names
    its own: `doctor (labels): ...`.
    """
    if check.verdict == "error":
        first = clean(check.reason.partition("\n")[0], _REASON).rstrip(".")
        statement = f"{measured_words(check)} could not be computed{f': {first}' if first else ''}"
    else:
        statement = _regression(check, record) if check.rule == "no_worse_than" else _bounded(check)
        if (reading := _READING.search(check.reason)) is not None:
            statement = f"{reading[1]}, {statement}"
        small = too_small(check, record)
        because = small and statement.endswith(_NOT_SETTLED) and _for_small_groups_alone(check)
        statement = f"{statement}: {small}" if because else statement
        why = _WHY.search(check.reason) if check.verdict != "pass" else None
        beyond = "" if why is None else clean(why[1], _REASON)
        more = ("" if because else small, beyond, null_words(check), tie_words(check))
        statement += "".join(f"; {words}" for words in more if words)
    probe = clean(check.probe, 60) if len({other.probe for other in record.checks}) > 1 else ""
    about = "all subjects" if any(other.subject is not None for other in record.checks) else ""
    about = clean(check.about, 80) if check.about is not None else about
    named = f"{about} ({probe})" if about and probe else about or probe
    return f"{named}: {statement}" if named else statement


def compared_with_nothing(checks: Sequence[CheckResult], record: RunRecord) -> tuple[list[CheckResult], str]:
    """The checks without those that have no baseline, and one sentence for these; with a single one, all and none."""
    lacking = [check for check in checks if lacks_baseline(check, record)]
    if len(lacking) < 2:
        return list(checks), ""
    rest = [check for check in checks if check not in lacking]
    return rest, f"{len(lacking)} checks were not compared: there is no baseline"


def lacks_baseline(check: CheckResult, record: RunRecord) -> bool:
    """Whether a check is undecided for want of a baseline alone."""
    facts = (check.rule, check.verdict, check.delta, reference(check))
    return record.baseline is None and facts == ("no_worse_than", "inconclusive", None, "baseline")


def verdict_name(check: CheckResult, record: RunRecord) -> str:
    """The verdict as a table has it: `no baseline yet` where that is all that is missing."""
    return "no baseline yet" if lacks_baseline(check, record) else check.verdict


def by_attribute(check: CheckResult) -> list[tuple[str | None, list[GroupResult]]]:
    """The groups of a check by what they are groups of, in the order of attributes, the worst first in each."""
    only = check.over if check.over and "; " not in check.over else None  # one attribute, or one crossing
    by_attribute_value = groupby(check.groups, key=lambda group: group.attribute or only)
    return [(attribute, worst_first(check, list(groups))) for attribute, groups in by_attribute_value]


def worst_first(check: CheckResult, groups: Sequence[GroupResult]) -> list[GroupResult]:
    """Groups of any attribute, the worst first."""
    return sorted(groups, key=lambda group: harm(check, group), reverse=True)


def harm(check: CheckResult, group: GroupResult) -> float:
    """How bad a group's number is, larger is worse: the change for comparisons, else the value."""
    moved = group.delta is not None and check.rule == "no_worse_than"
    value = group.delta if moved else group.value
    if value is None and group.status == "infinite":
        value = -math.inf  # a group that is not shown at all; JSON does not write it
    if value is None or math.isnan(value):
        return -math.inf
    if not moved and _sized(check):
        return abs(value)
    return value if worse_is_higher(check) else -value


def too_small(check: CheckResult, record: RunRecord) -> str:
    """`too few images to judge other × male (5 of 30)`: what has fewer sets than the suite's `min_sets`, the smallest
    first; nothing where all is large enough."""
    if check.min_sets is None:
        return ""
    unit = unit_of(record)
    if not check.groups:
        few = f"only {share_words(check.n_sets, unit)}, and a verdict takes {check.min_sets:,}"
        return few if check.n_sets < check.min_sets else ""
    small = sorted(check.small_groups, key=lambda group: group.n_sets)
    names = listed(small, lambda group: f"{clean(group.group, 80)} ({group.n_sets:,} of {check.min_sets:,})")
    return f"too few {unit}s to judge {names}" if names else ""


def _for_small_groups_alone(check: CheckResult) -> bool:
    """Whether a comparison is undecided for its small groups alone: one of them settled it, it has no interval, or its
    interval is within the margin."""
    if any(group.group == check.worst_group for group in check.small_groups) or boundless(
        check.delta_lo, check.delta_hi
    ):
        return True
    harmful = {"higher": check.delta_lo, "lower": check.delta_hi, None: None}[check.better]
    return harmful is not None and check.bound is not None and abs(harmful) <= check.bound


def listed(groups: Sequence[GroupResult], say: Callable[[GroupResult], str], most: int = NAMED) -> str:
    """The first few groups in words, and how many more there are."""
    more = len(groups) - most
    shown = [say(group) for group in groups[:most]]
    return ", ".join([*shown, f"and {share_words(more, 'more group')}"] if more > 0 else shown)


def _over(check: CheckResult) -> str:
    """` over race, gender and age`."""
    *several, last = clean(check.over or "", 120).split("; ")
    return f" over {' and '.join(filter(None, (', '.join(several), last)))}" if last else ""


def _bounded(check: CheckResult) -> str:
    """`accuracy is 0.550 [0.420, 0.670] for dark × female, 0.600 for light × male; required at least 0.750`."""
    required = f"required {'at least' if check.rule == 'at_least' else 'at most'} {number(check.bound)}"
    required += " in size" if _sized(check) else ""
    if over := reaching_over(check):
        required += f"; {over}"
    failing, worst = worst_first(check, check.failing_groups), check.worst
    metric = measured_words(check)
    if not failing and check.verdict == "fail" and worst is not None and worst.value == check.value:
        failing = [worst]  # a record from before groups had verdicts of their own
    if failing and _same(check, failing[0]):
        first, *rest = failing
        of_group = check if first.value == check.value else first  # a size has no sign, and its group's number has
        measured = with_interval(number(of_group.value, of_group.status), of_group.lo, of_group.hi)

        def say(group: GroupResult) -> str:
            return f"{number(group.value, group.status)} for {clean(group.group, 80)}"

        others = listed(rest, say, NAMED - 1)
        return f"{metric} is {measured} for {clean(first.group, 80)}{f', {others}' if others else ''}; {required}"
    measured = with_interval(number(check.value, check.status), check.lo, check.hi)
    words = f"{metric}{_over(check)} is {measured}; {required}"
    if failing:  # the value is an average over subjects, whose worst groups differ
        own = listed(failing, lambda group: f"{clean(group.group, 80)} {number(group.value, group.status)}")
        return f"{words}; beyond it on average: {own}"
    if check.verdict == "fail" and worst is not None:
        return f"{words}; farthest off: {clean(worst.group, 80)}"
    return words


def _same(check: CheckResult, group: GroupResult) -> bool:
    """Whether the check's number is the group's, or its size."""
    sized = _sized(check) and None not in (check.value, group.value)
    return abs(group.value or 0.0) == abs(check.value or 0.0) if sized else group.value == check.value


def reaching_over(check: CheckResult) -> str:
    """That the interval of an undecided check, or of its undecided groups, has the bound inside; nothing if not, or if
    groups are too small for a verdict anyway."""
    if check.verdict != "inconclusive" or check.rule == "no_worse_than" or check.small_groups:
        return ""

    def inside(part: CheckResult | GroupResult) -> bool:
        if part.lo is None or part.hi is None or check.bound is None:
            return False
        return part.lo < check.bound < part.hi or (_sized(check) and part.lo < -check.bound < part.hi)

    if inside(check):
        return "the bound is inside the interval"
    names = listed([group for group in check.undecided_groups if inside(group)], lambda group: clean(group.group, 80))
    return f"the bound is inside the interval of {names}" if names else ""


def _regression(check: CheckResult, record: RunRecord) -> str:
    other, worst = reference(check), check.worst
    metric, spec = measured_words(check), spec_of(check)
    relative, size = spec is not None and spec.relative, "size of " if _sized(check) else ""
    delta = check.delta if worst is None or worst.delta is None else worst.delta
    if delta is None:
        lacks = compared_with(check, record) is None
        why = f"there is no {other}" if lacks else f"the {other} does not hold it"
        return f"{metric}{_over(check)} was not compared: {why}"
    named = [group for group in worst_first(check, check.failing_groups) if group.delta is not None]
    if not named and worst is not None and worst.delta is not None:
        named = [worst]
    if relative:
        others = _others(check, record)
        ends = {id(group): _both_ends(check, group, "" if at else others) for at, group in enumerate(named)}
        change = listed(named, lambda group: f"{clean(group.group, 80)} {ends[id(group)]}")
        if not named:
            change = f"the worst group {_shift(delta, others)}"
    elif named:
        change = listed(named, lambda group: f"of {clean(group.group, 80)} {_moved(check, group)}")
        change = f"{size}{metric} {change}{',' if len(named) > 1 else ''} against the {other}"
    else:  # one number of all groups, whose worst may have been another in the baseline
        now = "" if check.worst_group is None else f" of the worst group, now {clean(check.worst_group, 80)},"
        change = f"{size}{metric}{now} {_moved(check, check)} against the {other}"
    theirs = f" (at the {other}'s label temperature)" if check.only_tempered else ""
    return f"{change}; margin {number(check.bound)}{theirs}{_unsettled(check, record, worst)}"


def _others(check: CheckResult, record: RunRecord) -> str:
    """What a gap is to. A group that is too small is not part of the mean, unless all are."""
    if record.dataset.counterfactual:
        return "its set-mates"
    judged = 0 < len(check.small_groups) < len(check.groups)
    return "the mean of the judged groups" if judged else "the mean of all groups"


def _both_ends(check: CheckResult, group: GroupResult, others: str) -> str:
    """A group's gap to the others before and now; the change alone, of a record without both, and also if it is not
    the difference of the two."""
    anchored = reference(check) == "anchor"
    moved = _shift(group.delta or 0.0, others)
    if group.baseline is None or group.value is None:
        return f"{moved}{' since the anchor' if anchored else ''}"
    since = "in the anchor" if anchored else "before"
    if abs(group.value - group.baseline - (group.delta or 0.0)) < _ROUND_OFF:
        return f"{_place(group.baseline, others)} {since} and {_place(group.value)} now"
    compared, apart = _apart(check)
    return f"{moved} {compared} ({_place(group.baseline)} {since} and {_place(group.value)} now {apart})"


def _shift(delta: float, others: str) -> str:
    """`lost 0.310 against its set-mates`."""
    shift = f"{'lost' if delta < 0 else 'gained'} {number(abs(delta))}" if delta else "kept its place"
    return f"{shift} against {others}" if others else shift


def _place(gap: float, others: str = "") -> str:
    """A gap in words; one that three decimals do not show is none."""
    return gap_words(0.0 if abs(gap) < _ROUND_OFF else gap, others)


def _apart(check: CheckResult) -> tuple[str, str]:
    """What a change is of that is not the difference of the two values beside it, and what these are of."""
    spec = spec_of(check)
    if spec is None or not spec.tempered:
        return "on what both runs scored", "over all that each scored"
    own, theirs = "at the model's own label temperature", f"at the {reference(check)}'s label temperature"
    return (own, theirs) if check.only_tempered else (theirs, own)


def _moved(check: CheckResult, part: CheckResult | GroupResult) -> str:
    """`fell by 0.052 (0.852 to 0.800)`; of a number that goes by its size, how far that did."""
    delta, before, now, sized = part.delta or 0.0, part.baseline, part.value, _sized(check)
    ends, turned = "", ""
    if before is not None and now is not None:
        whole = abs(now) - abs(before) if sized else now - before
        ends = f" ({number(before)} to {number(now)})" if before != now else f" ({number(now)} before and now)"
        turned = ", its sign did" if sized and before * now < 0 else ""
        if abs(whole - delta) >= _ROUND_OFF:
            compared, apart = _apart(check)
            ends = f" {compared} ({number(before)} before and {number(now)} now {apart})"
    if delta == 0:
        return f"did not change{turned}{ends}"
    return f"{'fell' if delta < 0 else 'rose'} by {number(abs(delta))}{ends}"


def _sized(check: CheckResult) -> bool:
    """Whether the number is held against its bound by its size, whatever its sign."""
    spec = spec_of(check)
    return spec is not None and spec.group_bound == "size"


def enough_words(check: CheckResult, unit: str = "") -> str:
    """`about 2,645 images per group`: with how many an inconclusive comparison would be settled; of a check without
    groups, in all."""
    per_group = " per group" if any(group.delta is not None for group in check.groups) else ""
    return f"about {share_words(check.sets_needed or 0, unit) if unit else f'{check.sets_needed or 0:,}'}{per_group}"


def _unsettled(check: CheckResult, record: RunRecord, worst: GroupResult | None) -> str:
    """Why a comparison is inconclusive: too few sets, where `sets_needed` is known, and which other groups are."""
    if check.verdict != "inconclusive" or (worst is not None and worst.verdict == "pass"):
        return ""
    small = {id(group) for group in check.small_groups}
    others = [group for group in check.undecided_groups if id(group) not in small and group is not worst]
    also = listed(worst_first(check, others), lambda group: clean(group.group, 80))
    words = (
        f"; too few {unit_of(record)}s to tell ({enough_words(check)} would be enough)"
        if check.sets_needed
        else _NOT_SETTLED
    )
    return f"{words}; undecided too: {also}" if also else words
