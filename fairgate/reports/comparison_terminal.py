"""An audit in a terminal: one table per question, findings first, the notice last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fairgate.plain_text import clean
from fairgate.records.comparison import AuditRecord, ClassificationAudit, ImplicitAudit, RetrievalAudit
from fairgate.reports.comparison_findings import (
    conclusion_of,
    disagreements,
    findings,
    refusal_words,
    small_differences,
    why_of,
)
from fairgate.reports.formatting import interval, number, p_value, percent_words, signed
from fairgate.reports.text_table import text_table

if TYPE_CHECKING:
    from rich.table import Table

_SUBJECTS: Final = 6
"""Subjects that get a column of their own in a terminal."""
_FINDINGS: Final = 8
_PAIRS: Final = 20


def terminal_tables(record: AuditRecord) -> Iterator[Table]:
    """Every table of the audit that a terminal has room for; the rest is in audit.html and audit.csv."""
    for probe in record.probes:
        if isinstance(probe, ClassificationAudit):
            yield _fairness(probe)
            if probe.pairs:
                yield _pairs(probe) if record.dataset.counterfactual else _accuracies(probe)
        elif isinstance(probe, ImplicitAudit):
            yield _implicit(probe)
        else:
            if probe.recall:
                yield _recall(probe)
            if probe.summaries:
                yield _skews(probe)
            if probe.within:
                yield _within(probe)


def terminal_lines(record: AuditRecord) -> list[str]:
    """Plain lines after the tables: findings, what could not be computed, how to read, the notice."""
    found = findings(record)
    lines = [f"• {text}" for text in found[:_FINDINGS]]
    if len(found) > _FINDINGS:
        lines.append(f"  and {len(found) - _FINDINGS} more in the report")
    if small := small_differences(record):
        lines.append(f"  {small}")
    several = sum(isinstance(probe, ClassificationAudit) for probe in record.probes) > 1
    for probe in record.probes:
        if isinstance(probe, ClassificationAudit):
            of_probe = f"{clean(probe.name, 60)}: " if several else ""
            for pairs, why in disagreements(pair for pair in probe.pairs if pair.subject is None):
                named = ", ".join(f"{clean(pair.first, 24)} → {clean(pair.second, 24)}" for pair in pairs)
                lines.append(f"* {of_probe}{clean(named, 200)}: {why}")
        lines += refusal_words(probe.refusals)
    lines += [f"left out: {clean(over)}: {clean(reason)}" for over, reason in record.left_out.items()]
    lines.append(f"reproduce: {clean(record.command)}")
    if record.dataset.notice:
        lines.append(f"note: {clean(record.dataset.notice)}")
    return lines


def _titled(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Numbers by what the first column names."""
    return text_table((names[0], *(f">{name}" for name in names[1:])), rows, title=title, wrap_first=True)


def _fairness(probe: ClassificationAudit) -> Table:
    subjects = list(dict.fromkeys(row.subject for row in probe.fairness if row.subject is not None))[:_SUBJECTS]
    of = {(row.model, row.subject): row for row in probe.fairness}
    overall = [row for row in probe.fairness if row.subject is None]
    rows = [
        [
            clean(row.model, 40),
            f"{number(row.fairness)} {interval(row.lo, row.hi)}".rstrip(),
            f"{number(row.accuracy)} {interval(row.accuracy_lo, row.accuracy_hi)}",
            *(number(of[row.model, subject].fairness) for subject in subjects),
        ]
        for row in sorted(overall, key=lambda row: -(row.fairness or 0.0))
    ]
    names = ["model", "F_M", "accuracy", *(clean(subject, 12) for subject in subjects)]
    return _titled(f"{probe.name}: F_M and accuracy", names, rows)


