"""Workflow commands that GitHub shows as annotations beside a run."""

from __future__ import annotations

import re
from typing import Final

from fairgate.records import CheckResult, RunRecord
from fairgate.reports.remarks import beside, definition_words, notices, remarks
from fairgate.reports.sentences import sentence
from fairgate.reports.words import clean, reading_order, verdict_words

SHOWN_PER_LEVEL: Final = 10
"""GitHub keeps ten errors and ten warnings of a step and drops the rest silently."""
_NOTICES: Final = 5
_LEVEL: Final = {"warning": "warning", "note": "notice"}
_COMMAND: Final = re.compile(r"^(\s*)::")
_OLDER_COMMAND: Final = re.compile(r"##(?=\w*\[)")


def github_annotations(record: RunRecord) -> list[str]:
    """`::error` for what failed or could not be computed, `::warning` for what is to review, first, for what is
    inconclusive or waived, for a gate whose definition changed and for what else a reader must not overlook, `::notice`
    for the rest; one line each.

    An inconclusive check that the run does not allow closes the gate, so it is an error too. Where more than ten of a
    level are due, the tenth says how many are not shown.
    """
    checks = [check for check in reading_order(record.checks) if check.verdict != "pass"]
    errors = [_check_line("error", check, record) for check in checks if _closes(check, record)]
    if record.verdict == "error" and not errors:
        errors = [_line("error", f"fairgate {record.suite}", verdict_words(record))]
    changed = definition_words(record)
    review = f"{record.suite}: to review in this change"
    warnings = [_line("warning", review, text) for text in notices(record, _NOTICES)]
    warnings += [] if changed is None else [_line("warning", f"{record.suite}: gate definition", changed)]
    said = [
        (remark.level, _line(_LEVEL[remark.level], f"fairgate {record.suite}", remark.text))
        for remark in remarks(record)
    ]
    warnings += [line for level, line in said if level == "warning"]
    warnings += [_check_line("warning", check, record) for check in checks if not _closes(check, record)]
    notes = [line for level, line in said if level == "note"]
    return [
        line
        for level, lines in (("error", errors), ("warning", warnings), ("notice", notes))
        for line in _shown(level, lines, record)
    ]


def inert(line: str) -> str:
    """A line of a log that no CI takes for a command: GitHub obeys one that begins with `::`, and older forms of it
    anywhere in a line."""
    return _OLDER_COMMAND.sub("# #", _COMMAND.sub(r"\1: :", line))


def _closes(check: CheckResult, record: RunRecord) -> bool:
    return not check.waived and (check.verdict != "inconclusive" or not record.allow_inconclusive)


def _shown(level: str, lines: list[str], record: RunRecord) -> list[str]:
    """All lines of a level, or nine of them and one that counts the rest."""
    if len(lines) <= SHOWN_PER_LEVEL:
        return lines
    kept = lines[: SHOWN_PER_LEVEL - 1]
    return [*kept, _line(level, f"fairgate {record.suite}", f"{len(lines) - len(kept)} more; see the report")]


def _check_line(level: str, check: CheckResult, record: RunRecord) -> str:
    said = "; ".join([sentence(check, record), *beside(check)])
    return _line(level, f"{record.suite} {check.item}", f"{said}. {check.reason}")


def _line(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(clean(title, 200))}::{_message(clean(message, 1000))}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
