"""Reports: the page, the comment, the table and the file that a run record is rendered as."""

from __future__ import annotations

from fairgate.reports.comment import job_summary, render_comment
from fairgate.reports.github import github_annotations
from fairgate.reports.history import HistoryPoint
from fairgate.reports.html import render_html
from fairgate.reports.junit import junit_properties, junit_suite_properties
from fairgate.reports.metrics import flat_metrics, write_metrics
from fairgate.reports.results import read_results, results_schema, write_results
from fairgate.reports.terminal import terminal_summary, terminal_table
from fairgate.reports.words import common_cause

__all__ = [
    "HistoryPoint",
    "common_cause",
    "flat_metrics",
    "github_annotations",
    "job_summary",
    "junit_properties",
    "junit_suite_properties",
    "read_results",
    "render_comment",
    "render_html",
    "results_schema",
    "terminal_summary",
    "terminal_table",
    "write_metrics",
    "write_results",
]
