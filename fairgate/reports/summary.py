"""The summary page of a GitHub job: suites are appended to it one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fairgate.records import RunRecord
from fairgate.reports.comment import LEAST_CHARS, job_summary

MAX_BYTES: Final = 1024 * 1024
"""GitHub shows nothing at all of a step whose summary is larger."""


def append_summary(record: RunRecord, path: Path) -> str | None:
    """Append the record's summary to the file that GITHUB_STEP_SUMMARY names; None, or why it could not be.

    Where little room is left the short form is taken, and where none is left, nothing. Never raises for a file that
    cannot be written: the verdict stands.
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
