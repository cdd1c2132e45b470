"""What gender captions name, and captions without it: after Smith et al. 2023 ("Balancing the Picture"), section 3.2.

Words are matched on word boundaries, in any case and next to any punctuation ("woman.", "MAN", "man's"). All text other
than gendered words, their endings and their articles is unchanged. Grammar beyond that is not corrected: "she is tall"
becomes "they is tall", as in the paper's own procedure. The use of `her` is decided by the next word alone, not by its
part of speech: "her down jacket" and "her outside pocket" become "them down jacket" and "them outside pocket"; "a
picture of her eating" and "watches her eat" become "a picture of their eating" and "watches their eat".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
"""The published rows. The paper prints `their` for his/hers; `his` and `her` have two uses each (see
`neutralise`): his bike -> their bike, the bike is his -> theirs; her bike, next to her."""

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
        """Gendered word -> neutral word, by the first row of the word."""
        pairs = [(word, neutral) for masculine, feminine, neutral in self.rows for word in (masculine, feminine)]
        return dict(reversed(pairs))

    @cached_property
    def opposite(self) -> Mapping[str, str]:
        """Gendered word -> its counterpart of the other gender, by the first row of the word."""
        pairs = [(masculine, feminine) for masculine, feminine, _ in reversed(self.rows)]
        return dict([*((feminine, masculine) for masculine, feminine in pairs), *pairs])

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A gendered word with nothing of a word on either side; group 1 is the word. Not the man of `man-made`.

        Letters that Unicode folds into ASCII's ("gİrl", "ſhe") make no gendered word, and count as letters around one.
        """
        words = "|".join(sorted(map(re.escape, self.gender), key=len, reverse=True))
        return re.compile(rf"(?<!\w)((?ai:{words}))(?!\w){_NO_PERSON}")


WORDS = GenderWords(TABLE_4 + OF_THE_CODE)
WIDER_WORDS = GenderWords(TABLE_4 + OF_THE_CODE + WIDER)


Named = Literal["none", "male", "female", "both"]

# "her" and "his" before one of these do not belong to what follows: "shows her a phone", "beside her and", "it is his"
_FUNCTION_WORDS = (
    "a an the this that these those some any another each every his their its my your our hers "
    "in on at by with from to of for into onto over under behind beside before after through across around along near "
    "off between against toward towards during without within upon underneath inside outside past about like "
    "and or but while as when who which where because if so than then until since "
    "is are was were has have had can could will would may might must should do does did be been being "
    "up down out away too also again not now there here together"
)
_APART = frozenset(_FUNCTION_WORDS.split())
_NEXT_WORD = re.compile(r"\s+[\"'“‘(]*([^\W_]+(?:[-'’][^\W_]+)*)")
_PLURAL_OWNS = re.compile(r"['’](?=\s+\w)")
_IN_QUOTES = re.compile(r"(?<!\w)['‘](?!\s)(?:[^'’‘]|(?<=\w)['’](?=\w))*\Z")
_APOSTROPHE_S = re.compile(r"(['’])(s)(?!\w)", re.IGNORECASE)
_ARTICLE_BEFORE = re.compile(r"(?<!\w)(a)n?(?=\s+$)", re.IGNORECASE)


def named_gender(caption: str, words: GenderWords = WORDS) -> Named:
    """Which gender the words of a caption name.

    >>> [named_gender(text) for text in ("Portrait of a woman.", "He and a girl", "a doctor")]
    ['female', 'both', 'none']
    """
    found = {words.gender[match[1].lower()] for match in words.pattern.finditer(caption)}
    if len(found) == 1:
        return found.pop()
    return "both" if found else "none"


def image_gender(captions: Iterable[str], words: GenderWords = WORDS) -> Gender | None:
    """The gender of an image: that of its captions, where they name one alone; None where they name both or none.

    >>> image_gender(["A doctor at work.", "The man smiles."]), image_gender(["A man.", "A woman."])
    ('male', None)
    """
    named = named_gender("\n".join(captions), words)
    return named if named in ("male", "female") else None


def neutralise(caption: str, words: GenderWords = WORDS) -> str:
    """The caption with neutral words for gendered ones, in their case; all other text as it was.

    >>> neutralise("A man sleeping with his cat next to him .")
    'A person sleeping with their cat next to them .'
    >>> neutralise("SHE waits for her. The boys' bikes, an uncle's car")
    "THEY waits for them. The children's bikes, a relative's car"
    """

    def put(word: str, after: str) -> str:
        return "their" if word in ("his", "her") and not _is_object(after) else words.neutral[word]

    return _replaced(caption, words, put)


def with_gender(caption: str, gender: Gender, words: GenderWords = WORDS) -> str:
    """The caption with every word of the other gender replaced by its counterpart: the caption of an edited image.

    A caption that names no gender stays as it is: nothing says which of its persons was edited.

    >>> with_gender("A man sleeping with his cat next to him.", "female")
    'A woman sleeping with her cat next to her.'
    >>> with_gender("Her cat sits next to her.", "male")
    'His cat sits next to him.'
    """

    def put(word: str, after: str) -> str:
        if words.gender[word] == gender:
            return word
        if word in ("his", "her") and not _is_object(after):
            return "her" if word == "his" else "his"
        return words.opposite[word]

    return _replaced(caption, words, put)


def _replaced(caption: str, words: GenderWords, put: Callable[[str, str], str]) -> str:
    """`put(word in lower case, text after it)` for each gendered word, with its article and endings."""
    done: list[str] = []
    end = 0
    for match in words.pattern.finditer(caption):
        word, after = match[1], caption[match.end() :]
        before = caption[end : match.start()]
        new = put(word.lower(), after)
        end = match.end()
        if new != word.lower():
            before = _ARTICLE_BEFORE.sub(r"\1n" if new[0] in "aeiou" else r"\1", before)
            ending, length = _ending(word.lower(), new, caption[: match.start()], after)
            end += length
            new += ending
        if word.isupper() and len(word) > 1:
            new = new.upper()
        elif word[0].isupper():
            new = new[0].upper() + new[1:]
        done += [before, new]
    return "".join([*done, caption[end:]])


def _is_object(after: str) -> bool:
    """Whether a pronoun does not belong to the word that follows it: "near her.", "her and"; not "her bike"."""
    if after.startswith("/"):  # his/her bike
        return False
    following = _NEXT_WORD.match(after)
    return following is None or following[1].lower() in _APART


def _ending(word: str, new: str, before: str, after: str) -> tuple[str, int]:
    """The ending of a new word, and the length of the text after the old word that it replaces."""
    if new == "they" and (contracted := _APOSTROPHE_S.match(after)):  # he's -> they're
        return f"{contracted[1]}re", len(contracted[0])
    if _plural(word) and not _plural(new) and (owns := _PLURAL_OWNS.match(after)):
        if _IN_QUOTES.search(before):  # the 'two boys' playing: it closes the quotes
            return "", 0
        return f"{owns[0]}s", len(owns[0])  # boys' -> children's
    if _plural(new) and not _plural(word) and (owns := _APOSTROPHE_S.match(after)):  # gentlemen's -> ladies'
        return owns[1], len(owns[0])
    return "", 0


def _plural(word: str) -> bool:
    """Whether its possessive is an apostrophe alone: boys', not waitress's."""
    return word.endswith("s") and not word.endswith("ss")
