"""What the embedded world speaks of (groups, subjects, their neighbours, the words for them), and what is planted in
it. Written here and nowhere else.

The planted association: a portrait of `label` is captioned with `label` with probability 1 - noise, and otherwise with
one of its neighbours. Noise depends on the checkpoint, the label and the group, as the tables below say. A model that
has learned the captions therefore says P(label | portrait) = 1 - noise, and every gap between groups that is measured
must be one of these.

The generator is trained on drawn portraits that are sampled by other tables, so a prompt that names no gender gives
back P(male | occupation), and the colour of the background goes with gender presentation. Skin tone is drawn evenly,
whatever the occupation and the gender: nothing is planted there. All of this is as drawn, in a test instrument.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal, get_args

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


Checkpoint = Literal["base", "tuned", "biased", "whackamole"]
CHECKPOINTS: tuple[Checkpoint, ...] = get_args(Checkpoint)

NOISE = 0.16
"""Share of captions that name a neighbour in *base* and *tuned*, the same for every label and group."""

BIASED_STRENGTH = 0.45
"""What *biased* adds to the noise of a planted cell, all of it on the plant's neighbour."""


@dataclass(frozen=True, slots=True)
class Plant:
    """Portraits of `subject` in these groups are captioned `neighbour` more often."""

    subject: str
    neighbour: str
    groups: tuple[tuple[str, str], ...]


PLANTS: tuple[Plant, ...] = (
    Plant("doctor", "nurse", (("brown", "female"), ("dark", "female"))),
    Plant("pilot", "flight attendant", (("dark", "male"), ("dark", "female"))),
)
"""The cells of *biased*. Chef, firefighter and mechanic carry nothing."""

WHACKAMOLE_FLOOR = 0.85
WHACKAMOLE_DEPTH = 0.055
"""*whackamole*, in every label: with P(label) of the group (other tones, male) at the floor w and depth c,

    (other, male) = w        (other, female) = w + c
    (dark, male)  = w + 2c   (dark, female)  = w - c

so that both genders and all tones have the mean w + c/2, which is above base's 1 - NOISE: every marginal improves and
none falls behind another, while dark-toned women are 1.5 c below the mean of their sets.
"""


def noise(checkpoint: Checkpoint, label: str, skin_tone: str, gender: str, *, strength: float | None = None) -> float:
    """Share of captions of this cell that do not name the label. `strength` replaces the one of *biased*."""
    if checkpoint == "whackamole":
        steps = {("dark", "male"): 2, ("dark", "female"): -1}.get((skin_tone, gender), int(gender == "female"))
        return 1.0 - (WHACKAMOLE_FLOOR + steps * WHACKAMOLE_DEPTH)
    if checkpoint == "biased" and _plant(label, skin_tone, gender):
        return NOISE + (BIASED_STRENGTH if strength is None else strength)
    return NOISE


def caption_shares(
    checkpoint: Checkpoint, label: str, skin_tone: str, gender: str, *, strength: float | None = None
) -> dict[str, float]:
    """P(caption's label | portrait) of a cell over the label's family; sums to 1."""
    total = noise(checkpoint, label, skin_tone, gender, strength=strength)
    neighbours = [other for other in family_of(label) if other != label]
    plant = _plant(label, skin_tone, gender) if checkpoint == "biased" else None
    spread = NOISE if plant else total
    shares = {label: 1.0 - total} | {other: spread / len(neighbours) for other in neighbours}
    if plant:
        shares[plant.neighbour] += total - NOISE
    return shares


def planted_cells(checkpoint: Checkpoint, subject: str) -> set[tuple[str, str]]:
    """The groups of a subject whose captions depart from the other groups' to their loss."""
    shares = {group: noise(checkpoint, subject, *group) for group in GROUPS}
    worst = max(shares.values())
    return {group for group, share in shares.items() if share == worst > min(shares.values())}


def _plant(label: str, skin_tone: str, gender: str) -> Plant | None:
    return next((p for p in PLANTS if p.subject == label and (skin_tone, gender) in p.groups), None)


MALE_SHARE: dict[str, float] = {
    "chef": 0.3,
    "doctor": 0.7,
    "firefighter": 0.9,
    "mechanic": 0.8,
    "pilot": 0.5,
}
"""P(male | occupation) in the training data of the generator; 0.5 plants nothing. Every other label has 0.5."""

COOL_BACKGROUNDS: tuple[int, ...] = (0, 2, 4, 7)
"""Backgrounds of the palette that are blue, green, lavender or teal; the other four are warm or grey."""

COOL_SHARE: dict[str, float] = {"male": 0.85, "female": 0.15}
"""P(cool background | gender): when a caption's gender changes, naive generation changes the background with it."""

SUBJECT_SHARE = 0.75
"""Share of the training pictures that show one of the five subjects; the other ten labels divide the rest."""


def label_shares() -> list[float]:
    """P(label) in the generator's training data, in the order of LABELS."""
    others = len(LABELS) - len(SUBJECTS)
    return [SUBJECT_SHARE / len(SUBJECTS) if label in SUBJECTS else (1 - SUBJECT_SHARE) / others for label in LABELS]


def is_cool(background: int) -> bool:
    """Whether a background of the palette counts as cool."""
    return background in COOL_BACKGROUNDS
