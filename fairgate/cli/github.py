"""What a GitHub runner is told of a record: annotations on its output, and a section of the job's summary page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import typer

from fairgate.records import RunRecord


def tell_github(record: RunRecord, environment: Mapping[str, str] | None = None) -> None:
    """Print annotations where GITHUB_ACTIONS is `true`, and append to the file that GITHUB_STEP_SUMMARY names.

    Does nothing elsewhere. A summary that cannot be written is said on stderr and changes nothing.
    """
    env = os.environ if environment is None else environment
    if env.get("GITHUB_ACTIONS") == "true":
        from fairgate.reports import github_annotations

        for line in github_annotations(record):
            typer.echo(line)
    if summary := env.get("GITHUB_STEP_SUMMARY"):
        from fairgate.reports.run_comment import append_summary

        trouble = append_summary(record, Path(summary))
        if trouble is not None:
            typer.echo(trouble, err=True)
