"""Texts as a first suite writes them in YAML."""

from __future__ import annotations


def quoted(text: str) -> str:
    """Plain where YAML reads it back as it is, else in double quotes."""
    plain = text.replace("_", "").replace("-", "").replace(" ", "").isalpha() and text == text.strip()
    spoken = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if plain and not spoken and text.isascii() and text[0] != "-" else f'"{escaped}"'
