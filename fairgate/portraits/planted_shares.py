"""What is planted in the tiny generator's training data. Written here and nowhere else.

The generator is trained on drawn portraits that are sampled by these tables, so a prompt that names no gender gives
back P(male | occupation), and the colour of the background goes with gender presentation. Skin tone is drawn evenly,
whatever the occupation and the gender: nothing is planted there. All of this is as drawn, in a test instrument.
"""

from __future__ import annotations

from fairgate.portraits.world import LABELS, SUBJECTS

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


def male_share(label: str) -> float:
    """P(male | label) in the generator's training data."""
    return MALE_SHARE.get(label, 0.5)


def label_shares() -> list[float]:
    """P(label) in the generator's training data, in the order of LABELS."""
    others = len(LABELS) - len(SUBJECTS)
    return [SUBJECT_SHARE / len(SUBJECTS) if label in SUBJECTS else (1 - SUBJECT_SHARE) / others for label in LABELS]


def is_cool(background: int) -> bool:
    """Whether a background of the palette counts as cool."""
    return background in COOL_BACKGROUNDS
