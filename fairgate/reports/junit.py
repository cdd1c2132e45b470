"""What a JUnit reader keeps of a check, beside failed or passed."""

from __future__ import annotations

from fairgate.records import CheckResult
from fairgate.reports.words import clean

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
    ]
    numbers = [(f"fairgate.{name}", getattr(check, name)) for name in _NUMBERS]
    said += [(name, None if value is None else repr(float(value))) for name, value in numbers]
    if check.status != "ok":
        said.append(("fairgate.status", check.status))
    said += [("fairgate.n_sets", str(check.n_sets)), ("fairgate.reason", check.reason)]
    return [(name, clean(text)) for name, text in said if text is not None]
