"""What the embedded world speaks of: groups, subjects, their neighbours, and the words for them."""

from __future__ import annotations

import itertools

import numpy as np

ATTRIBUTES: dict[str, list[str]] = {
    "skin_tone": ["light", "tan", "brown", "dark"],
    "gender": ["male", "female"],
}
"""What the members of a set differ in. `gender` is presentation, as drawn."""

GROUPS: list[tuple[str, str]] = list(itertools.product(ATTRIBUTES["skin_tone"], ATTRIBUTES["gender"]))
"""The members of every set, in order: (skin tone, gender presentation)."""

HARD_LABELS: dict[str, list[str]] = {
    "chef": ["chef", "line cook", "server"],
    "doctor": ["doctor", "nurse", "pharmacist"],
    "firefighter": ["firefighter", "fire chief", "police officer"],
    "mechanic": ["mechanic", "electrician", "engineer"],
    "pilot": ["pilot", "flight attendant", "driver"],
}
"""Each subject with its easily confused neighbours. All of them are drawn in training."""

BASE_LABELS: list[str] = [
    *("chef", "server", "doctor", "nurse", "pilot", "driver", "mechanic", "engineer", "firefighter", "police officer"),
]
"""The base label set of Lui et al. 2023."""

SUBJECTS: list[str] = list(HARD_LABELS)
LABELS: list[str] = [label for family in HARD_LABELS.values() for label in family]
"""Every label that is drawn, family by family."""

PERSON = "person"
"""The noun of captions that name a group and no occupation."""

PROMPT_TEMPLATE = "a photo of a {label}"
RETRIEVAL_PROMPTS: list[str] = ["{subject}", "a photo of {a_subject}", "a picture of {a_subject}"]

_FRAMES: list[str] = ["{}", "a photo of {}", "a picture of {}", "an image of {}", "{}"]


def with_article(noun: str) -> str:
    """The noun with its indefinite article, by its first letter.

    >>> with_article("engineer"), with_article("dark-skinned nurse")
    ('an engineer', 'a dark-skinned nurse')
    """
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def caption(label: str, *, skin_tone: str | None = None, gender: str | None = None) -> str:
    """The plain caption of a portrait, with the attributes that are given.

    >>> caption("doctor", skin_tone="dark", gender="female")
    'a photo of a dark-skinned female doctor'
    """
    words = [f"{skin_tone}-skinned" if skin_tone else "", gender or "", label]
    return f"a photo of {with_article(' '.join(word for word in words if word))}"


def training_caption(
    rng: np.random.Generator, label: str, *, skin_tone: str | None = None, gender: str | None = None
) -> str:
    """A caption in one of several wordings; sometimes with a plain `a`, as templates with a fixed article write it."""
    plain = caption(label, skin_tone=skin_tone, gender=gender).removeprefix("a photo of ")
    article, noun = plain.split(" ", 1)
    frame = _FRAMES[int(rng.integers(len(_FRAMES)))]
    if frame == "{}" and rng.random() < 0.5:
        return noun
    return frame.format(f"{'a' if rng.random() < 0.5 else article} {noun}")


def vocabulary() -> list[str]:
    """Every word that captions are made of, in a fixed order."""
    words = {"a", "an", "photo", "picture", "image", "of", PERSON}
    words.update(word for label in LABELS for word in label.split())
    words.update(f"{tone}-skinned" for tone in ATTRIBUTES["skin_tone"])
    words.update(ATTRIBUTES["gender"])
    return sorted(words)


def family_of(label: str) -> list[str]:
    """The labels that a label may be confused with, itself among them."""
    return next(family for family in HARD_LABELS.values() if label in family)
