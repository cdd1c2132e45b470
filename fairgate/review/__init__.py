"""People look at a build: a local page, a blind sample, records of marks, figures for the card, and the release."""

from __future__ import annotations

from fairgate.review.builds import FinishedBuild, find_build
from fairgate.review.figures import Figures, figures_of
from fairgate.review.marks import Record, read_records
from fairgate.review.release import release
from fairgate.review.sample import Sample, draw_sample
from fairgate.review.section import review_section
from fairgate.review.server import ReviewServer
from fairgate.review.session import Session

__all__ = [
    "Figures",
    "FinishedBuild",
    "Record",
    "ReviewServer",
    "Sample",
    "Session",
    "draw_sample",
    "figures_of",
    "find_build",
    "read_records",
    "release",
    "review_section",
]
