"""What each label wears. Neighbours share a cut and differ in small things; the table at the end names them all.

Clothes are drawn in the frame of the body, whose origin is the base of the neck; hats in the frame of the head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fairgate.portraits.canvas import (
    GOLD,
    GREEN,
    INK,
    NAVY,
    PAPER,
    RED,
    SHADOW,
    STEEL,
    WHITE,
    YELLOW,
    Colour,
    Figure,
    Points,
    mirrored,
    mix,
    moved,
)
from fairgate.portraits.world import PERSON

BLACK: Colour = (44, 46, 56)
OVERALL: Colour = (62, 98, 146)
TURNOUT: Colour = (56, 58, 66)
SIGNAL: Colour = (244, 130, 48)

_TORSO: Points = mirrored([(0.0, 2.0), (8.0, 3.2), (19.0, 6.4), (28.0, 11.5), (32.6, 22.0), (34.5, 46.0), (0.0, 50.0)])


def _torso(figure: Figure, colour: Colour) -> None:
    """Shoulders and chest in one colour, with a shaded side and the lines of the arms."""
    width = figure.width
    body = [(x * width, y) for x, y in _TORSO]
    figure.blob(body, colour)
    side = 1 if figure.scene.light_left else -1
    shaded = [(23 * width, 0), (50, 0), (50, 60), (25.5 * width, 60), (24 * width, 24)]
    figure.shade(body, [(side * x, y) for x, y in shaded], mix(colour, (30, 40, 80), 0.14))
    for x in (-23.5 * width, 23.5 * width):
        figure.stroke([(x, 22), (x * 1.02, 30), (x, 44)], 0.9, mix(colour, (20, 24, 60), 0.3))


def _v_neck(figure: Figure, colour: Colour, *, depth: float = 17.0, wide: float = 7.5) -> None:
    """The opening of a coat or jacket, filled with what is worn under it."""
    figure.polygon([(-wide, 1.5), (wide, 1.5), (1.2, depth), (-1.2, depth)], colour)


def _lapels(figure: Figure, colour: Colour) -> None:
    """Two lapels, and the closing below them."""
    figure.both_sides([(6.5, 0.5), (11.5, 5.0), (10.2, 10.5), (7.4, 11.5), (0, 19), (1.2, 16)], colour)
    figure.stroke([(0, 18), (0, 44)], 0.8, mix(colour, INK, 0.35))


def _collar(figure: Figure, colour: Colour) -> None:
    """A shirt collar with its two points."""
    figure.both_sides([(7.2, 0.2), (8.2, 3.6), (4.6, 9.4), (0.2, 5.2)], colour)


def _tie(figure: Figure, *, end: float = 22.0) -> None:
    """A dark knotted tie that ends at `end`."""
    figure.polygon([(-1.9, 4.6), (1.9, 4.6), (1.2, 7.8), (-1.2, 7.8)], INK)
    figure.polygon([(-1.2, 7.8), (1.2, 7.8), (2.3, end - 2), (0, end), (-2.3, end - 2)], INK)


def _neckerchief(figure: Figure) -> None:
    """A knotted neckerchief with two tails."""
    figure.blob([(-8.6, 1.4), (0, 5.6), (8.6, 1.4), (7.6, 5.4), (0, 9.2), (-7.6, 5.4)], figure.accent)
    deep = mix(figure.accent, INK, 0.22)
    figure.both_sides([(0, 7.2), (5.2, 13.2), (1.4, 14.6)], deep)
    figure.ellipse(0, 7.4, 2.1, 1.9, deep)


def _badge(figure: Figure, colour: Colour, rx: float, ry: float) -> tuple[float, float]:
    """A plate on the chest; returns its centre, for the sign on it."""
    x, y = 14.0 + figure.scene.detail_x, 20.0 + figure.scene.detail_y
    figure.box(x - rx, y - ry, x + rx, y + ry, mix(colour, INK, 0.28))
    rx, ry = rx - 0.5, ry - 0.5
    figure.box(x - rx, y - ry, x + rx, y + ry, colour)
    return x, y


def _wings(figure: Figure) -> None:
    """A gold pin in the form of wings."""
    x, y = 14.5 + figure.scene.detail_x, 17.5 + figure.scene.detail_y
    figure.stroke(moved(x, y, [(-5.0, -0.9), (-2.4, -0.2), (0, 0.7), (2.4, -0.2), (5.0, -0.9)]), 1.7, GOLD, taper=True)
    figure.ellipse(x, y + 0.3, 1.4, 1.4, GOLD)


def _buttons(figure: Figure, colour: Colour, *columns: float, top: float, step: float, rows: int) -> None:
    """Rows of round buttons."""
    for x in columns:
        for row in range(rows):
            figure.ellipse(x, top + row * step, 1.15, 1.15, colour)


def _cook(figure: Figure, *, chef: bool) -> None:
    _torso(figure, PAPER)
    figure.polygon([(-7.0, 1.0), (8.4, 1.0), (9.6, 46.0), (-9.6, 46.0)], WHITE)
    figure.stroke([(8.4, 4.0), (9.6, 24.0), (9.6, 46.0)], 0.9, SHADOW)
    figure.both_sides([(7.6, 0.0), (8.4, 4.2), (2.2, 7.4), (0, 4.6)], PAPER)
    _buttons(figure, (128, 136, 152), -5.2, 5.2, top=14.5, step=6.5, rows=4)
    if chef:
        _neckerchief(figure)


def _server(figure: Figure) -> None:
    _torso(figure, WHITE)
    figure.polygon([(-15, 4), (-7.5, 2.5), (0, 22), (7.5, 2.5), (15, 4), (17.5, 46), (-17.5, 46)], BLACK)
    _buttons(figure, STEEL, 0.0, top=26.0, step=5.5, rows=4)
    _collar(figure, PAPER)
    figure.both_sides([(0, 6.4), (5.6, 3.4), (5.6, 9.4)], INK)
    figure.ellipse(0, 6.4, 1.4, 1.5, BLACK)


def _white_coat(figure: Figure) -> None:
    _torso(figure, WHITE)
    _v_neck(figure, mix(figure.accent, WHITE, 0.45))
    _collar(figure, mix(figure.accent, WHITE, 0.6))
    _lapels(figure, (222, 228, 237))
    _buttons(figure, STEEL, 2.6, top=24.0, step=6.5, rows=3)


def _doctor(figure: Figure) -> None:
    _white_coat(figure)
    x, y = _badge(figure, WHITE, 4.6, 3.6)
    figure.box(x - 2.8, y - 0.6, x + 2.8, y + 0.6, STEEL)
    tube = (44, 60, 84)
    figure.stroke([(8.4, 1.0), (9.8, 8.0), (8.6, 15.0), (6.0, 19.0)], 1.7, tube)
    figure.stroke([(-8.4, 1.0), (-10.6, 8.0), (-11.4, 14.0), (-11.0, 19.5)], 1.7, tube)
    figure.ellipse(5.6, 20.4, 1.5, 1.5, STEEL)
    figure.ellipse(-11.0, 22.2, 3.4, 3.4, tube)
    figure.ellipse(-11.0, 22.2, 2.1, 2.1, (214, 222, 230))


def _with_cross(figure: Figure, plate: Colour, cross: Colour) -> None:
    _white_coat(figure)
    x, y = _badge(figure, plate, 4.4, 4.2)
    long, thick = 2.7, 2.7 * 0.36
    figure.box(x - long, y - thick, x + long, y + thick, cross)
    figure.box(x - thick, y - long, x + thick, y + long, cross)


def _fire_coat(figure: Figure) -> None:
    _torso(figure, TURNOUT)
    wide = 33 * figure.width
    for y in (24.0, 36.0):
        figure.box(-wide, y, wide, y + 5.0, YELLOW)
        figure.box(-wide, y + 1.6, wide, y + 3.4, (222, 226, 222))
    figure.blob([(-10, 1), (0, 7), (10, 1), (11, 7), (0, 13), (-11, 7)], mix(TURNOUT, INK, 0.5))
    figure.stroke([(0, 10), (0, 46)], 1.2, INK)
    for y in (16.0, 32.0):
        figure.box(-3.2, y, 3.2, y + 2.2, STEEL)


def _police_officer(figure: Figure) -> None:
    _torso(figure, (74, 104, 152))
    _collar(figure, (58, 86, 132))
    _tie(figure)
    x, y = 14.0 + figure.scene.detail_x, 18.5 + figure.scene.detail_y
    star = [(-3.4, -3.6), (0, -5.0), (3.4, -3.6), (2.6, 2.4), (0, 4.6), (-2.6, 2.4)]
    figure.polygon(moved(x, y, star), GOLD)
    figure.ellipse(x, y - 0.6, 1.4, 1.4, NAVY)
    figure.both_sides([(13, 4.5), (24, 9.0), (23, 12.5), (12.4, 8.0)], NAVY)


def _overall(figure: Figure) -> None:
    _torso(figure, OVERALL)
    _v_neck(figure, (226, 228, 226), depth=11.0, wide=6.0)
    _collar(figure, mix(OVERALL, INK, 0.22))
    figure.stroke([(0, 10.5), (0, 46)], 1.0, mix(OVERALL, WHITE, 0.3))
    figure.both_sides([(8.4, 25.5), (19.6, 25.5), (19.2, 36.5), (8.8, 36.5)], mix(OVERALL, INK, 0.2))
    figure.both_sides([(8.4, 25.5), (19.6, 25.5), (19.6, 28.5), (8.4, 28.5)], mix(OVERALL, INK, 0.34))


def _mechanic(figure: Figure) -> None:
    _overall(figure)
    x, y, wrench = 14.0 + figure.scene.detail_x, 25.5, (206, 212, 218)
    figure.stroke([(x, y), (x, y - 6.0)], 2.0, wrench)
    for side in (-1, 1):
        figure.stroke([(x, y - 6.2), (x + side * 2.3, y - 8.0), (x + side * 1.8, y - 11.0)], 1.7, wrench)


def _electrician(figure: Figure) -> None:
    _overall(figure)
    x, y = _badge(figure, YELLOW, 4.2, 4.6)
    flash = [(1.4, -3.6), (-2.4, 0.6), (-0.2, 0.6), (-1.4, 3.6), (2.4, -0.8), (0.2, -0.8)]
    figure.polygon(moved(x, y, flash), INK)


def _engineer(figure: Figure) -> None:
    _torso(figure, (206, 218, 232))
    figure.polygon([(-22, 8), (-8, 2.5), (0, 15), (8, 2.5), (22, 8), (20, 46), (-20, 46)], SIGNAL)
    figure.both_sides([(11.4, 4), (15.4, 5.4), (14.4, 46), (10.4, 46)], YELLOW)
    _collar(figure, WHITE)
    figure.stroke([(0, 15), (0, 46)], 0.9, mix(SIGNAL, INK, 0.35))


def _uniform(figure: Figure, *, tied: bool, buttons: Colour) -> None:
    _torso(figure, NAVY)
    _v_neck(figure, WHITE)
    _collar(figure, PAPER)
    if tied:
        _tie(figure, end=19.0)
    _lapels(figure, mix(NAVY, INK, 0.35))
    _buttons(figure, buttons, -4.0, 4.0, top=23.5, step=6.0, rows=3)


def _pilot(figure: Figure) -> None:
    _uniform(figure, tied=True, buttons=GOLD)
    _wings(figure)
    stripe = [(-0.8, 6.2), (0.8, 6.6), (0.6, 11.4), (-1.0, 11.0)]
    for side in (-1, 1):
        for step in range(3):
            figure.polygon(moved(side * (15.5 + 3.2 * step) * figure.width, 1.2 * step, stripe), GOLD)


def _flight_attendant(figure: Figure) -> None:
    _uniform(figure, tied=False, buttons=GOLD)
    _neckerchief(figure)
    _wings(figure)


_DOME: Points = mirrored([(0.0, -28.0), (9.0, -26.0), (15.2, -19.0), (16.6, -10.0), (0.0, -8.6)])


def _toque(figure: Figure, *, tall: bool) -> None:
    """A cook's hat: the chef's tall one, or the low cap of the line."""
    if tall:
        figure.blob(mirrored([(0, -37.5), (9, -37.2), (18.2, -32.5), (18.6, -25.5), (14.4, -19.0), (0, -16)]), WHITE)
        for x, bend in ((-8.0, -2.0), (-2.6, -0.6), (2.8, 0.6), (8.2, 2.0)):
            figure.stroke([(x, -18.5), (x + bend * 0.3, -24.5), (x + bend, -30.5)], 0.9, SHADOW, taper=True)
    else:
        figure.blob(mirrored([(0, -26.8), (9, -26.2), (14.6, -21.5), (15.4, -15.0), (0, -13)]), WHITE)
    figure.blob(mirrored([(0, -20.2), (8, -19.8), (15.2, -17.6), (15.6, -10.6), (8, -12.6), (0, -13.2)]), PAPER)
    figure.stroke([(-15.2, -17.4), (-8, -19.8), (0, -20.4), (8, -19.8), (15.2, -17.4)], 0.8, SHADOW)


def _fire_helmet(figure: Figure, *, colour: Colour) -> None:
    """A fire helmet with comb, brim and front plate."""
    deep = mix(colour, INK, 0.22)
    figure.blob(_DOME, colour)
    figure.blob(mirrored([(0, -31.0), (2.4, -30.0), (3.0, -22.0), (0, -12.0)]), deep)
    for side in (-1, 1):
        figure.stroke([(side * 9.0, -25.4), (side * 12.4, -18.0), (side * 13.0, -11.0)], 1.0, deep, taper=True)
    figure.blob(mirrored([(0, -12.6), (14, -11.6), (21.0, -7.2), (19.5, -4.8), (12, -7.6), (0, -8.8)]), deep)
    figure.polygon([(-4.6, -23.0), (4.6, -23.0), (5.0, -15.0), (0, -11.0), (-5.0, -15.0)], INK)
    figure.polygon([(-3.7, -22.1), (3.7, -22.1), (4.0, -15.4), (0, -12.2), (-4.0, -15.4)], GOLD)


def _hard_hat(figure: Figure) -> None:
    """A construction helmet with three ribs and a short brim."""
    colour = (246, 206, 70)
    deep = mix(colour, INK, 0.18)
    figure.blob(_DOME, colour)
    for x in (-6.0, 0.0, 6.0):
        figure.stroke([(x, -26.4 + abs(x) * 0.15), (x * 1.25, -19.0), (x * 1.35, -12.5)], 1.7, deep, taper=True)
    figure.blob(mirrored([(0, -12.2), (12, -11.4), (18.6, -8.8), (15.0, -6.8), (0, -8.4)]), deep)


def _peaked_cap(figure: Figure, *, colour: Colour, emblem: bool) -> None:
    """A uniform cap with a dark band, a black visor and, where there is one, a gold emblem."""
    figure.blob(mirrored([(0, -28.4), (10, -27.4), (19.2, -22.6), (17.0, -16.2), (0, -14.0)]), colour)
    edge = [(-18.6, -21.6), (-9, -18.6), (0, -17.8), (9, -18.6), (18.6, -21.6)]
    figure.stroke(edge, 0.9, mix(colour, WHITE, 0.18), taper=True)
    figure.blob(mirrored([(0, -17.2), (9, -17.0), (15.8, -15.4), (15.4, -9.4), (0, -11.2)]), INK)
    figure.blob(mirrored([(0, -11.6), (9, -11.2), (14.6, -9.6), (9.6, -5.9), (0, -4.9)]), INK)
    figure.stroke([(-10.6, -8.6), (-5, -6.8), (0, -6.4)], 0.8, STEEL, taper=True)
    if emblem:
        figure.ellipse(0, -19.0, 3.2, 3.5, GOLD)
        figure.ellipse(0, -19.0, 1.5, 1.7, mix(GOLD, INK, 0.35))


def _side_cap(figure: Figure) -> None:
    """A small cap worn high on the head, with a coloured edge."""
    figure.blob(mirrored([(0, -27.6), (7, -26.4), (14.2, -19.6), (14.8, -14.6), (7, -15.8), (0, -16.2)]), NAVY)
    figure.stroke([(-14.4, -15.0), (-7, -16.4), (0, -16.8), (7, -16.4), (14.4, -15.0)], 1.5, figure.accent)


def _work_cap(figure: Figure) -> None:
    """A cloth cap with a short visor."""
    colour = (52, 80, 122)
    deep = mix(colour, INK, 0.3)
    figure.blob(mirrored([(0, -26.6), (9, -25.0), (15.0, -18.6), (15.8, -10.6), (0, -11.6)]), colour)
    figure.stroke([(0, -26.2), (0, -14.5)], 0.8, deep)
    figure.blob(mirrored([(0, -12.8), (9, -12.2), (15.6, -10.2), (9.6, -6.6), (0, -5.8)]), deep)


def _plain(figure: Figure) -> None:
    """A pullover in a muted shade of the scene's colour: it says nothing about anybody's work."""
    _torso(figure, mix(figure.accent, STEEL, 0.55))
    figure.blob([(-9, 1), (0, 6.5), (9, 1), (9.6, 3.6), (0, 9.6), (-9.6, 3.6)], mix(figure.accent, STEEL, 0.8))


Worn = Callable[[Figure], None]

OUTFITS: dict[str, tuple[Worn, Worn | None]] = {
    "chef": (partial(_cook, chef=True), partial(_toque, tall=True)),
    "line cook": (partial(_cook, chef=False), partial(_toque, tall=False)),
    "server": (_server, None),
    "doctor": (_doctor, None),
    "nurse": (partial(_with_cross, plate=WHITE, cross=RED), None),
    "pharmacist": (partial(_with_cross, plate=GREEN, cross=WHITE), None),
    "firefighter": (_fire_coat, partial(_fire_helmet, colour=(206, 60, 48))),
    "fire chief": (_fire_coat, partial(_fire_helmet, colour=(240, 240, 238))),
    "police officer": (_police_officer, partial(_peaked_cap, colour=NAVY, emblem=True)),
    "mechanic": (_mechanic, _work_cap),
    "electrician": (_electrician, _work_cap),
    "engineer": (_engineer, _hard_hat),
    "pilot": (_pilot, partial(_peaked_cap, colour=WHITE, emblem=True)),
    "flight attendant": (_flight_attendant, _side_cap),
    PERSON: (_plain, None),
    "driver": (partial(_uniform, tied=True, buttons=STEEL), partial(_peaked_cap, colour=BLACK, emblem=False)),
}
"""What every drawn label wears: clothes, and a hat where there is one; and what a person wears who is not at work."""
