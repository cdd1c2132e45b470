"""The colours of the embedded world, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from fairgate.portraits.canvas import Colour, mix
from fairgate.portraits.scene import Hair

WHITE: Colour = (250, 250, 248)
PAPER: Colour = (236, 239, 243)
SHADOW: Colour = (206, 213, 223)
INK: Colour = (38, 40, 52)
NAVY: Colour = (38, 52, 92)
GOLD: Colour = (232, 184, 64)
RED: Colour = (204, 52, 52)
GREEN: Colour = (40, 142, 86)
YELLOW: Colour = (246, 210, 62)
STEEL: Colour = (150, 160, 172)

SKIN: dict[str, Colour] = {
    "light": (246, 210, 184),
    "tan": (222, 170, 126),
    "brown": (166, 110, 72),
    "dark": (92, 58, 44),
}
HAIR: dict[Hair, Colour] = {
    "black": (34, 30, 34),
    "dark brown": (56, 38, 32),
    "brown": (132, 84, 46),
    "auburn": (158, 72, 38),
    "grey": (164, 164, 168),
}
BACKGROUNDS: tuple[tuple[Colour, Colour], ...] = (
    ((176, 212, 226), (150, 194, 212)),
    ((244, 214, 170), (236, 196, 142)),
    ((190, 220, 190), (164, 202, 166)),
    ((226, 196, 214), (212, 174, 198)),
    ((206, 202, 232), (184, 180, 218)),
    ((240, 200, 186), (230, 178, 162)),
    ((214, 218, 210), (192, 198, 190)),
    ((170, 206, 202), (142, 186, 182)),
)
ACCENTS: tuple[Colour, ...] = ((196, 58, 62), (52, 104, 170), (226, 142, 48), (112, 76, 150), (34, 132, 126))


@dataclass(frozen=True, slots=True)
class Complexion:
    """The shades that one skin tone needs."""

    base: Colour
    shadow: Colour
    deep: Colour
    glow: Colour
    lips: Colour
    lips_made_up: Colour


def complexion(skin_tone: str, warmth: float) -> Complexion:
    """Shades of a skin tone; `warmth` in -1..1 is the scene's, the same for every member of a set."""
    base = mix(SKIN[skin_tone], (255, 190, 150) if warmth > 0 else (190, 170, 190), abs(warmth) * 0.06)
    shadow = mix(base, (92, 30, 30), 0.2)
    return Complexion(
        base=base,
        shadow=shadow,
        deep=mix(base, (60, 16, 20), 0.45),
        glow=mix(base, (240, 100, 90), 0.2),
        lips=mix(base, (150, 50, 55), 0.42),
        lips_made_up=mix(base, (190, 26, 58), 0.68),
    )
