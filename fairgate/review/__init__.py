"""People look at a build: a local page, a blind sample, records of marks, figures for the card, and the release."""

from __future__ import annotations

from fairgate.review.builds import FinishedBuild, find_build, review_command
from fairgate.review.figures import figures_of, percent
from fairgate.review.instructions import INSTRUCTIONS
from fairgate.review.marks import Keeper, read_records
from fairgate.review.releasing import ReleaseOptions, release, reviewed
from fairgate.review.sample import Sample, draw_sample
from fairgate.review.section import review_section
from fairgate.review.server import ReviewServer
from fairgate.review.session import Session, opened_line
from fairgate.review.zero_shot import SENTENCE, ZeroShot

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
    "review_command",
    "review_section",
    "reviewed",
]
