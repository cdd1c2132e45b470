"""Texts: as names of files, and which sign separates the columns of a CSV file."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import IO, Any

from fairgate.ground.errors import FairgateError


def slug(*parts: str) -> str:
    """Texts as a part of a file's name: lower letters, digits and single hyphens.

    >>> slug("entropy", "skin_tone × gender")
    'entropy-skin-tone-gender'
    """
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-") or "x"


def csv_text(columns: Sequence[object], lines: Iterable[Sequence[object]]) -> str:
    """A CSV file: a header, and lines that end as on Unix."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *lines])
    return text.getvalue()


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The `object_pairs_hook` of JSON from strangers. Raises ValueError for a key that is twice in one object."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        doubled = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key '{doubled:.60}' is twice in one object")
    return entries


SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
LONGEST_ROW = 1 << 20
"""Characters of one row, over as many lines as its quoted fields have: a .gz unpacks a thousandfold."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def find_separator(text: IO[str], where: str, failure: type[FairgateError]) -> str:
    """Of comma, semicolon and tab the one that is most often in the header outside of quotes; a comma where none is.

    Raises `failure` where two are there equally often.
    """
    lines = [text.readline(LONGEST_ROW)]
    length, quotes = len(lines[0]), lines[0].count('"')
    while quotes % 2 and length < LONGEST_ROW and (line := text.readline(LONGEST_ROW)):
        lines.append(line)  # a quoted name may hold a line break
        length, quotes = length + len(line), quotes + line.count('"')
    header = _QUOTED.sub("", "".join(lines))
    counts = {separator: header.count(separator) for separator in SEPARATOR_NAMES}
    most = max(counts.values())
    best = [separator for separator, count in counts.items() if count == most]
    if len(best) > 1 and most:
        raise failure(
            f"{' and '.join(SEPARATOR_NAMES[mark] for mark in best)} cut the header into equally many columns "
            f"({most + 1}).",
            where=f"{where}:1",
            remedy="quote the names of columns that hold one of them",
        )
    return best[0]


def without_json(value: str) -> str:
    """A value of a suite, as its definition is compared, without the marks of JSON.

    >>> without_json('{"until": "2027-03-01", "reason": "retraining"}')
    'until: 2027-03-01, reason: retraining'
    """
    return re.sub(r'[{}\[\]"]', "", value) if value.startswith(("{", "[")) else value
