"""Sentences that all reports share: a check with every group that fails or is too small to judge; waivers, changes of
the gate's definition, baselines, warnings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from fairgate.ground.errors import clean
from fairgate.ground.number_format import boundless, gap_words, number, with_interval
from fairgate.records import CheckResult, Decider, DefinitionChange, GroupResult, RunRecord, Verdict
from fairgate.reports.formatting import (
    COMMIT,
    at_most,
    compared_with,
    measured_words,
    no_interval_words,
    null_words,
    reading_order,
    reference,
    share_words,
    spec_of,
    tie_words,
    unit_of,
    worse_is_higher,
)

_MOST_WAIVERS: Final = 5
_WOULD: Final[dict[Verdict, str]] = {
    "pass": "would pass",
    "fail": "would fail",
    "inconclusive": "would be inconclusive",
    "error": "could not be computed",
}
_REASON: Final = 300

DECIDERS: Final[dict[Decider, str]] = {
    "merge base": "the merge base",
    "base tip": "the base branch",
    "default branch": "the default branch",
    "this change": "this change",
}
"""Whose definition of the gate it is, in words."""
_NOTICE: Final = 600
_NOT_SETTLED: Final = "; not settled"
_READING: Final = re.compile(r"(with the (?:baseline|anchor)'s [a-z ]{1,60}) \(with its own: ")
"""What was swapped for the baseline's where that is harder on a check: its reason names it, and its numbers are so."""
NAMED: Final = 8
"""Groups that a sentence names, the worst first; tables have all."""


def sentence(check: CheckResult, record: RunRecord) -> str:
    """A check of a run in plain words, foreign text cleaned but not escaped.

    `doctor: dark × female fell 0.310 behind its set-mates; margin 0.040`. "all subjects" is
    left out where no check of the run is about a single subject. Where checks are of several probes, the sentence names
    its own: `doctor (labels): ...`.
    """
    if check.verdict == "error":
        statement = f"{measured_words(check)} could not be computed"
    else:
        statement = _regression(check, record) if check.rule == "no_worse_than" else _bounded(check)
        if (reading := _READING.search(check.reason)) is not None:
            statement = f"{reading[1]}, {statement}"
        small = too_small(check, record)
        because = small and statement.endswith(_NOT_SETTLED) and _for_small_groups_alone(check)
        statement = f"{statement}: {small}" if because else statement
        more = ("" if because else small, null_words(check), tie_words(check))
        statement += "".join(f"; {words}" for words in more if words)
    probe = clean(check.probe, 60) if len({other.probe for other in record.checks}) > 1 else ""
    about = "all subjects" if any(other.subject is not None for other in record.checks) else ""
    about = clean(check.about, 80) if check.about is not None else about
    named = f"{about} ({probe})" if about and probe else about or probe
    return f"{named}: {statement}" if named else statement


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
    if not moved and (metric := spec_of(check)) is not None and metric.group_bound == "size":
        return abs(value)
    return value if worse_is_higher(check) else -value


def too_small(check: CheckResult, record: RunRecord) -> str:
    """`too few images to judge other × male (5 of 30)`: what has fewer sets than the suite's `min_sets`, the smallest
    first; nothing where all is large enough."""
    if check.min_sets is None:
        return ""
    unit = f"{unit_of(record)}s"
    if not check.groups:
        return f"only {check.n_sets:,} {unit}, judged from {check.min_sets:,}" if check.n_sets < check.min_sets else ""
    small = sorted(check.small_groups, key=lambda group: group.n_sets)
    names = listed(small, lambda group: f"{clean(group.group, 80)} ({group.n_sets:,} of {check.min_sets:,})")
    return f"too few {unit} to judge {names}" if names else ""


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
    measured = with_interval(number(check.value, check.status), check.lo, check.hi)
    required = f"required {'at least' if check.rule == 'at_least' else 'at most'} {number(check.bound)}"
    failing, worst = worst_first(check, check.failing_groups), check.worst
    metric = measured_words(check)
    if not failing and check.verdict == "fail" and worst is not None and worst.value == check.value:
        failing = [worst]  # a record from before groups had verdicts of their own
    if failing and failing[0].value == check.value:
        first, *rest = failing

        def say(group: GroupResult) -> str:
            return f"{number(group.value, group.status)} for {clean(group.group, 80)}"

        others = listed(rest, say, NAMED - 1)
        return f"{metric} is {measured} for {clean(first.group, 80)}{f', {others}' if others else ''}; {required}"
    words = f"{metric}{_over(check)} is {measured}; {required}"
    if failing:  # the value is an average over subjects, whose worst groups differ
        own = listed(failing, lambda group: f"{clean(group.group, 80)} {number(group.value, group.status)}")
        return f"{words}; beyond it on average: {own}"
    if check.verdict == "fail" and worst is not None:
        return f"{words}; farthest off: {clean(worst.group, 80)}"
    return words


