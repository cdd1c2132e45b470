"""Texts as names of files."""

from __future__ import annotations

import re


def slug(*parts: str) -> str:
    """Texts as a part of a file's name: lower letters, digits and single hyphens.

    >>> slug("entropy", "skin_tone × gender")
    'entropy-skin-tone-gender'
    """
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-") or "x"
