"""What to do after a verdict that is no pass: which pictures to look at, how to compare the two checkpoints, how to
accept the change on purpose, and how many more images would settle what is open."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Final

from fairgate.ground.errors import clean, listed
from fairgate.ground.number_format import share_words
from fairgate.records import CheckResult, RunRecord, WorstSet
from fairgate.reports.formatting import at_most, reading_order, spec_of, unit_of
from fairgate.reports.run_remarks import unmerged_waiver
from fairgate.reports.sentences import enough_words, reaching_over

_PICTURES, _CHECKS, _WAIVERS = 4, 3, 12
_MANY: Final = 4
"""Times as many images as there are that somebody may still be asked to add."""
_WAIVED: Final = timedelta(days=90)
_COPIED: Final = re.compile(r"[\w ./:@?=&%,+'×~-]{0,400}")
"""What a line to copy may hold of foreign text: it is shown as it is, so that it can be run."""
_VIEWED: Final = ("zero_shot_classification", "prediction")
"""Kinds of probe whose answers about several views of an image have a mean."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do, in a sentence, and the lines to copy for it. Cleaned, not escaped."""

    what: str
    lines: tuple[str, ...] = ()
    language: str = "sh"


def next_steps(record: RunRecord, *, names: bool = True, pictures: str | None = "in report.html") -> list[NextStep]:
    """What to do next about checks that close the gate, the most useful first; `approval_command` is for the rest.
    Without `names`, no single picture is named: a comment has aggregates only. `pictures` says where they are; None: no
    report is written. A record without a command is of arrays: there is no report, no suite and no checkpoint for a
    step."""
    closing = reading_order(record.closing)
    failed = [check for check in closing if check.verdict in ("fail", "inconclusive")]
    steps = [_settle(failed, record)]
    if record.command:
        look = [_look(failed, record, names, pictures), _look_at_painted(failed, record, pictures)]
        steps = [*look, _compare(failed, record), *steps, _accept(failed, record)]
    return [*_remedies(closing), *(step for several in steps for step in several)]


def in_artifact(record: RunRecord) -> str:
    """Where the pictures are, for a text that is read elsewhere; the artifact has the name that `init` gives it."""
    named = f"fairness-report-{record.suite}" if _COPIED.fullmatch(record.suite) else "fairness-report"
    return f"in report.html (in CI, of the run's artifact, such as {named})"


def _remedies(closing: Sequence[CheckResult]) -> Iterator[NextStep]:
    """What the errors themselves advise, each advice once."""
    lines = [line.strip() for check in closing if check.verdict == "error" for line in check.reason.splitlines()[1:]]
    remedies = dict.fromkeys(line.removeprefix("remedy:").strip() for line in lines if line.startswith("remedy:"))
    for remedy in list(remedies)[:_CHECKS]:
        yield NextStep(clean(remedy, 600))


def _look(failed: Sequence[CheckResult], record: RunRecord, names: bool, pictures: str | None) -> Iterator[NextStep]:
    """The pictures that count most against the first checks that have any; of a dataset without any, rows."""
    worst = list(dict.fromkeys(clean(worst.set_id, 60) for check in failed for worst in shown_sets(check)))
    if worst:
        shown = "the rows of the" if record.dataset.pictures is False else "the"
        kind = f"worst {unit_of(record)}{'' if len(worst) == 1 else 's'}"
        named = f": {', '.join(worst[:_PICTURES])}{', ...' if len(worst) > _PICTURES else ''}" if names else ""
        again = "run again with `--fairness-report fairness-report`, and " if pictures is None else ""
        where = "" if pictures is None else f" {pictures}"
        yield NextStep(f"{again}look at {shown} {kind}{where}{named}")


def _look_at_painted(failed: Sequence[CheckResult], record: RunRecord, pictures: str | None) -> Iterator[NextStep]:
    """The contact sheets of a generator's pictures."""
    if any(record.probes.get(check.probe, "").startswith("generation:") for check in failed):
        again = "run again with `--fairness-report fairness-report`, and " if pictures is None else ""
        where = f" {pictures}" if pictures else ""
        yield NextStep(
            f"{again}look at the pictures that it painted{where}: by group as they were read, before and after"
        )


def shown_sets(check: CheckResult) -> list[WorstSet]:
    """The worst few sets of a check that did not pass: three rows of pictures on the page, or six single images."""
    if check.verdict == "pass":
        return []
    single = all(len(worst.members) == 1 for worst in check.worst_sets)
    return check.worst_sets[: 6 if single else 3]


