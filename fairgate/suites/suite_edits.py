"""Approvals, an anchor and bounds in a suite's file, whose other lines stay as they are; and proposed bounds."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import SuiteError, clean
from fairgate.metrics import METRICS
from fairgate.records import CheckResult, NeededApproval, RunRecord
from fairgate.suites.load import load_text
from fairgate.suites.schema import Check, Suite

_SECTION = re.compile(r"^approvals:[ \t]*(?:#.*)?\n", re.MULTILINE)
_EMPTY = re.compile(r"^approvals:[ \t]*\[[ \t]*\][ \t]*(?:#.*)?(?:\n|\Z)", re.MULTILINE)
_OF_THE_OLD_BOUND = "# passes a harmless change "


def add_approvals(path: Path, needed: Sequence[NeededApproval], *, reason: str, until: date) -> list[str]:
    """Add an approval of each change to a suite's file; what was approved, in words.

    Raises SuiteError for a file that does not hold its approvals as a block of lines, and for a reason that a suite
    does not take: nothing is written then.
    """
    text = path.read_text(encoding="utf-8")
    before = load_text(text.encode(), path, shown=str(path)).suite.approvals
    text = _EMPTY.sub("", text)
    known = {(approval.kind, approval.before, approval.now, approval.until) for approval in before}
    new = [change for change in needed if (change.kind, change.before, change.now, until) not in known]
    lines = "".join(
        f'  - {{kind: {change.kind}, before: "{change.before}", now: "{change.now}",\n'
        f"     until: {until}, reason: {json.dumps(reason, ensure_ascii=False)}}}\n"
        for change in new
    )
    if _SECTION.search(text):
        text = _SECTION.sub(lambda match: f"{match[0]}{lines}", text, count=1)
    else:
        text = f"{text.rstrip()}\napprovals:\n{lines}"
    _replace(
        path,
        text,
        lambda suite: len(suite.approvals) == len(before) + len(new),
        "the suite's approvals are no block of lines, and none was added.",
        "write `approvals:` on a line of its own, and each approval below it as `  - {...}`",
    )
    return [f"{change.kind}: {clean(change.what, 200)}, until {until}" for change in needed]


def _replace(path: Path, text: str, as_wanted: Callable[[Suite], bool], problem: str, remedy: str) -> None:
    """Write the new text of a suite's file. Raises SuiteError if it is no suite, or is not as wanted."""
    if not as_wanted(load_text(text.encode(), path, shown=str(path)).suite):
        raise SuiteError(problem, where=str(path), remedy=remedy)
    atomic_write(path, text)


def write_anchor(path: Path, anchor: str) -> None:
    """Write the anchor of a suite's file, in the place of the old one or below its baseline.

    Raises SuiteError for a file in which that line cannot be written by itself: nothing is written then.
    """
    text, line = path.read_text(encoding="utf-8"), f"anchor: {anchor}\n"
    old = re.compile(r"^anchor:.*(?:\n|\Z)", re.MULTILINE)
    lines = (re.search(rf"^{key}:.*\n", text, re.MULTILINE) for key in ("baseline", "model", "dataset"))
    below = next(filter(None, lines), None)
    if old.search(text):
        text = old.sub(lambda _match: line, text, count=1)
    elif below is not None:
        text = f"{text[: below.end()]}{line}{text[below.end() :]}"
    problem = "the anchor cannot be written into the suite's file."
    _replace(path, text, lambda suite: suite.anchor == anchor, problem, f"write the line `{line[:-1]}`")


