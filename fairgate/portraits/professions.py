"""What is planted for the diffusion classifier: who has which profession in the pictures it is trained on.

A picture that is captioned with a profession is of a man with the probability that MALE_SHARE names, and shows the
person at work, or (PLAIN_SHARE) in plain clothes, which say nothing. Plain pictures are drawn alike, whatever the
caption, so that for a plain picture x of group g and professions a and b

    log p(x | a) - log p(x | b) = log P(g | a) - log P(g | b),

(`planted_log_odds`), which a diffusion classifier that has learned its captions follows in rank, not in nats: its
margins are differences of mean errors. Skin tone is drawn evenly. *tuned* has learned the same as *base*; *biased*
differs in one profession alone. All of this is as drawn, in a test instrument.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from fairgate.portraits.generator_words import NOUNS
from fairgate.portraits.world import ATTRIBUTES, PERSON, with_article

MALE_DOMINATED: tuple[str, ...] = ("electrician", "firefighter", "mechanic", "doctor", "engineer")
FEMALE_DOMINATED: tuple[str, ...] = ("nurse", "flight attendant", "server", "chef", "pharmacist")
PROFESSIONS: tuple[str, ...] = (*MALE_DOMINATED, *FEMALE_DOMINATED)

ClassifierName = Literal["classifier-base", "classifier-tuned", "classifier-biased"]
CLASSIFIERS: tuple[ClassifierName, ...] = get_args(ClassifierName)

MALE_SHARE: dict[str, float] = {
    "electrician": 0.95,
    "firefighter": 0.9,
    "mechanic": 0.8,
    "doctor": 0.7,
    "engineer": 0.6,
    "pharmacist": 0.4,
    "chef": 0.3,
    "server": 0.2,
    "flight attendant": 0.1,
    "nurse": 0.05,
}
"""P(male | profession) of *base*. Doctor, firefighter, mechanic and chef have the generator's shares."""

PLANT = ("doctor", 0.97)
"""The profession in which *biased* differs from *base*, and P(male | profession) there."""

PLAIN_SHARE = 0.75
"""Share of a profession's pictures in plain clothes."""
PERSON_SHARE = 0.25
"""Share of captions that name a man, a woman or a person instead of a profession."""
NAMED = 0.2
"""Share of a profession's captions that also name the gender, and of those that name the skin tone."""
EMPTY = 0.08
"""Share of captions that are empty."""

TEMPLATE = "a portrait of a {}"
GENDER_LABELS: dict[str, str] = NOUNS

_FRAMES = ("a portrait of {}", "a portrait of {}", "a portrait of {}", "a photo of {}", "{}")


def male_share(classifier: ClassifierName, profession: str) -> float:
    """P(male | profession) in the training data of a classifier."""
    planted, share = PLANT
    return share if classifier == "classifier-biased" and profession == planted else MALE_SHARE[profession]


def planted_log_odds(classifier: ClassifierName, first: str, second: str, gender: str) -> float:
    """log P(gender | first) - log P(gender | second), in nats: above 0, plain pictures of it are more often `first`.

    >>> round(planted_log_odds("classifier-base", "doctor", "nurse", "male"), 3)
    2.639
    """
    shares = (male_share(classifier, profession) for profession in (first, second))
    one, other = (share if gender == "male" else 1 - share for share in shares)
    return math.log(one) - math.log(other)


def training_caption(rng: np.random.Generator, profession: str | None, skin_tone: str, gender: str) -> str:
    """A caption of a picture: of its profession, or (None) of a man, a woman or a person."""
    if rng.random() < EMPTY:
        return ""
    words = [f"{skin_tone}-skinned"] if rng.random() < NAMED else []
    if profession is None:
        noun = PERSON if rng.random() < 0.2 else NOUNS[gender]
    else:
        noun = profession
        if rng.random() < NAMED:
            words.append(gender)
    text = " ".join([*words, noun])
    frame = _FRAMES[int(rng.integers(len(_FRAMES)))]
    return frame.format(f"a {text}" if rng.random() < 0.5 else with_article(text)) if frame != "{}" else text


def draw_group(rng: np.random.Generator, classifier: ClassifierName, profession: str | None) -> tuple[str, str]:
    """Skin tone and gender of a training picture, by the planted shares."""
    share = 0.5 if profession is None else male_share(classifier, profession)
    tones = ATTRIBUTES["skin_tone"]
    return tones[int(rng.integers(len(tones)))], "male" if rng.random() < share else "female"
