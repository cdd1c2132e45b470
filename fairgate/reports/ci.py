"""What CI systems show of a run: GitHub annotations and JUnit properties."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from fairgate.ground.errors import clean
from fairgate.records import BaselineInfo, CheckResult, GroupResult, RunRecord
from fairgate.reports.formatting import reading_order, totals, verdict_words
from fairgate.reports.notes import approvals_needed, definition_words, notices, provenance, remarks, verdict_notes
from fairgate.reports.sentences import sentence, worst_first

SHOWN_PER_LEVEL: Final = 10
"""GitHub keeps ten errors and ten warnings of a step and drops the rest silently."""
_NOTICES: Final = 5
_LEVEL: Final = {"warning": "warning", "note": "notice"}
_COMMAND: Final = re.compile(r"^(\s*)::")
_OLDER_COMMAND: Final = re.compile(r"##(?=\w*\[)")


def github_annotations(record: RunRecord) -> list[str]:
    """`::error` for what needs an approval, failed or could not be computed, `::warning` for what is to review, first,
    for what is inconclusive or waived, for a gate whose definition changed and for what else a reader must not
    overlook, `::notice` for the rest; one line each.

    An inconclusive check that the run does not allow closes the gate, so it is an error too. Where more than ten of a
    level are due, the tenth says how many are not shown.
    """
    checks = [check for check in reading_order(record.checks) if check.verdict != "pass"]
    closing = {check.item for check in record.closing}
    errors = [_check_line("error", check, record) for check in checks if check.item in closing]
    if record.verdict == "error" and not errors:
        errors = [_line("error", f"fairgate {record.suite}", verdict_words(record))]
    needed = [_line("error", f"{record.suite}: needs approval", text) for text in approvals_needed(record, _NOTICES)]
    errors = [*needed, *errors]
    changed = definition_words(record)
    review = f"{record.suite}: to review in this change"
    warnings = [_line("warning", review, text) for text in notices(record, _NOTICES)]
    warnings += [] if changed is None else [_line("warning", f"{record.suite}: gate definition", changed)]
    by_level = {"warning": list[str](), "note": list[str]()}
    for remark in remarks(record):
        by_level[remark.level].append(_line(_LEVEL[remark.level], f"fairgate {record.suite}", remark.text))
    warnings += by_level["warning"]
    warnings += [_check_line("warning", check, record) for check in checks if check.item not in closing]
    levels = {"error": errors, "warning": warnings, "notice": by_level["note"]}
    return [line for level, lines in levels.items() for line in _shown(level, lines, record)]


def inert(line: str) -> str:
    """A line of a log that no CI takes for a command: GitHub obeys one that begins with `::`, and older forms of it
    anywhere in a line."""
    return _OLDER_COMMAND.sub("# #", _COMMAND.sub(r"\1: :", line))


def _shown(level: str, lines: list[str], record: RunRecord) -> list[str]:
    """All lines of a level, or nine of them and one that counts the rest."""
    if len(lines) <= SHOWN_PER_LEVEL:
        return lines
    shown = lines[: SHOWN_PER_LEVEL - 1]
    return [*shown, _line(level, f"fairgate {record.suite}", f"{len(lines) - len(shown)} more; see the report")]


def _check_line(level: str, check: CheckResult, record: RunRecord) -> str:
    words = "; ".join([sentence(check, record), *verdict_notes(check)])
    return _line(level, f"{record.suite} {check.item}", f"{words}. {check.reason}")


def _line(level: str, title: str, message: str) -> str:
    named = _escaped(clean(title, 200)).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={named}::{_escaped(clean(message, 1000))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


_TEXTS: Final = (
    *("verdict", "subject", "word", "category", "probe", "over", "rule", "worst_group"),
    *("against", "decided_by", "other_verdict"),
)
_NUMBERS: Final = (
    *("value", "lo", "hi", "bound", "baseline", "delta", "delta_lo", "delta_hi", "p_adjusted"),
    *("null_median", "null_p95", "other_bound"),
)


def junit_properties(check: CheckResult) -> list[tuple[str, str]]:
    """Name and text of each property, numbers in full. A number that is not there has no property, never 0."""
    properties: dict[str, object] = {"check": check.id, "metric": check.metric_with_k}
    properties |= {name: getattr(check, name) for name in _TEXTS}
    properties["failing_groups"] = _names(worst_first(check, check.failing_groups))
    properties["undecided_groups"] = _names(check.undecided_groups)
    if check.waiver is not None:
        properties |= {"waived": str(check.waived).lower(), "waiver_until": check.waiver.until}
        properties |= {"waiver_expired": str(check.waiver.expired).lower(), "waiver_reason": check.waiver.reason}
    properties |= {name: getattr(check, name) for name in _NUMBERS}
    properties |= {
        "status": None if check.status == "ok" else check.status,
        "n_sets": check.n_sets,
        "reason": check.reason,
    }
    return _properties(properties)


def _names(groups: Sequence[GroupResult]) -> str | None:
    return "; ".join(group.group for group in groups) or None


def junit_suite_properties(record: RunRecord) -> list[tuple[str, str]]:
    """Name and text of each property of a whole run: what needs an approval, its verdict and totals, what it was
    compared with, what is to review, what changed in the gate's definition, and every remark."""
    properties: dict[str, object] = {
        "suite": record.suite,
        "verdict": record.verdict,
        "totals": totals(record),
        "model": record.model.uri,
        "registered": record.model.registered,
        "baseline": None if record.baseline is None else _compared(record.baseline),
        "anchor": None if record.anchor is None else _compared(record.anchor),
        "definition": definition_words(record),
    }
    needed = approvals_needed(record, len(record.needs_approval))
    properties = {f"needs_approval.{at}": text for at, text in enumerate(needed, 1)} | properties
    properties |= {f"notice.{at}": text for at, text in enumerate(notices(record, len(record.notices)), 1)}
    properties |= {f"{remark.level}.{at}": remark.text for at, remark in enumerate(remarks(record), 1)}
    return _properties(properties)


def _compared(info: BaselineInfo) -> str:
    return f"{info.uri} ({whence})" if (whence := provenance(info)) else info.uri


def _properties(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(f"fairgate.{name}", clean(str(value))) for name, value in values.items() if value is not None]
