"""Sentences that all reports share: waivers, changes of the gate's definition, baselines, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number
from fairgate.records import BaselineInfo, CheckResult, Decider, DefinitionChange, RunRecord, Verdict
from fairgate.reports.formatting import (
    at_most,
    moment,
    no_interval_words,
    null_words,
    reading_order,
    share_words,
    tie_words,
)

COMMIT: Final = 10
"""Characters of a commit that are shown."""
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


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about the run, cleaned but not escaped. A warning is what a reader must not overlook."""

    level: Literal["warning", "note"]
    text: str


def notices(record: RunRecord, most: int) -> list[str]:
    """What the change alters besides the weights, cleaned but not escaped; of more than `most`, a last line counts the
    rest."""
    lines = [clean(text, _NOTICE) for text in record.notices[:most]]
    more = len(record.notices) - most
    return [*lines, f"and {share_words(more, 'more change')} to review, in results.json"] if more > 0 else lines


def approvals_needed(record: RunRecord, most: int) -> list[str]:
    """What the default branch has to approve before the gate opens, cleaned but not escaped: each change with its kind
    and the digests that an approval binds; of more than `most`, a last line counts the rest."""
    lines = [
        f"{approval.kind}: {clean(approval.what, _NOTICE)} ({clean(approval.before[:12])} → {clean(approval.now[:12])})"
        for approval in record.needs_approval[:most]
    ]
    more = len(record.needs_approval) - most
    return [*lines, f"and {share_words(more, 'more change')} to approve, in results.json"] if more > 0 else lines


def approval_command(record: RunRecord, report: str = "REPORT") -> str | None:
    """The command that writes the approvals that a run needs, from its `report` folder; None if it needs none."""
    if not record.needs_approval:
        return None
    return f"fairgate approve {clean(record.suite, 80)} --from {report} --reason TEXT"


def remarks(record: RunRecord) -> list[Remark]:
    """Remarks on the whole run, warnings first; `definition_words` has the changes of the gate's definition."""
    late = [check for check in record.checks if check.verdict != "pass" and check.waiver and check.waiver.expired]
    lines = [f"{clean(check.item, 120)}: {waiver_words(check)}" for check in reading_order(late)]
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


def waiver_words(check: CheckResult) -> str:
    """`waived until 2027-03-01: reason`; of a waiver that waives nothing, why; nothing where none is needed."""
    waiver = check.waiver
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
    return [words for words in (decider_words(check), waiver_words(check)) if words]


def table_notes(checks: Sequence[CheckResult], most: int = 3) -> list[str]:
    """What a reader of a table of checks must know: what `fair` means, where equal scores decided, and why intervals
    are missing."""
    ties = [f"{check.item}: {words}" for check in checks if (words := tie_words(check))]
    bare = dict.fromkeys(filter(None, map(no_interval_words, checks)))
    fair = ["fair, 95%: what a perfectly fair ranker has half of the time, and is no worse than 95% of the time"]
    return [*(fair if any(map(null_words, checks)) else []), *ties[:most], *list(bare)[:most]]


def provenance(info: BaselineInfo) -> str:
    """Where a baseline or an anchor came from: `git:main, merge base 0123456789, recorded 2026-03-01 12:00 UTC`."""
    parts = [clean(info.source, 120)] if info.source and not info.source.endswith(info.uri) else []
    if info.commit is not None and not info.source.endswith(f"@{info.commit}"):  # else the source names the commit
        parts.append(f"merge base {clean(info.commit[:COMMIT])}")
    if info.created_at is not None:
        parts.append(f"recorded {moment(info.created_at)}")
    if info.rescored:
        parts.append("scored again in this run")
    if info.unchanged:
        parts.append("the candidate's own checkpoint")
    return ", ".join(parts)