def _regression(check: CheckResult, record: RunRecord) -> str:
    other, worst = reference(check), check.worst
    metric, spec = measured_words(check), spec_of(check)
    relative = spec is not None and spec.relative
    delta = check.delta if worst is None or worst.delta is None else worst.delta
    if delta is None:
        lacks = compared_with(check, record) is None
        why = f"there is no {other}" if lacks else f"the {other} does not hold it"
        return f"{metric}{_over(check)} was not compared: {why}"
    named = [group for group in worst_first(check, check.failing_groups) if group.delta is not None]
    if not named and worst is not None and worst.delta is not None:
        named = [worst]
    if relative:
        others = "the mean of all groups" if not record.dataset.counterfactual else "its set-mates"
        ends = {id(group): _both_ends(group, "" if at else others, other) for at, group in enumerate(named)}
        groups = listed(named, lambda group: f"{clean(group.group, 80)} {ends[id(group)]}")
        change = groups or f"the worst group {_stood(delta, others, other)}"
    elif named:
        change = f"{metric} {listed(named, lambda group: f'of {clean(group.group, 80)} {_moved(group.delta or 0.0)}')}"
        change += f" against the {other}"
    else:  # one number of all groups, whose worst may have been another in the baseline
        now = "" if check.worst_group is None else f" of the worst group, now {clean(check.worst_group, 80)},"
        change = f"{metric}{now} {_moved(delta)} against the {other}"
    theirs = f"at the {other}'s label temperature, " if check.only_tempered else ""
    return f"{theirs}{change}; margin {number(check.bound)}{_unsettled(check, record, worst)}"


def _both_ends(group: GroupResult, others: str, other: str) -> str:
    """A group's gap to the others before and now; the change alone, of a record without both."""
    if group.baseline is None or group.value is None:
        return _stood(group.delta or 0.0, others, other)
    before = f"{gap_words(group.baseline, others)} {'in the anchor' if other == 'anchor' else 'before'}"
    return f"{before} and {gap_words(group.value)} now"


def _moved(delta: float) -> str:
    return "did not change" if delta == 0 else f"{'fell' if delta < 0 else 'rose'} by {number(abs(delta))}"


def _stood(delta: float, others: str, other: str) -> str:
    moved = f"fell {number(-delta)} behind" if delta < 0 else f"moved {number(delta)} ahead of"
    return f"{moved} {others}{' against the anchor' if other == 'anchor' else ''}"


def _unsettled(check: CheckResult, record: RunRecord, worst: GroupResult | None) -> str:
    """Why a comparison is inconclusive: too few sets, where `sets_needed` is known, and which other groups are."""
    if check.verdict != "inconclusive" or (worst is not None and worst.verdict == "pass"):
        return ""
    small = {id(group) for group in check.small_groups}
    others = [group for group in check.undecided_groups if id(group) not in small and group is not worst]
    also = listed(worst_first(check, others), lambda group: clean(group.group, 80))
    enough = f"about {check.sets_needed or 0:,}{' per group' if any(g.delta is not None for g in check.groups) else ''}"
    words = f"; too few {unit_of(record)}s to tell ({enough} would)" if check.sets_needed else _NOT_SETTLED
    return f"{words}, nor {also}" if also else words


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about the run, cleaned but not escaped. A warning is what a reader must not overlook."""

    level: Literal["warning", "note"]
    text: str


def notices(record: RunRecord, most: int) -> list[str]:
    """What the change alters besides the weights, cleaned but not escaped; of more than `most`, a last line counts the
    rest."""
    lines = [clean(text, _NOTICE) for text in record.notices]
    return at_most(lines, most, "and {} more to review, in results.json")


def approvals_needed(record: RunRecord, most: int) -> list[str]:
    """What the default branch has to approve before the gate opens, cleaned but not escaped: each change with its kind
    and the digests that an approval binds; of more than `most`, a last line counts the rest."""
    lines = [
        f"{approval.kind}: {clean(approval.what, _NOTICE)} ({clean(approval.before[:12])} → {clean(approval.now[:12])})"
        for approval in record.needs_approval
    ]
    return at_most(lines, most, "and {} more to approve, in results.json")


def approval_command(record: RunRecord, report: str = "REPORT") -> str | None:
    """The command that writes the approvals that a run needs, from its `report` folder; None if it needs none."""
    if not record.needs_approval:
        return None
    return f"fairgate approve {clean(record.suite, 80)} --from {report} --reason TEXT"


def remarks(record: RunRecord) -> list[Remark]:
    """Remarks on the whole run, warnings first; `definition_words` has the changes of the gate's definition."""
    late = [check for check in record.checks if check.verdict != "pass" and check.waiver and check.waiver.expired]
    lines = [f"{clean(check.item, 120)}: {excuse_words(check)}" for check in reading_order(late)]
    lines = at_most(lines, _MOST_WAIVERS, "and {} more expired waivers")
    noted = [Remark("warning", text) for text in lines]
    noted += [Remark("warning", clean(text, _REASON)) for text in record.warnings]
    for name, info in (("baseline", record.baseline), ("anchor", record.anchor)):
        if info is not None and info.rescored:
            noted.append(Remark("note", f"the {name} was scored again in this run: {clean(info.rescored, _REASON)}"))
        if info is not None and info.unchanged:
            noted.append(Remark("note", f"the candidate is the {name}'s checkpoint: the model did not change"))
    if record.baseline_reason is not None:
        noted.append(Remark("note", f"this record became a baseline: {clean(record.baseline_reason, _REASON)}"))
    return sorted(noted, key=lambda remark: remark.level, reverse=True)


