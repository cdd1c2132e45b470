"""What a JUnit reader keeps of a check, beside failed or passed."""

from __future__ import annotations

from collections.abc import Sequence

from fairgate.records import CheckResult, GroupResult, RunRecord
from fairgate.reports.remarks import definition_words, notices, provenance, remarks
from fairgate.reports.sentences import worst_first
from fairgate.reports.words import clean, totals

_NUMBERS = (
    "value",
    "lo",
    "hi",
    "bound",
    "baseline",
    "delta",
    "delta_lo",
    "delta_hi",
    "p_adjusted",
    "null_median",
    "null_p95",
    "other_bound",
)


def junit_properties(check: CheckResult) -> list[tuple[str, str]]:
    """Name and text of each property, numbers in full. A number that is not there has no property, never 0."""
    said: list[tuple[str, str | None]] = [
        ("fairgate.verdict", check.verdict),
        ("fairgate.check", check.id),
        ("fairgate.subject", check.subject),
        ("fairgate.word", check.word),
        ("fairgate.metric", check.metric),
        ("fairgate.probe", check.probe),
        ("fairgate.over", check.over),
        ("fairgate.rule", check.rule),
        ("fairgate.worst_group", check.worst_group),
        ("fairgate.failing_groups", _names(worst_first(check, check.failing_groups))),
        ("fairgate.undecided_groups", _names(check.undecided_groups)),
        ("fairgate.against", check.against),
        ("fairgate.decided_by", check.decided_by),
        ("fairgate.other_verdict", check.other_verdict),
    ]
    if check.waiver is not None:
        said += [
            ("fairgate.waived", "true" if check.waived else "false"),
            ("fairgate.waiver_until", check.waiver.until),
            ("fairgate.waiver_expired", "true" if check.waiver.expired else "false"),
            ("fairgate.waiver_reason", check.waiver.reason),
        ]
    numbers = [(f"fairgate.{name}", getattr(check, name)) for name in _NUMBERS]
    said += [(name, None if value is None else repr(float(value))) for name, value in numbers]
    if check.status != "ok":
        said.append(("fairgate.status", check.status))
    said += [("fairgate.n_sets", str(check.n_sets)), ("fairgate.reason", check.reason)]
    return [(name, clean(text)) for name, text in said if text is not None]


def _names(groups: Sequence[GroupResult]) -> str | None:
    return "; ".join(group.group for group in groups) or None


def junit_suite_properties(record: RunRecord) -> list[tuple[str, str]]:
    """Name and text of each property of a whole run: its verdict and totals, what it was compared with, what is to
    review, what changed in the gate's definition, and every remark."""
    said: list[tuple[str, str | None]] = [
        ("fairgate.suite", record.suite),
        ("fairgate.verdict", record.verdict),
        ("fairgate.totals", totals(record)),
        ("fairgate.model", record.model.uri),
        ("fairgate.registered", record.model.registered),
        ("fairgate.baseline", None if record.baseline is None else provenance(record.baseline)),
        ("fairgate.anchor", None if record.anchor is None else provenance(record.anchor)),
        ("fairgate.definition", definition_words(record)),
    ]
    said += [(f"fairgate.notice.{at}", text) for at, text in enumerate(notices(record, len(record.notices)), 1)]
    said += [(f"fairgate.{remark.level}.{at}", remark.text) for at, remark in enumerate(remarks(record), 1)]
    return [(name, clean(text)) for name, text in said if text is not None]
