"""Gendered words of captions, each with its counterpart and its neutral word: Smith et al. 2023, table 4, and more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Gender = Literal["male", "female"]
"""The gender that a caption names: a word for who is perceived, in the annotators' eyes."""

Row = tuple[str, str, str]
"""(masculine, feminine, neutral)"""

TABLE_4: tuple[Row, ...] = (
    ("man", "woman", "person"),
    ("men", "women", "people"),
    ("male", "female", "person"),
    ("boy", "girl", "child"),
    ("boys", "girls", "children"),
    ("gentleman", "lady", "person"),
    ("father", "mother", "parent"),
    ("husband", "wife", "partner"),
    ("boyfriend", "girlfriend", "partner"),
    ("brother", "sister", "sibling"),
    ("son", "daughter", "child"),
    ("he", "she", "they"),
    ("his", "hers", "theirs"),
    ("him", "her", "them"),
)
"""The published rows. The paper prints `their` for his/hers; `his` and `her` have two uses each, which are told apart
(`fairgate.steps.caption_gender`): his bike -> their bike, the bike is his -> theirs; her bike, next to her."""

OF_THE_CODE: tuple[Row, ...] = (
    ("uncle", "aunt", "relative"),
    ("nephew", "niece", "relative"),
    ("males", "females", "people"),
    ("gentlemen", "ladies", "people"),
    ("fathers", "mothers", "parents"),
    ("husbands", "wives", "partners"),
    ("boyfriends", "girlfriends", "partners"),
    ("brothers", "sisters", "siblings"),
    ("sons", "daughters", "children"),
    ("uncles", "aunts", "relatives"),
    ("nephews", "nieces", "relatives"),
)
"""What the authors' code for Bias@K has besides, and the plurals of every row."""

WIDER: tuple[Row, ...] = (
    ("himself", "herself", "themselves"),
    ("guy", "gal", "person"),
    ("guys", "gals", "people"),
    ("dad", "mom", "parent"),
    ("dads", "moms", "parents"),
    ("daddy", "mommy", "parent"),
    ("papa", "mama", "parent"),
    ("grandfather", "grandmother", "grandparent"),
    ("grandpa", "grandma", "grandparent"),
    ("groom", "bride", "newlywed"),
    ("businessman", "businesswoman", "businessperson"),
    ("businessmen", "businesswomen", "businesspeople"),
    ("policeman", "policewoman", "police officer"),
    ("policemen", "policewomen", "police officers"),
    ("fireman", "firewoman", "firefighter"),
    ("firemen", "firewomen", "firefighters"),
    ("salesman", "saleswoman", "salesperson"),
    ("waiter", "waitress", "server"),
    ("actor", "actress", "performer"),
)
"""Words that the paper's list leaves out ("rarer gendered terms"): for those who want fewer traces of gender."""

_NO_PERSON = r"(?!-(?i:made|sized?|eating|eater|hole|kind|powered)\b)"


@dataclass(frozen=True)
class GenderWords:
    """Rows to label, neutralise and swap by. `WORDS` are the published ones, `WIDER_WORDS` more."""

    rows: tuple[Row, ...]

    @cached_property
    def gender(self) -> Mapping[str, Gender]:
        """Word, in lower case -> the gender that it names."""
        return {
            **{masculine: "male" for masculine, _, _ in self.rows},
            **{feminine: "female" for _, feminine, _ in self.rows},
        }

    @cached_property
    def neutral(self) -> Mapping[str, str]:
        """Gendered word -> neutral word; the first row of a word decides."""
        return _first((word, neutral) for masculine, feminine, neutral in self.rows for word in (masculine, feminine))

    @cached_property
    def opposite(self) -> Mapping[str, str]:
        """Gendered word -> its counterpart of the other gender."""
        pairs = [(masculine, feminine) for masculine, feminine, _ in self.rows]
        return _first([*pairs, *((feminine, masculine) for masculine, feminine in pairs)])

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A gendered word with nothing of a word on either side; group 1 is the word. Not the man of `man-made`.

        Letters that Unicode folds into ASCII's ("gİrl", "ſhe") make no gendered word, and are letters beside one.
        """
        words = "|".join(sorted(map(re.escape, self.gender), key=len, reverse=True))
        return re.compile(rf"(?<!\w)((?ai:{words}))(?!\w){_NO_PERSON}")


def _first(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word, other in pairs:
        found.setdefault(word, other)
    return found


WORDS = GenderWords(TABLE_4 + OF_THE_CODE)
WIDER_WORDS = GenderWords(TABLE_4 + OF_THE_CODE + WIDER)
