"""The table under pytest's output."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fairgate.reports import github_annotations, terminal_summary, terminal_table
from fairgate.reports.formatting import verdict_words
from fairgate.reports.run_comment import append_summary

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from fairgate.pytest_plugin.session import GateSession
    from fairgate.records import RunRecord


def summarise(reporter: TerminalReporter, session: GateSession) -> None:
    """Table, totals, and where the reports are, for every suite that was evaluated."""
    session.collect_shared()
    for name, record in session.records.items():
        reporter.section(f"fairness suite {name}: {verdict_words(record)}", red=not record.ok, green=record.ok)
        width = max(reporter._tw.fullwidth, 120)
        reporter.write(_rendered(record, width, color=reporter.hasmarkup))
        for line in [*terminal_summary(record), *session.messages.get(name, ())]:
            reporter.write_line(line)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in github_annotations(record):
                reporter.write_line(line)
        if (page := os.environ.get("GITHUB_STEP_SUMMARY")) and (trouble := append_summary(record, Path(page))):
            reporter.write_line(trouble)


def _rendered(record: RunRecord, width: int, *, color: bool) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, force_terminal=color, no_color=not color)
    with console.capture() as captured:
        console.print(terminal_table(record))
    return captured.get()
