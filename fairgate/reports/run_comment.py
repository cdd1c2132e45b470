"""comment.md: one sticky comment on a pull request, verdict first, aggregates only."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairgate.ground.errors import FairgateError
from fairgate.ground.markdown import escape, fenced, folded, table, web_address
from fairgate.ground.number_format import share_words
from fairgate.records import BaselineInfo, CheckResult, RunRecord
from fairgate.reports import formatting as words
from fairgate.reports import run_remarks
from fairgate.reports.ci import github_annotations
from fairgate.reports.data_table import markdown_table
from fairgate.reports.member_words import taken_words
from fairgate.reports.next_steps import NextStep, in_artifact, next_steps
from fairgate.reports.outputs import Output, register
from fairgate.reports.run_tables import checks_table, groups_table, own_intervals
from fairgate.reports.sentences import compared_with_nothing, sentence, verdict_name

LEAST_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Detail:
    """Limits of one level of detail: the most sentences, table rows, groups, changes of the gate's definition, remarks
    and notices, and `clip`, the most characters of a text."""

    sentences: int
    rows: int
    passing: int
    groups: int
    changes: int
    remarks: int
    clip: int
    notices: int


_LEVELS: Final = (
    _Detail(20, 400, 400, 40, 100, 20, 300, 40),
    _Detail(20, 200, 100, 10, 50, 20, 200, 20),
    _Detail(10, 100, 0, 0, 25, 10, 120, 20),
    _Detail(5, 30, 0, 0, 10, 5, 80, 10),
    _Detail(3, 5, 0, 0, 3, 2, 40, 5),
    _Detail(1, 0, 0, 0, 0, 0, 24, 2),
)


def render_comment(record: RunRecord, report_url: str | None = None, max_chars: int = 60_000) -> str:
    """The comment's Markdown, detail shed until it has at most `max_chars` characters.

    Begins with a marker naming the suite, by which the next run finds and replaces it. All text from models, datasets
    and suites is escaped: no HTML, no link, no mention comes from it. FairgateError for a limit under 2,000.
    """
    marker = f"<!-- fairgate:{re.sub('[^A-Za-z0-9_]+', '-', record.suite).strip('-')[:60]} -->\n"
    return marker + job_summary(record, report_url, max_chars - len(marker))


def job_summary(record: RunRecord, report_url: str | None = None, max_chars: int = 60_000) -> str:
    """The same text without the marker, for the summary page of a CI job."""
    if max_chars < LEAST_CHARS - 100:
        raise FairgateError(
            f"{max_chars} characters cannot hold a verdict and its reasons.",
            where="max_chars",
            remedy=f"allow at least {LEAST_CHARS:,}",
        )
    drafts = (_body(record, report_url, detail) for detail in _LEVELS)
    return next(draft for draft in drafts if len(draft) <= max_chars)


def run_description(record: RunRecord) -> str:
    """The same text as short as a tag of a tracking server must be."""
    return job_summary(record, max_chars=5_000)


def _body(record: RunRecord, report_url: str | None, detail: _Detail) -> str:
    failing, waived, passing = words.by_outcome(words.reading_order(record.checks))
    symbol, suite = words.SYMBOL[words.headline_verdict(record)], escape(record.suite, detail.clip)
    parts = [
        f"## {symbol} fairgate {suite}: {escape(words.verdict_words(record))}",
        _findings(failing, record, detail),
        _next(record, detail),
        _approvals(record, detail),
        _notices(record, detail),
        _definition(record, detail),
        _remarks(record, detail),
        f"{words.totals(record).capitalize()}. Coverage: {words.coverage_words(record)}.{_link(report_url)}",
        f"> {escape(record.dataset.notice, detail.clip)}" if record.dataset.notice else "",
        "" if words.common_cause(record) else _rows(failing, record, detail.rows, detail),
        _waived(waived, record, detail),
        _groups([*failing, *waived], record, detail),
        _folded_rows(f"{share_words(len(passing), 'check')} passed", passing, record, detail.passing, detail),
        _about(record, detail),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _approvals(record: RunRecord, detail: _Detail) -> str:
    """What the default branch has to approve, and how."""
    command = run_remarks.approval_command(record)
    if command is None:
        return ""
    lines = [
        f"- {escape(text, max(2 * detail.clip, 160))}" for text in run_remarks.approvals_needed(record, detail.notices)
    ]
    how = "Once reviewed, on the default branch (`REPORT`: this run's report folder):"
    return "\n".join(["**Needs an approval before it is merged:**", "", *lines, "", how, "", fenced(command)])


def _notices(record: RunRecord, detail: _Detail) -> str:
    """What a reviewer must look at before merging, also where the verdict is a pass."""
    lines = [f"- ⚠ {escape(text, max(2 * detail.clip, 120))}" for text in run_remarks.notices(record, detail.notices)]
    return "\n".join(["**To review in this change:**", "", *lines]) if lines else ""


def _definition(record: RunRecord, detail: _Detail) -> str:
    changed = run_remarks.definition_words(record)
    if changed is None or record.definition is None:
        return ""
    text = f"⚠ **{escape(changed[0].upper() + changed[1:], max(detail.clip, 160))}.**"
    changes = record.definition.changes
    if not changes or not detail.changes:
        return text
    cells = [run_remarks.change_cells(change, detail.clip) for change in changes[: detail.changes]]
    text += f"\n\n{table(('what', 'before', 'now'), [[*map(escape, row)] for row in cells])}"
    more = len(changes) - detail.changes
    return f"{text}\n\n<sub>results.json has {more:,} more.</sub>" if more > 0 else text


def _remarks(record: RunRecord, detail: _Detail) -> str:
    lines = [
        f"- {'⚠ ' if remark.level == 'warning' else ''}{escape(remark.text, detail.clip)}"
        for remark in run_remarks.remarks(record)
    ]
    return "\n".join(words.at_most(lines, detail.remarks, "- and {} more")) if detail.remarks else ""


def _link(report_url: str | None) -> str:
    address = web_address(report_url)
    if address is not None and len(address) <= 500:
        return f" [Full report, with pictures]({address})."
    return "" if report_url is None else f" Full report: {escape(report_url, 80)}"


def _findings(failing: Sequence[CheckResult], record: RunRecord, detail: _Detail) -> str:
    """The checks that did not pass, in a sentence each; where one error prevented all of them, that error alone."""
    if words.common_cause(record) is not None:
        return "\n".join(f"- {escape(line, 2000)}" for line in run_remarks.cause_lines(record))
    lines = []
    rest, without = compared_with_nothing(failing, record)
    for check in rest:
        parts = [escape(sentence(check, record), 3 * detail.clip)]  # it names every failing group
        parts += [escape(taken, detail.clip)] if (taken := taken_words(check, record)) else []
        parts += [escape(text, detail.clip) for text in run_remarks.verdict_notes(check, record)]
        lines.append(f"- {words.SYMBOL[check.verdict]} {'; '.join(parts)}")
    lines = words.at_most(lines, detail.sentences, "- and {} more")
    return "\n".join([*lines, f"- {words.SYMBOL['inconclusive']} {without}"] if without else lines)


def _next(record: RunRecord, detail: _Detail) -> str:
    """What to do next, with the lines to copy; less of it as detail is shed."""
    if words.common_cause(record) is not None:  # its remedy is above
        return ""
    blocks = [
        "\n\n".join([escape(f"{step.what[0].upper()}{step.what[1:]}", 8 * detail.clip), *_copied(step, detail)])
        for step in next_steps(record, names=False, pictures=in_artifact(record))[: detail.notices]
    ]
    return "\n\n".join(["**What next**", *blocks]) if blocks else ""


def _copied(step: NextStep, detail: _Detail) -> list[str]:
    """Lines to copy as a block, unless they are longer than this level of detail allows."""
    if sum(map(len, step.lines)) > 8 * detail.clip:
        return ["(report.html has the lines.)"]
    return [fenced(*step.lines, language=step.language)] if step.lines else []


def _waived(waived: Sequence[CheckResult], record: RunRecord, detail: _Detail) -> str:
    """Every check that is waived (until when, and why) or watched and did not pass; the numbers of all on demand."""
    lines = [
        f"- {words.SYMBOL[check.verdict]} {escape(check.item, detail.clip)}: {verdict_name(check, record)}, "
        f"{escape(run_remarks.excuse_words(check, record), 3 * detail.clip)}"
        for check in waived
        if check.verdict != "pass"
    ]
    lines = words.at_most(lines, detail.sentences, "- and {} more")
    if not waived:
        return ""
    numbers = _folded_rows("Numbers of the waived and watched checks", waived, record, detail.rows, detail)
    return "\n".join([f"**Waived or watched: {share_words(len(waived), 'check')}**", "", *lines, "", numbers]).rstrip()


def _rows(checks: Sequence[CheckResult], record: RunRecord, limit: int, detail: _Detail) -> str:
    if not checks or limit == 0:
        return ""
    text = markdown_table(checks_table(checks, record), detail.clip, limit)
    legend = " “–”: not measured, or not tested against a baseline." if "| – |" in text else ""
    more = f" results.json has {len(checks) - limit:,} more." if len(checks) > limit else ""
    notes = "".join(f" {escape(text, detail.clip)}." for text in run_remarks.table_notes(checks[:limit]))
    note = f"<sub>Intervals in brackets.{legend}{notes}{more}</sub>"
    return f"{text}\n\n{note}"


def _folded_rows(title: str, checks: Sequence[CheckResult], record: RunRecord, limit: int, detail: _Detail) -> str:
    rows = _rows(checks, record, limit, detail)
    return folded(title, rows) if rows else ""


def _groups(failing: Sequence[CheckResult], record: RunRecord, detail: _Detail) -> str:
    blocks = [
        f"**{escape(check.item, detail.clip)}**\n\n{markdown_table(groups, detail.clip)}"
        + (f"\n\n<sub>{apart[0].upper()}{apart[1:]}.</sub>" if (apart := own_intervals(check)) else "")
        for check in [check for check in failing if check.groups][: detail.groups]
        if (groups := groups_table(check, words.unit_of(record))) is not None
    ]
    return folded("By group", "\n\n".join(blocks)) if blocks else ""


def _about(record: RunRecord, detail: _Detail) -> str:
    if detail.rows == 0:
        return ""
    data, decided = record.dataset, record.decision
    lines = [
        f"- model: {escape(record.model.uri, detail.clip)} ({escape(record.model.fingerprint[:12])})"
        + (
            f", registered as {escape(registered, detail.clip)}"
            if (registered := record.model.registered) is not None
            else ""
        ),
        f"- baseline: {_reference(record.baseline, detail)}",
        *([] if record.anchor is None else [f"- anchor: {_reference(record.anchor, detail)}"]),
        f"- dataset: {escape(data.name, detail.clip)}/{escape(data.version, 24)} ({escape(data.fingerprint[:12])})",
        f"- decided at alpha {decided.alpha:g}, corrected by {escape(decided.method, 24)} over the whole suite, "
        f"{decided.draws:,} draws, seed {decided.seed}",
        f"- fairgate {escape(record.environment.fairgate, 24)}, {escape(words.moment(record.created_at), 40)}",
    ]
    command = run_remarks.reproduce_command(record)
    again = fenced(command) if command and len(command) <= 8 * detail.clip else ""
    title = f"Model, baseline, dataset{', and the command to reproduce' if again else ''}"
    return folded(title, "\n".join(lines) + f"\n\n{again}".rstrip())


def _reference(info: BaselineInfo | None, detail: _Detail) -> str:
    if info is None:
        return "none"
    whence = words.provenance(info)
    named = f"{escape(info.uri, detail.clip)} ({escape(info.fingerprint[:12])})"
    return f"{named}, {escape(whence, detail.clip)}" if whence else named


def tell_github(record: RunRecord, say: Callable[[str], object], *, warn: Callable[[str], object]) -> None:
    """Say annotations where GITHUB_ACTIONS is `true`, and append to the file that GITHUB_STEP_SUMMARY names, or warn
    why not. Does nothing elsewhere."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in github_annotations(record):
            say(line)
    if (page := os.environ.get("GITHUB_STEP_SUMMARY")) and (trouble := append_summary(record, Path(page))):
        warn(trouble)


MAX_BYTES: Final = 1024 * 1024
"""GitHub shows nothing at all of a step whose summary is larger."""


def append_summary(record: RunRecord, path: Path) -> str | None:
    """Append the record's summary to the file that GITHUB_STEP_SUMMARY names; None, or why it could not be.

    Where little room is left the short form is taken, and where none is left, nothing. Never raises for a file that
    cannot be written: that changes no verdict.
    """
    try:
        room = MAX_BYTES - (path.stat().st_size if path.exists() else 0)
        for text in (job_summary(record), job_summary(record, max_chars=LEAST_CHARS)):
            if len(text.encode()) + 1 <= room:
                with path.open("a", encoding="utf-8") as page:
                    page.write(f"{text}\n")
                return None
    except OSError as error:
        return f"the job summary was not written, the verdict stands: {error}"
    return "the job summary is full; the report has the rest"


register(
    Output(
        "comment",
        "comment.md",
        ("gate", "render", "push"),
        lambda record, context: render_comment(record, context.report_url).encode(),
    )
)
