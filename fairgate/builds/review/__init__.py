"""People look at a build: a local page, a blind sample, records of marks, figures for the card, and the release."""

from __future__ import annotations

from fairgate.builds.review.figures import SENTENCE, ZeroShot, figures_of, percent
from fairgate.builds.review.marks import INSTRUCTIONS, Keeper, read_records
from fairgate.builds.review.releasing import (
    FinishedBuild,
    ReleaseOptions,
    find_build,
    release,
    release_or_build,
    review_command,
    reviewed,
)
from fairgate.builds.review.sample import Sample, draw_sample
from fairgate.builds.review.section import review_section
from fairgate.builds.review.server import ReviewServer
from fairgate.builds.review.session import Session, opened_line

__all__ = [
    "INSTRUCTIONS",
    "SENTENCE",
    "FinishedBuild",
    "Keeper",
    "ReleaseOptions",
    "ReviewServer",
    "Sample",
    "Session",
    "ZeroShot",
    "draw_sample",
    "figures_of",
    "find_build",
    "opened_line",
    "percent",
    "read_records",
    "release",
    "release_or_build",
    "review_command",
    "review_section",
    "reviewed",
]
