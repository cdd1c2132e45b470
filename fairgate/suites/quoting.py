"""Texts as a first suite writes them in YAML."""

from __future__ import annotations

import json
import re

_BREAKS = re.compile(r"[\x7f-\x9f\u2028\u2029]")
"""What YAML refuses, or folds as the end of a line, and JSON writes as it is."""


def as_json(value: object) -> str:
    """JSON that YAML reads as the same."""
    return _BREAKS.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def quoted(text: str) -> str:
    """Plain where YAML reads it back as it is, else in double quotes."""
    plain = text.replace("_", "").replace("-", "").replace(" ", "").isalpha() and text == text.strip()
    spoken = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if plain and not spoken and text.isascii() and text[0] != "-" else f'"{escaped}"'
