"""Text in GitHub's Markdown that reads as it was written, and does nothing."""

from __future__ import annotations

import html
import re
from typing import Final

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
