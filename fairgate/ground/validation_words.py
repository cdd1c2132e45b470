"""What a value should have been, in words for a reader: the validator's own messages speak of patterns and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = "lower case letters, digits, - and _ are expected, a letter or digit first"
_HASH: Final = "64 digits of a SHA-256 are expected"
_PATTERNS: Final = {
    r"^[a-z0-9][a-z0-9_-]*$": _NAME,
    r"^[a-z0-9][a-z0-9_-]*(@v[0-9]+)?$": f"{_NAME}, and `@v1` behind them for a version",
    r"^[a-z][a-z_]{0,31}$": "at most 32 lower case letters and _ are expected, a letter first",
    r"^[0-9a-f]{64}$": _HASH,
    r"^(none|[0-9a-f]{40}|[0-9a-f]{64})$": f"{_HASH}, or 40 of a commit, or `none`",
}
_MOST: Final = 160
"""Characters of a list of names that are shown; a remedy suggests the nearest of a longer one."""
_WORDS: Final = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such key",
    "string_type": "text is expected",
    "string_too_long": "at most {max_length} characters are allowed",
    "string_too_short": "text is expected, and it is empty",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number is expected"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number is expected"),
    "finite_number": "a finite number is expected",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false is expected"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list is expected"),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "a mapping of keys is expected"
    ),
    "too_short": "its number of entries is {actual_length}, and at least {min_length} is expected",
    "too_long": "its number of entries is {actual_length}, and at most {max_length} is allowed",
    "greater_than_equal": "at least {ge} is expected",
    "greater_than": "more than {gt} is expected",
    "less_than_equal": "at most {le} is allowed",
    "less_than": "less than {lt} is expected",
    **dict.fromkeys(("path_type", "path_not_file", "path_not_directory"), "a path is expected"),
    "none_required": "no value is expected",
    "union_tag_not_found": "it has no {discriminator}",
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing"), "a date is expected, YYYY-MM-DD"),
}


def fault_words(fault: Mapping[str, Any]) -> str:
    """What a fault of `ValidationError.errors()` means, without a full stop.

    >>> fault_words({"type": "int_type", "msg": "Input should be a valid integer"})
    'a whole number is expected'
    """
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(str(context.get("pattern")), "the text has another form than is expected")
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        expected = str(context.get("expected", context.get("expected_tags")))
        given = context.get("tag", fault.get("input"))
        named = f"'{given:.60}'" if isinstance(given, str) else "it"
        return f"{expected} is expected" if len(expected) <= _MOST else f"{named} is none of the known names"
    if kind in _WORDS:
        return _WORDS[kind].format_map({name: _short(value) for name, value in context.items()})
    if kind == "value_error":  # fairgate's own words
        message: str = fault["msg"].removeprefix("Value error, ")
        return message
    return "another value is expected"


def _short(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
