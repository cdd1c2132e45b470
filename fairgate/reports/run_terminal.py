"""The run in a terminal: a table that fits 80 columns, and better 100, and the lines that follow it."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairgate.ground.errors import clean, listed
from fairgate.ground.number_format import ABSENT, interval, number, p_value, signed, with_interval
from fairgate.records import CheckResult, MemberResult, RunRecord, Verdict, WorstSet
from fairgate.reports import formatting as words
from fairgate.reports import run_remarks
from fairgate.reports.ci import inert
from fairgate.reports.data_table import fold_name, text_table
from fairgate.reports.member_words import answer_words, value_words
from fairgate.reports.next_steps import next_steps
from fairgate.reports.sentences import compared_with_nothing, lacks_baseline, verdict_name

if TYPE_CHECKING:
    from rich.table import Table


_WIDE: Final = 100
_COMMAND: Final = re.compile(r"(?P<start>reproduce: |  )(?P<words>(?:fairgate|pytest) .*)")
_PROSE: Final = re.compile(
    r"(?:notice|note|warning|coverage|next|needs approval|missing|baseline|anchor|MLflow|W&B|worst \w+): |[✗?!✓] "
    r"|\S+: measured; |  (?:where|remedy): "
)
_WHOLE: Final = re.compile(r"\[[^][]{1,30}\]|\([^()]{1,30}\)|margin [\d.,]+")
"""What no line breaks within: an interval, two values, a margin."""
_NARROWEST: Final = 80
_CHECK_WIDTH: Final = 20
_NARROW_CHECK: Final = 16
"""Letters of a check's name in a line: what the other columns leave of _WIDE, and of _NARROWEST. A wider terminal's
further columns are theirs, too."""
_TIED: Final = "\u00a0"  # a space that textwrap does not break at
_CHANGES: Final = 8
_FAILING: Final = 10
_WAIVED: Final = 5
_NOTICES: Final = 20
_STYLE: Final[dict[Verdict, str]] = {"pass": "green", "fail": "bold red", "inconclusive": "yellow", "error": "magenta"}


def terminal_table(record: RunRecord, width: int = _WIDE) -> Table:
    """Every check in a row, failing ones first. Foreign text is plain: it carries no markup and no control codes.

    The number in the column "baseline" is the anchor's where it says so. A verdict says below it that it is waived, and
    a bound whose it is. A bound of `Δ 0.020` is the margin of a `no_worse_than` check; `fair` and `95%` under a bound
    are what a perfectly fair ranker has half of the time, and is no worse than 95% of the time. `of female × dark`
    under a check's name is the group that its numbers are of. In a terminal of fewer
    than 100 columns (`width`), names take more lines, `0.812 → 0.790` is one column, and the p-value is under the
    change, so that 80 are enough for all that is there, and no interval is broken.
    """
    narrow = width < _WIDE
    names = _narrow_names(width) if narrow else _CHECK_WIDTH + width - _WIDE
    rows: list[list[str | tuple[str, str]]] = []
    for check in words.reading_order(record.checks):
        regression, anchored = check.rule == "no_worse_than", "(anchor)" if check.against == "anchor" else ""
        before, now = number(check.baseline), number(check.value, check.status)
        reach = "" if regression else interval(check.lo, check.hi)
        change, p = _stacked(signed(check.delta), interval(check.delta_lo, check.delta_hi)), p_value(check.p_adjusted)
        if narrow:
            ends = now if check.baseline is None else f"{before} → {now}"
            tested = "" if check.p_adjusted is None else f"adj. p {p}"
            numbers = [_stacked(ends, reach, anchored), _stacked(change, tested), _bound(check)]
        else:
            numbers = [_stacked(before, anchored), _stacked(now, reach), change, _bound(check), p]
        verdict = verdict_name(check, record)
        rows.append(
            [
                (_named(check, names), "bold" if check.verdict == "fail" else ""),
                *numbers,
                (_stacked(f"{words.SYMBOL[check.verdict]} {verdict}", _waived(check)), _STYLE[check.verdict]),
            ]
        )
    compared = any(check.baseline is not None for check in record.checks)
    columns = ["check", ">baseline", ">now", ">delta", "bound", ">adj. p", "verdict"]
    if narrow:
        columns = ["check", ">baseline → now" if compared else ">now", ">delta", "bound", "verdict"]
    return text_table(columns, rows, padding=(0, 1, 0, 0))


def terminal_summary(
    record: RunRecord, *, first_baseline: bool = False, report: Path | None = None, messages: Sequence[str] = ()
) -> list[str]:
    """Plain lines under the table, the finding last: what to review, what changed in the gate itself, coverage, what is
    waived, the worst set, the command; then `messages`, what to do next, what to approve, what failed, and the verdict
    with its totals. No line is a command to the CI that shows it. A `first_baseline` is compared with nothing, and no
    line says so of its checks. `report`: the folder that the run is written to."""
    failing, waived, _ = words.by_outcome(words.reading_order(record.checks))
    if first_baseline:
        failing = [result for result in failing if not lacks_baseline(result, record)]
    lines = _surroundings(record)
    told = None if first_baseline else record
    excused = [
        f"{words.SYMBOL[check.verdict]} {clean(check.item, 120)}: {verdict_name(check, record)}, "
        f"{run_remarks.excuse_words(check, told)}"
        for check in waived
        if check.verdict != "pass" and not (first_baseline and lacks_baseline(check, record))
    ]
    lines += words.at_most(excused, _WAIVED, "  and {} more, waived or watched, in the table")
    lines += [f"note: {clean(text)}" for text in run_remarks.table_notes(record.checks)]
    shown = next((check for check in [*failing, *waived] if check.worst_sets), None)
    cause = words.common_cause(record)
    if shown is not None and cause is None:
        lines.append(f"worst {words.unit_of(record)}: {_set_words(record, shown, shown.worst_sets[0])}")
    if record.dataset.notice:
        lines.append(f"note: {clean(record.dataset.notice)}")
    if command := run_remarks.reproduce_command(record):
        lines.append(f"reproduce: {command}")
    steps = list[str]()  # what to do next, a line each, with the lines to copy under it
    if not first_baseline and cause is None:
        for step in next_steps(record, pictures=None if report is None else "in report.html"):
            steps += [f"next: {step.what}", *(f"  {line}" for line in step.lines)]
    finding = [*_failures(failing, record, report), _headline(record, first_baseline)]
    return [*map(inert, lines), *messages, *map(inert, [*steps, *finding])]


def fitted(line: str, width: int) -> list[str]:
    """A line of the summary in a terminal of so many columns: prose is wrapped, and a command broken before options, so
    that it can still be copied whole."""
    if len(line) <= width:
        return [line]
    if (command := _COMMAND.match(line)) is not None:
        try:
            words = list(map(shlex.quote, shlex.split(command["words"])))
        except ValueError:
            return [line]
        starts = [at for at, word in enumerate(words) if word.startswith("--") or at == 0]
        options = [" ".join(words[at:end]) for at, end in zip(starts, [*starts[1:], len(words)], strict=True)]
        parts = [command["start"] + options[0]]
        for option in options[1:]:
            if len(f"{parts[-1]} {option} \\") > width:
                parts.append(f"    {option}")
            else:
                parts[-1] += f" {option}"
        return [*(f"{part} \\" for part in parts[:-1]), parts[-1]]
    if _PROSE.match(line) is None:
        return [line]
    line = _WHOLE.sub(lambda words: words[0].replace(" ", _TIED), line)
    wrapped = textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [inert(part.replace(_TIED, " ")) for part in wrapped]


def _surroundings(record: RunRecord) -> list[str]:
    """What to review, what changed in the gate itself, coverage, what the run was compared with, and remarks."""
    lines = [f"notice: {text}" for text in run_remarks.notices(record, _NOTICES)]
    if (changed := run_remarks.definition_words(record)) is not None and record.definition is not None:
        cells = (run_remarks.change_cells(change, 80) for change in record.definition.changes)
        changes = [f"  {what}: {before} → {now}" for what, before, now in cells]
        lines += [f"warning: {changed}", *words.at_most(changes, _CHANGES, "  and {} more in results.json")]
    lines.append(f"coverage: {words.coverage_words(record)}")
    if record.coverage.missing:
        lines.append(f"missing: {listed([clean(name, 60) for name in record.coverage.missing])}")
    for name, info in (("baseline", record.baseline), ("anchor", record.anchor)):
        if info is not None and (info.commit or name == "anchor"):  # else the command below names the baseline whole
            lines.append(f"{name}: {clean(info.uri, 120)} ({words.provenance(info)})")
    return lines + [f"{remark.level}: {remark.text}" for remark in run_remarks.remarks(record)]


def _failures(failing: Sequence[CheckResult], record: RunRecord, report: Path | None) -> list[str]:
    """What needs an approval, and what closes the gate, in a sentence each; of many, the first few. If one error
    prevented all checks, it alone."""
    lines = [f"needs approval: {text}" for text in run_remarks.approvals_needed(record, _NOTICES, digests=False)]
    folder = "REPORT" if report is None else shlex.quote(clean(str(report)))
    if (command := run_remarks.approval_command(record, folder)) is not None:
        named = " (REPORT is this run's report folder)" if report is None else ""
        lines.append(f"  once it is reviewed, on the default branch{named}: {command}")
    if (cause := words.common_cause(record)) is not None:
        first, *rest = map(clean, cause.splitlines() or [""])
        return [*lines, f"! no verdict: {first}", *(f"  {line}" for line in rest)]
    compared, without = compared_with_nothing(failing, record)
    findings = [f"{words.SYMBOL[check.verdict]} {run_remarks.noted_sentence(check, record)}" for check in compared]
    findings = words.at_most(findings, _FAILING, "  and {} more in the table")
    return [*lines, *findings, *([f"{words.SYMBOL['inconclusive']} {without}"] if without else [])]


def _headline(record: RunRecord, first_baseline: bool) -> str:
    """The verdict with its totals."""
    if first_baseline and record.verdict == "inconclusive":
        verdict = "measured; what needs a baseline is decided from the next run on"
        undecided = [check for check in record.checks if words.shown_verdict(check) == "inconclusive"]
        alone = all(lacks_baseline(check, record) for check in undecided)
        totals = words.totals(record, **({"inconclusive": "without a baseline yet"} if alone else {}))
        return f"{clean(record.suite, 80)}: {verdict} ({totals})"
    symbol = words.SYMBOL[words.headline_verdict(record)]
    if words.common_cause(record) is not None:  # the line above has the reason
        return f"{symbol} {clean(record.suite, 80)}: no verdict, {words.uncomputed_words(record)}"
    totals = "" if words.headline_verdict(record) == "error" else f" ({words.totals(record)})"
    return f"{symbol} {clean(record.suite, 80)}: {words.verdict_words(record)}{totals}"


def _named(check: CheckResult, width: int) -> str:
    """The check's name, and under it the group whose numbers the row has."""
    group = words.shown_group(check)
    return _stacked(fold_name(check.item, width), fold_name(f"of {group}", width) if group else "")


