"""Reports: the page, the comment, the table and the file that a run record is rendered as.

Pages of audits, histories and power, and the review page, are imported from their modules: they load more libraries.
"""

from __future__ import annotations

from fairgate.reports.ci import github_annotations, inert, junit_properties, junit_suite_properties
from fairgate.reports.formatting import (
    SYMBOL,
    common_cause,
    no_interval_words,
    null_words,
    share_words,
    tie_words,
    totals,
    verdict_words,
)
from fairgate.reports.notes import verdict_notes
from fairgate.reports.results import flat_metrics, read_results, write_metrics, write_results
from fairgate.reports.run_comment import append_summary, job_summary, render_comment
from fairgate.reports.run_page import render_html
from fairgate.reports.run_terminal import (
    baseline_lines,
    baseline_table,
    difference_lines,
    difference_table,
    terminal_summary,
    terminal_table,
)
from fairgate.reports.sentences import by_attribute

__all__ = [
    "SYMBOL",
    "append_summary",
    "baseline_lines",
    "baseline_table",
    "by_attribute",
    "common_cause",
    "difference_lines",
    "difference_table",
    "flat_metrics",
    "github_annotations",
    "inert",
    "job_summary",
    "junit_properties",
    "junit_suite_properties",
    "no_interval_words",
    "null_words",
    "read_results",
    "render_comment",
    "render_html",
    "share_words",
    "terminal_summary",
    "terminal_table",
    "tie_words",
    "totals",
    "verdict_notes",
    "verdict_words",
    "write_metrics",
    "write_results",
]
