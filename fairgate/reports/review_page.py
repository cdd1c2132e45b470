"""The page on which raters mark images: one document with its style and script inside, and headers that admit nothing
else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.data import Manifest
from fairgate.reports.standalone_page import page_policy, render_page

_OWN: Final = {"img-src": "'self'", "connect-src": "'self'"}
_HEADERS: Final = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Page:
    """`html`, and the headers of every answer of its server."""

    html: bytes
    headers: dict[str, str]


def render_review(manifest: Manifest, instructions: Sequence[str]) -> Page:
    """The page of a dataset. What is in the data reaches it as JSON and is set as text; no markup is made of it."""
    text = render_page("review", admit=_OWN, name=manifest.name, notice=manifest.notice, instructions=instructions)
    more = {"frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'"}
    return Page(text.encode(), {"Content-Security-Policy": page_policy("review", _OWN | more), **_HEADERS})
