"""Waivers: a check may fail until a date, for a stated reason. Every report shows them; a waived check never passes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from fairgate.errors import SuiteError, suggestion
from fairgate.records import CheckResult, Waiver
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Suite, Waived
from fairgate.suites.yaml_source import Source


def require_waived_checks(suite: Suite, planned: Sequence[PlannedCheck], source: Source) -> None:
    """Raise SuiteError for a waiver of a check, subject or word that is not there."""
    for place, waiver in enumerate(suite.waivers):
        ids = [check.id for check in suite.checks]
        if waiver.check not in ids:
            raise SuiteError(
                f"a waiver names the check '{waiver.check}', which this suite does not have.",
                where=source.where(("waivers", place, "check")),
                remedy=suggestion(waiver.check, ids, f"checks here: {', '.join(ids)}"),
            )
        about = list(dict.fromkeys(one.about for one in planned if one.check.id == waiver.check and one.about))
        if waiver.subject is not None and waiver.subject not in about:
            listed = f"it is about: {', '.join(about)}" if about else "it has one item for all; leave `subject` out"
            raise SuiteError(
                f"a waiver names '{waiver.subject}', which check '{waiver.check}' is not about.",
                where=source.where(("waivers", place, "subject")),
                remedy=suggestion(waiver.subject, about, listed),
            )


def waive(checks: Sequence[CheckResult], waivers: Sequence[Waived], today: date) -> list[CheckResult]:
    """Mark the checks that a waiver covers, its last day included. An expired waiver is marked and waives nothing.

    A waiver of one subject takes precedence over one of the whole check.
    """
    found: dict[tuple[str, str | None], Waived] = {(waiver.check, waiver.subject): waiver for waiver in waivers}
    marked = []
    for check in checks:
        waiver = found.get((check.id, check.about)) or found.get((check.id, None))
        if waiver is not None and check.verdict != "pass":
            said = Waiver(until=waiver.until.isoformat(), reason=waiver.reason, expired=today > waiver.until)
            check = check.model_copy(update={"waiver": said})  # noqa: PLW2901
        marked.append(check)
    return marked