def _compare(failed: Sequence[CheckResult], record: RunRecord) -> Iterator[NextStep]:
    """The audit of both checkpoints, if they have two addresses."""
    for against, info in (("baseline", record.baseline), ("anchor", record.anchor)):
        compared = any((check.against or "baseline") == against for check in failed if check.rule == "no_worse_than")
        if info is None or not compared or info.unchanged:
            continue
        before, get = info.uri, list[str]()
        table = record.model.precision == "precomputed"
        if before == record.model.uri:  # one path: a table that this change edits is also in git, unless git ignores it
            path, mark, options = before.partition(":")[2].partition("?")
            if not table or not info.commit or not _edits(record, path):
                return
            before = f"{before.partition(':')[0]}:before-{PurePath(path).name}{mark}{options}"
            blob, copy = f"{info.commit[:12]}:./{path}", f"before-{PurePath(path).name}"
            get = [f"git show {shlex.quote(blob)} > {shlex.quote(copy)}"]
        words = [record.suite, "--model", before, "--model", record.model.uri]
        if all(map(_COPIED.fullmatch, [*words, info.commit or ""])):
            what = f"compare the two {'tables' if table else 'checkpoints'}"
            yield NextStep(what, (*get, f"fairgate audit {shlex.join(words)}"))
        return


def _edits(record: RunRecord, path: str) -> bool:
    """Whether the change edits a table that its base has in git."""
    return any(need.kind == "table" and f" {path}, a table in git " in need.what for need in record.needs_approval)


def _settle(failed: Sequence[CheckResult], record: RunRecord) -> Iterator[NextStep]:
    """How many more images, or views of each, would settle the open checks; and what to compare with, if nothing is."""
    unit = unit_of(record)
    for check in [check for check in failed if check.verdict == "inconclusive"][:_CHECKS]:
        name, advice = clean(check.item, 120), list[str]()
        if check.sets_needed:
            advice.append(_more_or_a_margin(check, unit))
            if check.views == 1 and _has_views(check, record):
                advice.append("or fewer with views: 16 in its probe")
        if small := check.small_groups:
            wanted = check.min_sets or 0
            few = [f"{share_words(wanted - group.n_sets, unit)} of {clean(group.group, 80)}" for group in small]
            advice.append(f"add at least {listed(few, more='more groups')}")
        elif check.min_sets is not None and not check.groups and check.n_sets < check.min_sets:
            advice.append(f"add at least {share_words(check.min_sets - check.n_sets, unit)}")
        elif over := reaching_over(check):
            advice.append(f"score more {unit}s ({over})")
        if advice:
            yield NextStep(f"to settle {name}: {', '.join(advice)}")
    missing = next((check for check in failed if check.verdict == "inconclusive" and check.delta is None), None)
    if missing is not None and missing.rule == "no_worse_than" and record.baseline is None:
        yield NextStep(f"to compare, {clean(missing.reason.partition('; ')[2], 600) or 'name a baseline'}")


def _more_or_a_margin(check: CheckResult, unit: str) -> str:
    """How many to score; of many more than there are, a margin at which those that are there pass."""
    there = min((group.n_sets for group in check.undecided_groups if group.delta is not None), default=check.n_sets)
    margin = check.margin_decided
    if margin is None or check.bound is None or (check.sets_needed or 0) <= _MANY * there:
        return f"score {enough_words(check, unit)}"
    digits = 1 - math.floor(math.log10(margin))
    wider = math.ceil(margin * 10**digits) / 10**digits
    return (
        f"these {unit}s can decide a margin of {wider:g} (merge it first); {check.bound:g} takes "
        f"{enough_words(check, unit)}"
    )


def _has_views(check: CheckResult, record: RunRecord) -> bool:
    """Whether the check's probe may have several views of each image: all that is measured on it are means."""
    specs = [spec_of(other) for other in record.checks if other.probe == check.probe]
    kind = record.probes.get(check.probe, "").partition(":")[0]
    return kind in _VIEWED and all(spec is not None and spec.averaged for spec in specs)


def _accept(failed: Sequence[CheckResult], record: RunRecord) -> Iterator[NextStep]:
    """The waiver that accepts the loss for a time, merged before the change is; nothing of checks that have one."""
    waived = [check for check in failed if unmerged_waiver(check, record)]
    if waived:
        yield NextStep(f"merge the waiver first, by a pull request of its own, and then this change: {_names(waived)}")
    rest = [check for check in failed if check.verdict == "fail" and check not in waived]
    try:
        until = (datetime.fromisoformat(record.created_at) + _WAIVED).date()
    except (ValueError, OverflowError):
        return
    if late := [check for check in rest if check.waiver is not None]:
        what = "to extend an expired waiver, first merge a later `until` by a pull request of its own"
        yield NextStep(f"{what}: {_names(late)}")
    named = [check for check in rest if check.waiver is None and _COPIED.fullmatch(f"{check.id}{check.about or ''}")]
    if named:
        lines = list(dict.fromkeys(_waiver(check, until.isoformat()) for check in named))
        lines = at_most(lines, _WAIVERS, "  # and {} more: every failed check needs a waiver")
        suite = clean(record.suite, 80)
        yield NextStep(
            f"to accept it on purpose, first merge this into fairness_suites/{suite}.yaml by a pull request of its own",
            ("waivers:", *lines),
            "yaml",
        )


def _names(checks: Sequence[CheckResult]) -> str:
    return listed([clean(check.item, 120) for check in checks], _WAIVERS)


def _waiver(check: CheckResult, until: str) -> str:
    about = "" if check.about is None else f'subject: "{check.about}", '
    return f'  - {{check: {check.id}, {about}until: {until}, reason: "TEXT"}}'
