"""Workflow commands that GitHub shows as annotations beside a run."""

from __future__ import annotations

from typing import Final

from fairgate.records import CheckResult, RunRecord
from fairgate.reports.words import clean, reading_order, sentence

SHOWN_PER_LEVEL: Final = 10
"""GitHub keeps ten errors and ten warnings of a step and drops the rest silently."""


def github_annotations(record: RunRecord) -> list[str]:
    """`::error` for what failed or could not be computed, `::warning` for what is inconclusive; one line each.

    An inconclusive check that the run does not allow closes the gate, so it is an error too. Where more than ten of a
    level are due, the tenth says how many are not shown.
    """
    errors: list[CheckResult] = []
    warnings: list[CheckResult] = []
    for check in reading_order(record.checks):
        if check.verdict in ("fail", "error") or (check.verdict == "inconclusive" and not record.allow_inconclusive):
            errors.append(check)
        elif check.verdict == "inconclusive":
            warnings.append(check)
    lines = _level("error", errors, record) + _level("warning", warnings, record)
    if record.verdict == "error" and not errors:
        lines.insert(0, _line("error", f"fairgate {record.suite}", "the run could not be completed; nothing is proven"))
    return lines


def _level(level: str, checks: list[CheckResult], record: RunRecord) -> list[str]:
    shown = checks if len(checks) <= SHOWN_PER_LEVEL else checks[: SHOWN_PER_LEVEL - 1]
    lines = [
        _line(level, f"{record.suite} {check.item}", f"{sentence(check, record)}. {check.reason}") for check in shown
    ]
    if len(shown) < len(checks):
        lines.append(_line(level, f"fairgate {record.suite}", f"{len(checks) - len(shown)} more; see the report"))
    return lines


def _line(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(clean(title, 200))}::{_message(clean(message, 1000))}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
