"""Reports: the page, the comment, the table and the file that a run record is rendered as."""

from __future__ import annotations

from fairgate.reports.ci import github_annotations, junit_properties, junit_suite_properties
from fairgate.reports.formatting import common_cause
from fairgate.reports.results import flat_metrics, read_results, write_metrics, write_results
from fairgate.reports.run_comment import job_summary, render_comment
from fairgate.reports.run_page import render_html
from fairgate.reports.run_terminal import terminal_summary, terminal_table

__all__ = [
    "common_cause",
    "flat_metrics",
    "github_annotations",
    "job_summary",
    "junit_properties",
    "junit_suite_properties",
    "read_results",
    "render_comment",
    "render_html",
    "terminal_summary",
    "terminal_table",
    "write_metrics",
    "write_results",
]
