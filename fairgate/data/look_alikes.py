"""Names that look alike: 'dark' with a Cyrillic a, a space at the end, a letter of no width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from fairgate.errors import DatasetError

_LATIN: Final = str.maketrans(
    "аеорсухіјѕһԁԛԝАВЕКМНОРСТУХІЈЅαορνιΑΒΕΖΗΙΚΜΝΟΡΤΥΧɑɡıո",
    "aeopcyxijshdqwABEKMHOPCTYXIJSaopviABEZHIKMNOPTYXagin",
)
"""Cyrillic, Greek and other letters that are drawn as Latin ones, of Unicode's confusables (UTS 39)."""


def skeleton(name: str) -> str:
    """A name as a reader sees it: equal for names that look alike.

    >>> skeleton("d\\u0430rk\\u200b ") == skeleton("dark")
    True
    """
    plain = unicodedata.normalize("NFKC", name)
    seen = "".join(letter for letter in plain if unicodedata.category(letter) != "Cf")
    return " ".join(seen.translate(_LATIN).split())


def look_alikes(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two different names of a list that look alike, or None."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(skeleton(name), name)) != name:
            return other, name
    return None


def difference(one: str, other: str) -> str:
    """Where two names that look alike differ first, in code points.

    >>> difference("dark", "d\\u0430rk")
    "letter 2 is U+0061 LATIN SMALL LETTER A in one and U+0430 CYRILLIC SMALL LETTER A in the other"
    """
    place = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    first, second = (_named(name[place : place + 1]) for name in (one, other))
    return f"letter {place + 1} is {first} in one and {second} in the other"


def require_distinct(names: Iterable[str], what: str, where: str) -> None:
    """Raise DatasetError where two of the names look alike; `what` says what they are, `groups of 'race'`."""
    if (pair := look_alikes(names)) is not None:
        raise DatasetError(
            f"two {what} look alike, '{pair[0]}' and '{pair[1]}': {difference(*pair)}.",
            where=where,
            remedy="give them names that look different",
        )


def _named(letter: str) -> str:
    return f"U+{ord(letter):04X} {unicodedata.name(letter, 'without a name')}" if letter else "the end"
