"""The page itself: one document with its style and script inside, and the headers that admit nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairgate.data import Manifest
from fairgate.review.instructions import INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class Page:
    """`html`, and the headers of every answer of its server."""

    html: bytes
    headers: dict[str, str]


def review_page(manifest: Manifest) -> Page:
    """The page of a dataset. What is in the data reaches it as JSON and is set as text; no markup is made of it."""
    from fairgate.reports.kit import render_standalone

    text = render_standalone(
        "fairgate.review",
        "review.html.j2",
        "review.css",
        script="review.js",
        name=manifest.name,
        notice=manifest.notice,
        instructions=INSTRUCTIONS,
    )
    admitted = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert admitted is not None
    policy = f"{admitted[1]}; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    return Page(
        text.encode(),
        {
            "Content-Security-Policy": policy,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cache-Control": "no-store",
        },
    )
