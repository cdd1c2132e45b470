"""report.html: one file that needs nothing else, readable anywhere and for years."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Final

from fairgate.records import RunRecord
from fairgate.reports import remarks, words
from fairgate.reports.history import HistoryPoint
from fairgate.reports.page import Limits, page_of, safe_link
from fairgate.reports.pictures import MOST_SETS, PictureSource, album, wanted_sets

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_BYTES: Final = 5_000_000
_LEVELS: Final = (
    Limits(
        failing=60,
        waived=30,
        passing=300,
        changes=200,
        group_rows=1500,
        tables=30,
        subjects=40,
        picture_chars=3_000_000,
    ),
    Limits(
        failing=30, waived=10, passing=150, changes=50, group_rows=400, tables=10, subjects=20, picture_chars=2_000_000
    ),
    Limits(failing=10, waived=5, passing=50, changes=20, group_rows=100, tables=3, subjects=10, picture_chars=500_000),
)


def render_html(
    record: RunRecord, pictures: PictureSource | None, history: Sequence[HistoryPoint] | None = None
) -> str:
    """The page as text, under 5 MB in UTF-8. It loads nothing: no script, no font, no address is fetched.

    `pictures` is asked once, for the sets that are shown, and answers with encoded pictures; None, or an answer without
    pictures, is for datasets that have scores only. `history` holds what earlier runs measured, oldest first; a check
    that has fewer than two numbers in it, with this run's, shows none. What does not fit is left to results.json, and
    the page says so.
    """
    sets = wanted_sets(words.reading_order(record.checks))
    given = pictures(sets[:MOST_SETS]) if pictures is not None and sets else {}
    text = ""
    for limits in _LEVELS:
        page = page_of(record, album(given, sets, limits.picture_chars), limits, history or ())
        style = _style()
        text = _environment().get_template("report.html.j2").render(page=page, record=record, **style)
        if len(text.encode()) <= MAX_BYTES:
            break
    return text


def _style() -> dict[str, str]:
    """The style sheet and its hash, which is the only style that the page's policy admits."""
    css = resources.files("fairgate.reports").joinpath("templates/report.css").read_text(encoding="utf-8")
    return {"css": css, "css_hash": base64.b64encode(hashlib.sha256(css.encode()).digest()).decode("ascii")}


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("fairgate.reports", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "bound": words.bound_words,
        "owner": lambda check: remarks.DECIDERS[check.decided_by],
        "other_decider": remarks.other_decider,
        "decider": remarks.decider_words,
        "provenance": remarks.provenance,
        "reference": words.reference,
        "standing": words.standing,
        "waiver": remarks.waiver_words,
        "clean": words.clean,
        "interval": words.interval,
        "link": safe_link,
        "metric": words.metric_words,
        "moment": words.moment,
        "name": words.check_name,
        "number": words.number,
        "p": words.p_value,
        "share": words.share_words,
        "signed": words.signed,
        "ties": words.tie_words,
    }
    made.globals |= {
        "headline": words.headline_verdict,
        "coverage": words.coverage_words,
        "headline_of": words.findings_headline,
        "symbol": words.SYMBOL,
        "totals": words.totals,
        "verdict": words.verdict_words,
        "why_absent": words.why_absent,
    }
    return made
