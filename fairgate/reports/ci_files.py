"""Files that CI services show next to the lines of a suite: SARIF 2.1.0, and GitLab's code quality report.

What passed is in neither: both formats list findings. A finding is at the line of the suite that defines its check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote

from fairgate.ground.errors import clean
from fairgate.ground.hashing import sha256_bytes
from fairgate.records import CheckResult, RunRecord
from fairgate.reports.formatting import common_cause, reading_order, spec_of, verdict_words
from fairgate.reports.notes import approvals_needed, definition_words, notices, verdict_notes
from fairgate.reports.outputs import Output, register
from fairgate.reports.sentences import sentence

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NOTICES: Final = 20
_LEVELS: Final = {"major": "error", "minor": "warning", "info": "note"}
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
                words = "; ".join([sentence(check, record), *verdict_notes(check)])
                text = clean(f"{words}. {check.reason}", 1000)
                yield _Finding(clean(check.id, 200), check.item, text, severity, lines.get(check.item, 1), check)
    for text in approvals_needed(record, _NOTICES):
        yield _Finding("needs-approval", text, text, "major", 1)
    changed = definition_words(record)
    if changed is not None:
        yield _Finding("gate-definition", "", clean(changed, 1000), "minor", 1)
    for text in notices(record, _NOTICES):
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
        "level": _LEVELS[finding.severity],
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