def _waived(check: CheckResult) -> str:
    """That a check is watched, that a waiver holds, or that it has expired, under a verdict that is no pass."""
    if check.waiver is None or check.verdict == "pass" or check.watched:
        return check.excuse or ""
    return "waived" if check.waived else "waiver\nexpired" if check.waiver.expired else "not waived"


def _bound(check: CheckResult) -> str:
    """The bound, whose it is where two differ, and what a fair ranker has, which puts it in proportion."""
    whose = "" if check.decided_by is None else f"of {run_remarks.DECIDERS[check.decided_by]}"
    fair = ""
    if check.null_median is not None and check.null_p95 is not None:
        fair = f"fair {number(check.null_median)}\n 95% {number(check.null_p95)}"
    return _stacked(words.bound_words(check).replace("margin", "Δ"), whose, fair)


def _stacked(*lines: str) -> str:
    return "\n".join(filter(None, lines))


def _set_words(record: RunRecord, check: CheckResult, worst: WorstSet) -> str:
    """The set's check and subject, its member with the lowest number and, of several, the one with the highest."""
    named = [worst.subject] if check.subject is None and len(words.subjects_of(record)) > 1 else []
    line = f"{clean(worst.set_id, 60)} ({', '.join(clean(name, 80) for name in [*named, check.item])})"
    measured = [member for member in worst.members if member.value is not None]
    if not measured:
        return line
    if words.measured_as(record, check) == words.ANSWERED:
        first = dict[str, MemberResult]()  # to answer so
        for member in measured:
            first.setdefault(member.predicted or "", member)
        shown = [f"{clean(each.group, 80)}, {answer_words(each, 40)}" for answer, each in first.items() if answer]
        return f"{line}: {'; '.join(shown[:2])}" if shown else line
    unit = words.measured_as(record, check)
    low = min(measured, key=lambda member: member.value or 0.0)
    high = max(measured, key=lambda member: member.value or 0.0)
    taken = f"taken for {clean(low.predicted, 40)}" if low.predicted and low.correct is False else ""
    value = value_words(unit, low)
    line += f": {', '.join(filter(None, (clean(low.group, 80), '' if value == 'wrong' and taken else value, taken)))}"
    return line if low is high else f"{line}; {clean(high.group, 80)}, {value_words(unit, high, short=True)}"