def _pairs(probe: ClassificationAudit) -> Table:
    pairs = [pair for pair in probe.pairs if pair.subject is None]
    rows = [
        [
            f"{clean(pair.first, 24)} → {clean(pair.second, 24)}",
            signed(pair.delta),
            p_value(pair.p_mood_adjusted),
            f"{signed(pair.spread_delta)} {interval(pair.spread_lo, pair.spread_hi)}".rstrip(),
            p_value(pair.p_paired),
            signed(pair.accuracy_delta),
            conclusion_of(pair, probe.margin) + (" *" if why_of(pair) else ""),
        ]
        for pair in pairs[:_PAIRS]
    ]
    more = f" (first {_PAIRS} of {len(pairs)})" if len(pairs) > _PAIRS else ""
    names = ["models", "ΔF_M", "Mood p", "Δ spread", "paired p", "Δ accuracy", "set by set"]
    table = _titled(f"{probe.name}: second against first{more}", names, rows)
    if any(why_of(pair) for pair in pairs):
        table.caption = "* Mood’s test and the paired test disagree, for the reason below"
    return table


def _accuracies(probe: ClassificationAudit) -> Table:
    """Pairs of models on single images, which have no spread inside a set."""
    pairs = [pair for pair in probe.pairs if pair.subject is None][:_PAIRS]
    rows = [
        [
            f"{clean(pair.first, 24)} → {clean(pair.second, 24)}",
            f"{signed(pair.accuracy_delta)} {interval(pair.accuracy_lo, pair.accuracy_hi)}",
            p_value(pair.p_accuracy),
        ]
        for pair in pairs
    ]
    return _titled(f"{probe.name}: second against first", ["models", "Δ accuracy", "paired p"], rows)


def _implicit(probe: ImplicitAudit) -> Table:
    rows = []
    for over, model in dict.fromkeys((row.over, row.model) for row in probe.groups):
        ordered = sorted((r for r in probe.groups if (r.over, r.model) == (over, model)), key=lambda row: row.mean)
        ends = [f"{clean(row.group, 40)} {number(row.mean)}" for row in (ordered[0], ordered[-1])]
        rows.append([clean(model, 40), clean(over, 40), *ends, number(probe.spread(model, over))])
    title = f"{probe.name}: P(“{clean(probe.positive, 60)}”) by group"
    return _titled(title, ["model", "over", "lowest", "highest", "spread"], rows)


def _recall(probe: RetrievalAudit) -> Table:
    rows = [
        [clean(row.model, 40), f"{number(row.value)} {interval(row.lo, row.hi)}", str(row.k)] for row in probe.recall
    ]
    return _titled(f"{probe.name}: utility", ["model", "R@k", "k"], rows)


def _skews(probe: RetrievalAudit) -> Table:
    rows = [
        [
            clean(row.model, 40),
            f"{clean(row.over, 40)} @{row.k}",
            number(row.mean),
            number(row.median),
            f"{number(row.lowest)} to {number(row.highest)}",
            f"{number(row.null_median)}, {number(row.null_p95)}",
            f"{row.beyond} of {row.subjects}",
        ]
        for row in sorted(probe.summaries, key=lambda row: (row.k, row.over.count("×"), row.over))
    ]
    names = ["model", "over", "mean", "median", "lowest to highest", "fair: median, 95%", "beyond 95%"]
    return _titled(f"{probe.name}: MaxSkew over {'subjects' if probe.kind == 'retrieval' else 'words'}", names, rows)


def _within(probe: RetrievalAudit) -> Table:
    value = {(row.model, row.fixed, row.over, row.k, row.group): row.value for row in probe.within}
    rows = []
    for row in probe.differences:
        key = (row.model, row.fixed, row.over, row.k)
        rows.append(
            [
                clean(row.model, 40),
                f"{clean(row.over, 30)} within {clean(row.fixed, 30)} @{row.k}",
                f"{clean(row.lowest, 30)} {number(value[*key, row.lowest])}",
                f"{clean(row.highest, 30)} {number(value[*key, row.highest])}",
                percent_words(row.value),
                f"{percent_words(row.null_median)}, {percent_words(row.null_p95)}",
            ]
        )
    names = ["model", "MaxSkew of", "lowest", "highest", "relative difference", "fair: median, 95%"]
    return _titled(f"{probe.name}: one attribute within each group of another", names, rows)