def write_bounds(path: Path, bounds: Mapping[str, float]) -> None:
    """Replace bounds of checks, by id, in a suite's file, without what `suite new` measured of the old ones; its other
    text stays as it is.

    Raises SuiteError for a bound that is not on a line with its key: nothing is written then.
    """
    text = path.read_text(encoding="utf-8")
    before = load_text(text.encode(), path, shown=str(path))
    lines, wanted = text.splitlines(keepends=True), []
    for place, check in enumerate(before.suite.checks):
        bound = bounds.get(check.id)
        wanted.append(check if bound is None else check.model_copy(update={check.rule: bound}))
        if bound is not None:
            at = before.source.lines["checks", place, check.rule] - 1
            lines[at] = re.sub(rf"\b({check.rule}:[ \t]*)[-+.\w]+", rf"\g<1>{bound:.2f}", lines[at])
            above = before.source.lines["checks", place, "id"] - 2
            if lines[above].lstrip().startswith(_OF_THE_OLD_BOUND):
                lines[above] = ""
    problem = "the bounds cannot be written into the suite's file."
    remedy = "write each check on lines of its own, or without --propose paste the bounds"
    _replace(path, "".join(lines), lambda suite: suite.checks == wanted, problem, remedy)


def annotated(text: str, notes: Mapping[str, tuple[str, bool]]) -> str:
    """The text of a suite with a comment above each check, by id, and `tier: watch` in those that do not decide."""
    for id_, (note, decides) in notes.items():
        plain = f"  - {{id: {id_},"
        text = text.replace(plain, f"  # {note}\n{plain}" if decides else f"  # {note}\n  - {{id: {id_}, tier: watch,")
    return text


def proposed_bounds(record: RunRecord, suite: Suite) -> dict[str, float]:
    """By id of a check with a bound, a stricter one: the bad end of the interval of its worst group, to 2 decimals.

    Of a check with several items (`by: subject`), that of the worst. No bound is weaker than the suite's own. Nothing
    is proposed where a value has no interval, or one without width, which shows no noise; a group's is then that of the
    check, which are limits of the worst group.
    """
    bounds = {}
    for check in suite.checks:
        ends = [end for result in record.checks if result.id == check.id for end in _bad_ends(result, check)]
        if check.no_worse_than is not None or not ends or None in ends:
            continue
        known = [end for end in ends if end is not None]
        lower = check.rule == "at_least"
        bound = math.floor(round(min(known) * 100, 6)) / 100 if lower else math.ceil(round(max(known) * 100, 6)) / 100
        if bound > check.bound if lower else bound < check.bound:
            bounds[check.id] = bound
    return bounds


def _bad_ends(result: CheckResult, check: Check) -> Sequence[float | None]:
    """Of every group with enough sets, or of the check without groups, the bad end of its interval; and what a fair
    ranker reaches, since a stricter bound would be refused."""
    kind = METRICS[check.metric].spec.group_bound
    groups = [group for group in result.groups if group.n_sets >= (result.min_sets or 0)]
    parts = groups if kind != "none" and result.groups else [result]
    ends: list[float | None] = [] if result.null_p95 is None else [result.null_p95]
    # a group without an error resamples to one value; the limits of the worst group do not
    for part in (result if part.lo == part.hi else part for part in parts):
        if part.lo is None or part.hi is None or part.lo >= part.hi:
            ends.append(None)
        elif kind == "size" and check.rule == "at_most":
            ends.append(max(abs(part.lo), abs(part.hi)))
        else:
            ends.append(part.lo if check.rule == "at_least" else part.hi)
    return ends


def proposal_lines(bounds: Mapping[str, float], suite: Suite, *, written: bool) -> list[str]:
    """What is proposed, a line a check, with the bound that it replaces; nothing for a suite without bounds."""
    checks = {check.id: check for check in suite.checks if check.rule != "no_worse_than"}
    if not bounds:
        return ["no bound of the suite can be tightened to what was measured here"] if checks else []
    head = "bounds written into the suite" if written else "stricter bounds that are met (`--propose` writes them)"
    old = "was" if written else "in the suite"
    return [
        f"{head}, from the worst group's interval:",
        *(f"  {id_}: {checks[id_].rule}: {bound:.2f}  ({old} {checks[id_].bound:g})" for id_, bound in bounds.items()),
    ]