def baseline_lines(record: RunRecord) -> list[str]:
    """The checkpoint, data and commit of a baseline's record, and the reason that was given for it."""
    commit = record.environment.git_commit
    return [f"{name}: {fact}" for name, fact in _facts(record).items()] + [
        f"made: {words.moment(record.created_at)}, fairgate {clean(record.environment.fairgate, 40)}"
        + (f", at commit {clean(commit[:12], 12)}" if commit else ""),
    ]


def _narrow_names(width: int) -> int:
    return _NARROW_CHECK + max(0, width - _NARROWEST)


def baseline_table(record: RunRecord, width: int = _NARROWEST) -> Table:
    """Every check's value in a baseline's record, for a terminal of `width` columns."""
    rows = [
        [
            fold_name(check.item, _narrow_names(width)),
            with_interval(number(check.value, check.status), check.lo, check.hi),
            words.bound_words(check),
            ", ".join(filter(None, [f"{words.SYMBOL[check.verdict]} {verdict_name(check, record)}", check.excuse])),
        ]
        for check in record.checks
    ]
    return text_table(("check", ">value", ">bound", "verdict"), rows, padding=(0, 1, 0, 0))


def difference_lines(before: RunRecord, now: RunRecord) -> list[str]:
    """What differs between two records, apart from their numbers."""
    then, other = _facts(before), _facts(now)
    lines = [f"{name}: {then[name]} -> {other[name]}" for name in then if then[name] != other[name]]
    if before.probes != now.probes:
        names = [name for name in {**before.probes, **now.probes} if before.probes.get(name) != now.probes.get(name)]
        lines.append(
            f"other prompts or labels: {', '.join(clean(name, 60) for name in names)}: values are not comparable there"
        )
    return lines or ["the same checkpoint, on the same data"]


def difference_table(before: RunRecord, now: RunRecord) -> Table:
    """Every check's value in both, and the change."""
    old = {check.item: check for check in before.checks}
    new = {check.item: check for check in now.checks}
    rows = []
    for item in dict.fromkeys([*new, *old]):
        earlier, other = old.get(item), new.get(item)
        change = None
        if earlier is not None and other is not None and earlier.value is not None and other.value is not None:
            change = other.value - earlier.value
        values = [ABSENT if check is None else number(check.value, check.status) for check in (earlier, other)]
        rows.append([clean(item, 80), *values, signed(change)])
    return text_table(("~check", ">before", ">now", ">change"), rows, padding=(0, 1))


def _facts(record: RunRecord) -> dict[str, str]:
    data, model = record.dataset, record.model
    return {
        "verdict": record.verdict,
        "reason": clean(record.baseline_reason, 300) if record.baseline_reason else "none was given",
        "model": f"{clean(model.uri, 200)} ({clean(model.fingerprint[:12], 12)})",
        "dataset": f"{clean(data.name, 80)}/{clean(data.version, 20)} ({clean(data.fingerprint[:12], 12)})",
    }
