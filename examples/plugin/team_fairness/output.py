"""An output: `verdict.txt`, one line in a run's report folder, for a chat or another tool of the team."""

from __future__ import annotations

from fairgate.records import RunRecord
from fairgate.reports import Output, OutputContext


def render(record: RunRecord, context: OutputContext) -> bytes:
    """The suite and its verdict."""
    return f"{record.suite}: {record.verdict}\n".encode()


VERDICT = Output("verdict", "verdict.txt", ("gate", "render"), render)
