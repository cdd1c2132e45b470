"""What all reports say about a run besides its findings: waivers, whose definition decided, changes of the gate,
baselines, warnings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fairgate.ground.errors import clean, listed
from fairgate.ground.number_format import number, share_words
from fairgate.ground.text import without_json
from fairgate.records import (
    CheckResult,
    Decider,
    DefinitionChange,
    GroupResult,
    MetricSpec,
    RunRecord,
    Verdict,
    item_name,
    own_metrics,
)
from fairgate.reports.formatting import (
    COMMIT,
    WHY,
    at_most,
    common_cause,
    no_interval_words,
    null_words,
    reading_order,
    spec_of,
    tie_words,
)
from fairgate.reports.sentences import sentence

_MOST_WAIVERS: Final = 5
_WOULD: Final[dict[Verdict, str]] = {
    "pass": "would pass",
    "fail": "would fail",
    "inconclusive": "would be inconclusive",
    "error": "could not be computed",
}
_REASON: Final = 300
_NOTICE: Final = 600
_SUITE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_COMMAND: Final = 4000

DECIDERS: Final[dict[Decider, str]] = {
    "merge base": "the merge base",
    "base tip": "the base branch",
    "default branch": "the default branch",
    "this change": "this change",
}
"""Whose definition of the gate it is, in words."""


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


def approvals_needed(record: RunRecord, most: int, *, digests: bool = True) -> list[str]:
    """What the default branch has to approve before the gate opens, cleaned but not escaped: each change with its kind
    and, with `digests`, what an approval binds; of more than `most`, a last line counts the rest."""
    lines = [
        f"{approval.kind}: {clean(approval.what, _NOTICE)}"
        + (f" ({clean(approval.before[:12])} → {clean(approval.now[:12])})" if digests else "")
        for approval in record.needs_approval
    ]
    return at_most(lines, most, "and {} more to approve, in results.json")


def approval_command(record: RunRecord, report: str = "REPORT") -> str | None:
    """The command that writes the approvals that a run needs, from its `report` folder; None if it needs none. A record
    that was forged puts no other command there."""
    if not record.needs_approval:
        return None
    suite = record.suite if _SUITE.fullmatch(record.suite) else "SUITE"
    return f"fairgate approve {suite} --from {report} --reason TEXT"


def reproduce_command(record: RunRecord) -> str:
    """The command that repeats a run, every word quoted; empty for what is no command of fairgate's, as in a record
    that was forged."""
    try:
        words = shlex.split(record.command)
    except ValueError:
        return ""
    own = words[:1] == ["fairgate"] or (words[:1] == ["pytest"] and words[1:2] == ["--fairness-suite"])
    return clean(shlex.join(words), _COMMAND) if own else ""


def remarks(record: RunRecord) -> list[Remark]:
    """Remarks on the whole run, warnings first; `definition_words` has the changes of the gate's definition."""
    late = [check for check in record.checks if check.verdict != "pass" and check.waiver and check.waiver.expired]
    lines = [f"{clean(check.item, 120)}: {excuse_words(check)}" for check in reading_order(late)]
    lines = at_most(lines, _MOST_WAIVERS, "and {} more that expired")
    noted = [Remark("warning", text) for text in lines]
    noted += [Remark("warning", clean(text, _REASON)) for text in record.warnings]
    for name, info in (("baseline", record.baseline), ("anchor", record.anchor)):
        if info is not None and info.rescored:
            noted.append(Remark("note", f"the {name} was scored again in this run: {clean(info.rescored, _REASON)}"))
        if info is not None and info.unchanged:
            noted.append(Remark("note", f"the candidate is the {name}'s checkpoint: the model did not change"))
    if record.baseline_reason is not None:
        noted.append(Remark("note", f"this record became a baseline: {clean(record.baseline_reason, _REASON)}"))
    noted += _sizes_compared(record.checks)
    return sorted([*noted, *saturated(record.checks)], key=lambda remark: remark.level, reverse=True)


def _sizes_compared(checks: Sequence[CheckResult]) -> Iterator[Remark]:
    """How the numbers of checks add up that compare a gap's size, where one of them is negative."""
    named = []
    for check in checks:
        parts: list[CheckResult | GroupResult] = [check, *check.groups]
        spec = spec_of(check)
        if check.rule == "no_worse_than" and spec is not None and spec.group_bound == "size":
            values = [value for part in parts if part.delta is not None for value in (part.value, part.baseline)]
            named += [clean(check.item, 120)] if any(value is not None and value < 0 for value in values) else []
    if named:
        yield Remark("note", f"{listed(named, 3)}: the change is of a gap's size, without its sign")


