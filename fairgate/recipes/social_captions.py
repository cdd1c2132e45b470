"""The captions of paper 3: prefix, article, two social attributes and a subject, one set for each prefix and subject.

Subjects (tables 6 and 7) are package data, as they are printed: 261 occupations, of which 181 are different when case
is ignored, and 63 traits. Physical traits are the 14 of the authors' caption files; table 8 prints nine of them. The
paper names three of its four religions (table 9): the fourth is this project's choice, a word that can be a noun too,
as captions of traits need it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Kind = Literal["occupations", "traits"]

PREFIXES = ("", "A photo of", "A picture of", "An image of")
RACES = ("White", "Black", "Indian", "Asian", "Middle Eastern", "Latino")
GENDERS = ("male", "female")
RELIGIONS = ("Christian", "Muslim", "Hindu", "Buddhist")
PHYSICAL_TRAITS = (
    *("attractive", "beautiful", "handsome", "pretty", "slim", "skinny", "young"),
    *("unattractive", "fat", "overweight", "obese", "scarred", "tattooed", "old"),
)
ATTRIBUTES: dict[str, dict[str, str]] = {
    "race": {word: word for word in RACES},
    "gender": {word: word for word in GENDERS},
    "religion": {word: word for word in RELIGIONS},
    "physical_trait": {word: word for word in PHYSICAL_TRAITS},
}
"""Attribute -> group -> its word in a caption."""

TEMPLATES: dict[Kind, str] = {"occupations": "{groups} {subject}", "traits": "{subject} {groups}"}

_SILENT_H = re.compile(r"(hour|honest|honou?r|heir)", re.IGNORECASE)
_LIKE_YOU = re.compile(r"(uni([^mn]|$)|u[st][aeiu]|eu|one\b|once\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Member:
    """One caption of a set: the groups that it names, in the pair's order."""

    groups: tuple[str, ...]
    caption: str

    @property
    def name(self) -> str:
        """The member's name in its set: its groups, joined by hyphens."""
        return "-".join(self.groups)


@cache
def subjects_of(kind: Kind) -> tuple[str, ...]:
    """The published subjects, as printed: 261 occupations (some twice, some in two spellings), or 63 traits.

    >>> len(subjects_of("occupations")), len(subjects_of("traits"))
    (261, 63)
    """
    text = resources.files("fairgate.recipes").joinpath("social_subjects.json").read_text("utf-8")
    return tuple(json.loads(text)[kind])


def different(subjects: Sequence[str]) -> list[str]:
    """Each subject once, in its first spelling: "Baker" and "baker" are one caption to Stable Diffusion and CLIP.

    >>> different(["baker", "chef", "Baker"])
    ['baker', 'chef']
    """
    first: dict[str, str] = {}
    for subject in subjects:
        first.setdefault(subject.casefold(), subject)
    return list(first.values())


def with_article(phrase: str) -> str:
    """A phrase with the article that it is spoken with.

    >>> [with_article(phrase) for phrase in ("Indian male pilot", "honest person", "union worker", "Latino")]
    ['an Indian male pilot', 'an honest person', 'a union worker', 'a Latino']
    """
    vowel = bool(_SILENT_H.match(phrase)) or (phrase[:1].lower() in "aeiou" and not _LIKE_YOU.match(phrase))
    return f"{'an' if vowel else 'a'} {phrase}"


def caption_set(
    prefix: str, subject: str, words: Sequence[Mapping[str, str]], template: str = TEMPLATES["occupations"]
) -> list[Member]:
    """The captions of one set, base member first: all combinations of groups, the last attribute changing fastest.

    `words` has group -> word for every attribute, in the order in which the caption names them.

    >>> [member.caption for member in caption_set("A photo of", "pilot", [{"White": "White"}, {"f": "female"}])]
    ['A photo of a White female pilot']
    """
    members = []
    for chosen in itertools.product(*(mapping.items() for mapping in words)):
        phrase = template.format(groups=" ".join(word for _, word in chosen), subject=subject)
        caption = f"{prefix} {with_article(phrase)}".strip()
        members.append(Member(tuple(group for group, _ in chosen), caption))
    return members


def set_name(prefix: str, attributes: Sequence[str], subject: str) -> str:
    """The name of a set of captions, as in the authors' files.

    >>> set_name("A photo of", ["race", "gender"], "police officer")
    'a_photo_of_race_gender_police_officer'
    """
    return "_".join([prefix, *attributes, subject]).strip("_").lower().replace(" ", "_")
