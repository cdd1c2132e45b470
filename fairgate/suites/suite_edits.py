"""Approvals, an anchor and bounds in a suite's file, whose other lines stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from fairgate.ground.atomic import atomic_write
from fairgate.ground.errors import SuiteError, clean
from fairgate.records import NeededApproval
from fairgate.suites.load import load_text

_SECTION = re.compile(r"^approvals:[ \t]*(?:#.*)?\n", re.MULTILINE)
_EMPTY = re.compile(r"^approvals:[ \t]*\[[ \t]*\][ \t]*(?:#.*)?(?:\n|\Z)", re.MULTILINE)
_OF_THE_OLD_BOUND = "# passes a harmless change "


def add_approvals(path: Path, needed: Sequence[NeededApproval], *, reason: str, until: date) -> list[str]:
    """Add an approval of each change to a suite's file; what was approved, in words.

    Raises SuiteError for a file that does not hold its approvals as a block of lines, and for a reason that a suite
    does not take: nothing is written then.
    """
    text = path.read_text(encoding="utf-8")
    before = load_text(text.encode(), path, shown=str(path)).suite
    text = _EMPTY.sub("", text)
    known = {(approval.kind, approval.before, approval.now, approval.until) for approval in before.approvals}
    new = [
        approval_needed
        for approval_needed in needed
        if (approval_needed.kind, approval_needed.before, approval_needed.now, until) not in known
    ]
    lines = "".join(
        f'  - {{kind: {approval_needed.kind}, before: "{approval_needed.before}", now: "{approval_needed.now}",\n'
        f"     until: {until}, reason: {json.dumps(reason, ensure_ascii=False)}}}\n"
        for approval_needed in new
    )
    if _SECTION.search(text):
        text = _SECTION.sub(lambda match: f"{match[0]}{lines}", text, count=1)
    else:
        text = f"{text.rstrip()}\napprovals:\n{lines}"
    after = load_text(text.encode(), path, shown=str(path)).suite
    if len(after.approvals) != len(before.approvals) + len(new):
        raise SuiteError(
            "the suite's approvals are no block of lines, and none was added.",
            where=str(path),
            remedy="write `approvals:` on a line of its own, and each approval below it as `  - {...}`",
        )
    atomic_write(path, text)
    return [f"{approval_needed.kind}: {clean(approval_needed.what, 200)}, until {until}" for approval_needed in needed]


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
    if load_text(text.encode(), path, shown=str(path)).suite.anchor != anchor:
        raise SuiteError(
            "the anchor cannot be written into the suite's file.",
            where=str(path),
            remedy=f"write the line `{line[:-1]}`",
        )
    atomic_write(path, text)


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
    text = "".join(lines)
    if load_text(text.encode(), path, shown=str(path)).suite.checks != wanted:
        raise SuiteError(
            "the bounds cannot be written into the suite's file.",
            where=str(path),
            remedy="write each check on lines of its own, or without --propose paste the bounds",
        )
    atomic_write(path, text)


def annotated(text: str, notes: Mapping[str, tuple[str, bool]]) -> str:
    """The text of a suite with a comment above each check, by id, and `tier: watch` in those that do not decide."""
    for id_, (note, decides) in notes.items():
        plain = f"  - {{id: {id_},"
        text = text.replace(plain, f"  # {note}\n{plain}" if decides else f"  # {note}\n  - {{id: {id_}, tier: watch,")
    return text