def saturated(checks: Sequence[CheckResult]) -> list[Remark]:
    """Of checks that compare a share with a baseline, or the anchor, that is at an end of its scale, in every group:
    what they cannot see. A run that is compared with nothing is taken for the baseline that it may become."""
    compared: dict[tuple[str, bool, bool, float, bool], list[str]] = {}
    for check in checks:
        spec = own_metrics().get(check.metric)
        parts: list[CheckResult | GroupResult] = [*check.groups] or [check]
        if spec is None or check.rule != "no_worse_than" or check.watched or not _is_share(spec):
            continue
        values = {part.value if check.baseline is None else part.baseline for part in parts} - {None}
        if len(values) == 1 and (end := values.pop()) in (0.0, 1.0):
            best = (end == 1) == (check.better == "higher")
            whose = "this run" if check.baseline is None else f"the {check.against or 'baseline'}"
            name = item_name(check.id, check.about)
            compared.setdefault((name, best, spec.turns, end, bool(check.groups)), []).append(whose)
    ends: dict[tuple[str, bool, bool, float], dict[str, bool]] = {}
    for (name, best, turns, end, grouped), both in compared.items():
        ends.setdefault((" and ".join(dict.fromkeys(both)), best, turns, end), {})[name] = grouped
    noted = []
    for (whose, best, turns, end), items in ends.items():
        named = listed([clean(item, 120) for item in items], 3)
        where = f"{named}: {number(end)} in {'every group of ' if all(items.values()) else ''}{whose}, the"
        if best:
            text = f"{where} best possible value: no gain can show"
            text += ", and a loss only when an answer becomes wrong" if turns else ""
        else:
            text = f"{where} worst possible value: no loss can show, and the check cannot fail"
        noted.append(Remark("note" if best else "warning", text))
    return noted


def _is_share(spec: MetricSpec) -> bool:
    """Whether a metric is the mean of a number from 0 to 1 per image or answer."""
    plain = (spec.lowest, spec.highest, spec.group_bound) == (0, 1, "value")
    return plain and (spec.turns or spec.averaged) and not spec.of_two


def cause_lines(record: RunRecord) -> list[str]:
    """Of the one error that prevented all checks, what the headline lacks: where and remedy; if it is long, all."""
    first, *rest = (common_cause(record) or "").splitlines() or [""]
    return [line.strip() for line in ([first, *rest] if len(first) > WHY else rest)]


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
    before, now = (
        clean("not there" if text is None else without_json(text), limit) for text in (change.before, change.now)
    )
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
        return f"NOT waived: the waiver ended with {until} (its reason: {reason})"
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


def unmerged_waiver(check: CheckResult, record: RunRecord) -> bool:
    """Whether this change brings a waiver of the check, which counts from the merge on."""
    names = {f"waivers.{name}" for name in (check.id, item_name(check.id, check.about))}
    changes = [] if record.definition is None else record.definition.changes
    return any(change.now is not None and change.what.partition(".until")[0] in names for change in changes)


def verdict_notes(check: CheckResult, record: RunRecord) -> list[str]:
    """What every report shows next to a verdict: whose definition decided it, and its waiver."""
    notes = [decider_words(check), excuse_words(check)]
    if check.verdict in ("fail", "inconclusive") and not check.excused and unmerged_waiver(check, record):
        changes = [] if record.definition is None else record.definition.changes
        if all(change.what.startswith("waivers.") for change in changes):  # no check is defined otherwise
            notes.pop(0)
        notes.append("this change's waiver of it does not count yet: merge the waiver first")
    return [words for words in notes if words]


def noted_sentence(check: CheckResult, record: RunRecord) -> str:
    """The sentence of a check and its notes."""
    return "; ".join([sentence(check, record), *verdict_notes(check, record)])


def table_notes(checks: Sequence[CheckResult]) -> list[str]:
    """What a reader of a table of checks must know: what `fair` means, where equal scores decided, and why intervals
    are missing."""
    ties = [f"{check.item}: {words}" for check in checks if (words := tie_words(check))]
    bare = dict.fromkeys(filter(None, map(no_interval_words, checks)))
    fair = ["fair, 95%: what a perfectly fair ranker has half of the time, and is no worse than 95% of the time"]
    return [*(fair if any(map(null_words, checks)) else []), *ties[:3], *list(bare)[:3]]