def definition_words(record: RunRecord) -> str | None:
    """`gate definition changed: 2 changes since the merge base 0123456789 (git:main)`; None where nothing changed."""
    definition = record.definition
    if definition is None or (definition.suite_digest is not None and not definition.changes):
        return None
    base = f"the merge base {clean(definition.commit[:COMMIT])} ({clean(definition.source, 80)})"
    if definition.suite_digest is None:
        unread = any(change.what == "the suite" and change.before for change in definition.changes)
        lacks = "has a suite that cannot be read" if unread else "has no such suite"
        who = "this change and a newer base say" if definition.others else "only this change says"
        return f"gate definition is new: {base} {lacks}, so that {who} what is checked"
    return f"gate definition changed: {share_words(len(definition.changes), 'change')} since {base}"


def change_cells(change: DefinitionChange, limit: int) -> tuple[str, str, str]:
    """What changed, before and now, each cut at `limit` characters."""
    before, now = ("not there" if text is None else clean(text, limit) for text in (change.before, change.now))
    return clean(change.what, limit), before, now


def excuse_words(check: CheckResult, record: RunRecord | None = None) -> str:
    """`waived until 2027-03-01: reason`, or that a check is watched, with its sentence if its `record` is given; of a
    waiver that waives nothing, why; nothing if none is needed."""
    waiver = check.waiver
    if check.watched:
        return "watched, and decides nothing" + ("" if record is None else f": {sentence(check, record)}")
    if waiver is None or check.verdict == "pass":
        return ""
    until, reason = clean(waiver.until, 24), clean(waiver.reason, _REASON)
    if check.waived:
        return f"waived until {until}: {reason}"
    if waiver.expired:
        return f"NOT waived: the waiver expired, its last day was {until}: {reason}"
    return f"not waived, since it could not be computed (a waiver is valid until {until}): {reason}"


def decider_words(check: CheckResult) -> str:
    """`decided by the merge base's bound 0.900; this change says 0.950`, where the two define the check otherwise."""
    if check.decided_by is None:
        return ""
    other, owner = other_decider(check), f"{DECIDERS[check.decided_by]}'s"
    if check.judged_on is not None:
        here = "there is no such check" if check.other_verdict is None else f"it {_WOULD[check.other_verdict]}"
        return f"decided on {clean(check.judged_on, 200)}; on this change's dataset {here}"
    noun = "margin" if check.rule == "no_worse_than" else "bound"
    if check.other_verdict is None:
        return f"decided by {owner} definition; {other} has no such check"
    by_which = f"by which it {_WOULD[check.other_verdict]}" if check.other_verdict != check.verdict else ""
    if check.other_bound is None or check.bound is None or check.other_bound == check.bound:
        return f"decided by {owner} definition; {other} defines it otherwise{f', {by_which}' if by_which else ''}"
    words = f"decided by {owner} {noun} {number(check.bound)}; {other} says {number(check.other_bound)}"
    return f"{words}, {by_which}" if by_which else words


def other_decider(check: CheckResult) -> str:
    """Whose definition the other verdict is of, or whose has no such check."""
    other = check.other_by or ("this change" if check.decided_by == "merge base" else "merge base")
    return DECIDERS[other]


def verdict_notes(check: CheckResult) -> list[str]:
    """What every report shows next to a verdict: whose definition decided it, and its waiver."""
    return [words for words in (decider_words(check), excuse_words(check)) if words]


def noted_sentence(check: CheckResult, record: RunRecord) -> str:
    """The sentence of a check and its notes."""
    return "; ".join([sentence(check, record), *verdict_notes(check)])


def table_notes(checks: Sequence[CheckResult], most: int = 3) -> list[str]:
    """What a reader of a table of checks must know: what `fair` means, where equal scores decided, and why intervals
    are missing."""
    ties = [f"{check.item}: {words}" for check in checks if (words := tie_words(check))]
    bare = dict.fromkeys(filter(None, map(no_interval_words, checks)))
    fair = ["fair, 95%: what a perfectly fair ranker has half of the time, and is no worse than 95% of the time"]
    return [*(fair if any(map(null_words, checks)) else []), *ties[:most], *list(bare)[:most]]
