"""The planted association: how often captions of each group name a neighbour instead. Written here and nowhere else.

A portrait of `label` is captioned with `label` with probability 1 - noise, and otherwise with one of its neighbours.
Noise depends on the checkpoint, the label and the group, as the tables below say. A model that has learned the captions
therefore says P(label | portrait) = 1 - noise, and every gap between groups that is measured must be one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fairgate.portraits.world import GROUPS, family_of

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
none falls behind another, while dark-toned women stand 1.5 c below their set-mates' mean.
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
    worst = max(noise(checkpoint, subject, *group) for group in GROUPS)
    least = min(noise(checkpoint, subject, *group) for group in GROUPS)
    return {group for group in GROUPS if worst > least and noise(checkpoint, subject, *group) == worst}


def _plant(label: str, skin_tone: str, gender: str) -> Plant | None:
    return next((p for p in PLANTS if p.subject == label and (skin_tone, gender) in p.groups), None)
