"""What CI systems show of a run: GitHub annotations, JUnit properties, SARIF 2.1.0 and GitLab's code quality report.

What passed is in neither of the last two: both formats list findings. A finding is at the line of the suite that
defines its check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote

from fairgate.ground.errors import clean
from fairgate.ground.hashing import sha256_bytes
from fairgate.records import CheckResult, GroupResult, RunRecord
from fairgate.reports import run_remarks
from fairgate.reports.formatting import common_cause, named_reference, reading_order, spec_of, totals, verdict_words
from fairgate.reports.outputs import Output, register
from fairgate.reports.sentences import worst_first

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
    needed = [
        _line("error", f"{record.suite}: needs approval", text)
        for text in run_remarks.approvals_needed(record, _NOTICES)
    ]
    errors = [*needed, *errors]
    changed = run_remarks.definition_words(record)
    review = f"{record.suite}: to review in this change"
    warnings = [_line("warning", review, text) for text in run_remarks.notices(record, _NOTICES)]
    warnings += [] if changed is None else [_line("warning", f"{record.suite}: gate definition", changed)]
    by_level = {"warning": list[str](), "note": list[str]()}
    for remark in run_remarks.remarks(record):
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
    return _line(level, f"{record.suite} {check.item}", _finding_text(check, record))


def _finding_text(check: CheckResult, record: RunRecord) -> str:
    """The sentence of a check; of an error, also where it is and its remedy."""
    where = check.reason.splitlines()[1:] if check.verdict == "error" else []
    return clean(" ".join([f"{run_remarks.noted_sentence(check, record)}.", *map(str.strip, where)]), 1000)


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


def junit_properties(check: CheckResult, record: RunRecord) -> list[tuple[str, str]]:
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
        "finding": _finding_text(check, record),
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
        "baseline": None if record.baseline is None else named_reference(record.baseline),
        "anchor": None if record.anchor is None else named_reference(record.anchor),
        "definition": run_remarks.definition_words(record),
    }
    needed = run_remarks.approvals_needed(record, len(record.needs_approval))
    properties = {f"needs_approval.{at}": text for at, text in enumerate(needed, 1)} | properties
    properties |= {f"notice.{at}": text for at, text in enumerate(run_remarks.notices(record, len(record.notices)), 1)}
    properties |= {f"{remark.level}.{at}": remark.text for at, remark in enumerate(run_remarks.remarks(record), 1)}
    return _properties(properties)


def _properties(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(f"fairgate.{name}", clean(str(value))) for name, value in values.items() if value is not None]


_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LISTED: Final = 20
_SARIF_LEVELS: Final = {"major": "error", "minor": "warning", "info": "note"}
_LINK: Final = re.compile(r"\]\(|\{(?=\d)")
"""What a viewer of SARIF takes for a link, or for the place of an argument."""


@dataclass(frozen=True, slots=True)
class _Finding:
    rule: str
    item: str
    text: str
    severity: Literal["major", "minor", "info"]
    line: int
    check: CheckResult | None = None


def render_sarif(record: RunRecord, suite_file: str, lines: Mapping[str, int]) -> str:
    """A run as SARIF 2.1.0. `suite_file` is the suite's path from the top of the repository, `lines` the line of each
    item that is in it."""
    findings = list(_findings(record, lines))
    rules = {finding.rule: finding.check for finding in findings}
    driver = {
        "name": "fairgate",
        "version": clean(record.environment.fairgate, 40),
        "rules": [_rule(name, check) for name, check in rules.items()],
    }
    order = list(rules)
    computed = record.verdict != "error" and all(check.verdict != "error" for check in record.checks)
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"fairgate/{clean(record.suite, 80)}/"},
        "invocations": [{"executionSuccessful": computed, "exitCode": record.exit_code}],
        "results": [_sarif_result(finding, order.index(finding.rule), suite_file, record) for finding in findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def render_code_quality(record: RunRecord, suite_file: str, lines: Mapping[str, int]) -> str:
    """The same as GitLab's `artifacts:reports:codequality`. A finding keeps its fingerprint from commit to commit, so
    that a merge request shows what is new and what is fixed."""
    issues = [
        {
            "description": finding.text,
            "check_name": f"fairgate/{finding.rule}",
            "fingerprint": _fingerprint(record, finding),
            "severity": finding.severity,
            "location": {"path": suite_file, "lines": {"begin": finding.line}},
        }
        for finding in _findings(record, lines)
    ]
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"


def _findings(record: RunRecord, lines: Mapping[str, int]) -> Iterator[_Finding]:
    """What closes the gate, then what is tolerated, then what a reviewer should see."""
    cause = common_cause(record)
    if cause is not None or (record.verdict == "error" and not record.closing):
        yield _Finding("not-judged", "", clean(f"{verdict_words(record)}. {cause or ''}", 1000).strip(), "major", 1)
    else:
        closing = {check.item for check in record.closing}
        for check in reading_order(record.checks):
            if check.verdict != "pass":
                severity: Literal["major", "minor"] = "major" if check.item in closing else "minor"
                text = _finding_text(check, record)
                yield _Finding(clean(check.id, 200), check.item, text, severity, lines.get(check.item, 1), check)
    for text in run_remarks.approvals_needed(record, _LISTED):
        yield _Finding("needs-approval", text, text, "major", 1)
    changed = run_remarks.definition_words(record)
    if changed is not None:
        yield _Finding("gate-definition", "", clean(changed, 1000), "minor", 1)
    for text in run_remarks.notices(record, _LISTED):
        yield _Finding("to-review", text, text, "info", 1)


def _rule(name: str, check: CheckResult | None) -> dict[str, Any]:
    spec = None if check is None else spec_of(check)
    described = {
        "not-judged": "The suite could not be judged.",
        "gate-definition": "The change alters the gate itself.",
        "needs-approval": "A change that the default branch has to approve.",
        "to-review": "Something that a person is to look at.",
    }
    text = described.get(name, name) if check is None or spec is None else f"{spec.name}: {spec.meaning}"
    return {"id": name, "shortDescription": {"text": _plain(text)}}


def _sarif_result(finding: _Finding, rule: int, suite_file: str, record: RunRecord) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": quote(suite_file)}, "region": {"startLine": finding.line}}
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": _plain(finding.text)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"fairgate/v1": _fingerprint(record, finding)},
    }
    if finding.check is not None:
        facts = {
            "item": clean(finding.item),
            "verdict": finding.check.verdict,
            "waived": finding.check.waived,
            "value": finding.check.value,
        }
        facts |= {"bound": finding.check.bound, "delta": finding.check.delta, "n_sets": finding.check.n_sets}
        result["properties"] = {key: value for key, value in facts.items() if value is not None}
    return result


def _fingerprint(record: RunRecord, finding: _Finding) -> str:
    return sha256_bytes("\n".join([record.suite, finding.rule, finding.item]).encode())


def _plain(text: str) -> str:
    """Text in which a viewer of SARIF finds no link and no place for an argument: an invisible break is in the way."""
    return _LINK.sub(lambda match: "\u200b".join(match[0]) if len(match[0]) > 1 else f"{match[0]}\u200b", text)


register(
    Output(
        "sarif",
        "results.sarif",
        ("github", "render"),
        lambda record, context: render_sarif(record, context.suite_file, context.lines).encode(),
    )
)
register(
    Output(
        "code_quality",
        "gl-code-quality-report.json",
        ("gitlab", "render"),
        lambda record, context: render_code_quality(record, context.suite_file, context.lines).encode(),
    )
)
