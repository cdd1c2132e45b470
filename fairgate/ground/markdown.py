"""Text in GitHub's Markdown that reads as it was written, and does nothing."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from fairgate.ground.errors import clean

_PUNCTUATION: Final = re.compile(r"([\\`*_{}\[\]()#|~^$])")
_AUTOLINKED: Final = re.compile(r"([@#]|GH-|://|www)", re.IGNORECASE)
_BREAK: Final = "\u200b"


def literal(line: str) -> str:
    """A line for any place in Markdown, table cells included.

    HTML becomes entities and punctuation is escaped. GitHub finds mentions, issue numbers and bare addresses in the
    finished text, where escapes are gone: so an invisible break follows what would start one.
    """
    unlinked = _AUTOLINKED.sub(rf"\1{_BREAK}", line)
    return _PUNCTUATION.sub(r"\\\1", html.escape(unlinked, quote=False))


def escape(text: str, limit: int | None = None) -> str:
    """One line of foreign text for any place in Markdown, table cells included."""
    return literal(clean(text, limit))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are already Markdown. The first column reads left, so do the others."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fenced(*lines: str, language: str = "sh") -> str:
    """A code block that the lines cannot end."""
    shown = "\n".join(map(clean, lines))
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def folded(summary: str, body: str) -> str:
    """A section that opens on demand. `summary` must be our own words."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def web_address(url: str | None) -> str | None:
    """An http(s) address as a link may carry it, percent-encoded where Markdown would stumble; else None."""
    if url is None or clean(url) != url or urlsplit(url).scheme not in ("http", "https"):
        return None
    encoded = {"(": "%28", ")": "%29", "<": "%3C", ">": "%3E", '"': "%22", " ": "%20", "\\": "%5C", "|": "%7C"}
    return "".join(encoded.get(c, c) for c in url)
