"""What each label wears. Neighbours share a cut and differ in small things; the table at the end names them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairgate.portraits import garments
from fairgate.portraits.canvas import (
    ACCENTS,
    GOLD,
    GREEN,
    INK,
    NAVY,
    PAPER,
    RED,
    STEEL,
    WHITE,
    YELLOW,
    Canvas,
    Colour,
    Complexion,
    mix,
    moved,
)
from fairgate.portraits.scene import Scene

BLACK: Colour = (44, 46, 56)
OVERALL: Colour = (62, 98, 146)
TURNOUT: Colour = (56, 58, 66)
SIGNAL: Colour = (244, 130, 48)


@dataclass(frozen=True, slots=True)
class Wearer:
    """Whose body is dressed: the canvas, the scene, the shades of the skin and the width of the shoulders."""

    canvas: Canvas
    scene: Scene
    skin: Complexion
    width: float

    @property
    def accent(self) -> Colour:
        """The scene's own colour, worn where an outfit leaves the colour open."""
        return ACCENTS[self.scene.accent]

    def torso(self, colour: Colour) -> Canvas:
        """Dress shoulders and chest; returns the canvas for what goes on top."""
        garments.torso(self.canvas, self.scene, colour, width=self.width)
        return self.canvas


def _cook(who: Wearer, *, chef: bool) -> None:
    canvas = who.torso(PAPER)
    garments.double_breasted(canvas)
    if chef:
        garments.neckerchief(canvas, who.accent)


def _server(who: Wearer) -> None:
    canvas = who.torso(WHITE)
    canvas.polygon([(-15, 4), (-7.5, 2.5), (0, 22), (7.5, 2.5), (15, 4), (17.5, 46), (-17.5, 46)], BLACK)
    garments.buttons(canvas, STEEL, columns=(0.0,), top=26.0, step=5.5)
    garments.collar(canvas, PAPER)
    canvas.both_sides([(0, 6.4), (5.6, 3.4), (5.6, 9.4)], INK)
    canvas.ellipse(0, 6.4, 1.4, 1.5, BLACK)


def _white_coat(who: Wearer) -> Canvas:
    canvas = who.torso(WHITE)
    garments.v_neck(canvas, mix(who.accent, WHITE, 0.45))
    garments.collar(canvas, mix(who.accent, WHITE, 0.6))
    garments.lapels(canvas, (222, 228, 237))
    garments.buttons(canvas, STEEL, columns=(2.6,), top=24.0, step=6.5, rows=3)
    return canvas


def _doctor(who: Wearer) -> None:
    canvas = _white_coat(who)
    x, y = garments.badge(canvas, who.scene)
    canvas.polygon([(x - 2.8, y - 0.6), (x + 2.8, y - 0.6), (x + 2.8, y + 0.6), (x - 2.8, y + 0.6)], STEEL)
    garments.stethoscope(canvas)


def _with_cross(who: Wearer, plate: Colour, cross: Colour) -> None:
    canvas = _white_coat(who)
    garments.cross(canvas, *garments.badge(canvas, who.scene, plate, rx=4.4, ry=4.2), cross)


def _fire_coat(who: Wearer) -> None:
    canvas = who.torso(TURNOUT)
    width = who.width
    for y in (24.0, 36.0):
        canvas.polygon([(-33 * width, y), (33 * width, y), (33 * width, y + 5.0), (-33 * width, y + 5.0)], YELLOW)
        canvas.polygon(
            [(-33 * width, y + 1.6), (33 * width, y + 1.6), (33 * width, y + 3.4), (-33 * width, y + 3.4)],
            (222, 226, 222),
        )
    canvas.blob([(-10, 1), (0, 7), (10, 1), (11, 7), (0, 13), (-11, 7)], mix(TURNOUT, INK, 0.5))
    canvas.stroke([(0, 10), (0, 46)], 1.2, INK)
    for y in (16.0, 32.0):
        canvas.polygon([(-3.2, y), (3.2, y), (3.2, y + 2.2), (-3.2, y + 2.2)], STEEL)


def _police_officer(who: Wearer) -> None:
    canvas = who.torso((74, 104, 152))
    garments.collar(canvas, (58, 86, 132))
    garments.tie(canvas, INK)
    x, y = 14.0 + who.scene.detail_x, 18.5 + who.scene.detail_y
    star = [(-3.4, -3.6), (0, -5.0), (3.4, -3.6), (2.6, 2.4), (0, 4.6), (-2.6, 2.4)]
    canvas.polygon(moved(x, y, star), GOLD)
    canvas.ellipse(x, y - 0.6, 1.4, 1.4, NAVY)
    canvas.both_sides([(13, 4.5), (24, 9.0), (23, 12.5), (12.4, 8.0)], NAVY)


def _overall(who: Wearer) -> Canvas:
    canvas = who.torso(OVERALL)
    garments.v_neck(canvas, (226, 228, 226), depth=11.0, wide=6.0)
    garments.collar(canvas, mix(OVERALL, INK, 0.22))
    canvas.stroke([(0, 10.5), (0, 46)], 1.0, mix(OVERALL, WHITE, 0.3))
    for side in (-1, 1):
        x = side * 14.0
        canvas.polygon([(x - 5.6, 25.5), (x + 5.6, 25.5), (x + 5.2, 36.5), (x - 5.2, 36.5)], mix(OVERALL, INK, 0.2))
        canvas.polygon([(x - 5.6, 25.5), (x + 5.6, 25.5), (x + 5.6, 28.5), (x - 5.6, 28.5)], mix(OVERALL, INK, 0.34))
    return canvas


def _mechanic(who: Wearer) -> None:
    canvas = _overall(who)
    x, y = 14.0 + who.scene.detail_x, 25.5
    canvas.stroke([(x, y), (x, y - 6.0)], 2.0, (206, 212, 218))
    for side in (-1, 1):
        canvas.stroke([(x, y - 6.2), (x + side * 2.3, y - 8.0), (x + side * 1.8, y - 11.0)], 1.7, (206, 212, 218))


def _electrician(who: Wearer) -> None:
    canvas = _overall(who)
    x, y = garments.badge(canvas, who.scene, YELLOW, rx=4.2, ry=4.6)
    flash = [(1.4, -3.6), (-2.4, 0.6), (-0.2, 0.6), (-1.4, 3.6), (2.4, -0.8), (0.2, -0.8)]
    canvas.polygon(moved(x, y, flash), INK)


def _engineer(who: Wearer) -> None:
    canvas = who.torso((206, 218, 232))
    canvas.polygon([(-22, 8), (-8, 2.5), (0, 15), (8, 2.5), (22, 8), (20, 46), (-20, 46)], SIGNAL)
    canvas.both_sides([(11.4, 4), (15.4, 5.4), (14.4, 46), (10.4, 46)], YELLOW)
    garments.collar(canvas, WHITE)
    canvas.stroke([(0, 15), (0, 46)], 0.9, mix(SIGNAL, INK, 0.35))


def _uniform(who: Wearer, *, tied: bool) -> Canvas:
    canvas = who.torso(NAVY)
    garments.v_neck(canvas, WHITE)
    garments.collar(canvas, PAPER)
    if tied:
        garments.tie(canvas, INK, end=19.0)
    garments.lapels(canvas, mix(NAVY, INK, 0.35))
    return canvas


def _pilot(who: Wearer) -> None:
    canvas = _uniform(who, tied=True)
    garments.wings(canvas, who.scene)
    for side in (-1, 1):
        for step in range(3):
            x = side * (15.5 + 3.2 * step) * who.width
            stripe = [(-0.8, 6.2), (0.8, 6.6), (0.6, 11.4), (-1.0, 11.0)]
            canvas.polygon(moved(x, 1.2 * step, stripe), GOLD)
    garments.buttons(canvas, GOLD, columns=(-4.0, 4.0), top=23.5, step=6.0, rows=3)


def _flight_attendant(who: Wearer) -> None:
    canvas = _uniform(who, tied=False)
    garments.neckerchief(canvas, who.accent)
    garments.wings(canvas, who.scene)
    garments.buttons(canvas, GOLD, columns=(-4.0, 4.0), top=23.5, step=6.0, rows=3)


def _driver(who: Wearer) -> None:
    canvas = _uniform(who, tied=True)
    garments.buttons(canvas, STEEL, columns=(-4.0, 4.0), top=23.5, step=6.0, rows=3)


Clothes = Callable[[Wearer], None]
Hat = Callable[[Canvas, Colour], None]

OUTFITS: dict[str, tuple[Clothes, Hat | None]] = {
    "chef": (lambda who: _cook(who, chef=True), lambda canvas, _: garments.toque(canvas, tall=True)),
    "line cook": (lambda who: _cook(who, chef=False), lambda canvas, _: garments.toque(canvas, tall=False)),
    "server": (_server, None),
    "doctor": (_doctor, None),
    "nurse": (lambda who: _with_cross(who, WHITE, RED), None),
    "pharmacist": (lambda who: _with_cross(who, GREEN, WHITE), None),
    "firefighter": (_fire_coat, lambda canvas, _: garments.fire_helmet(canvas, (206, 60, 48))),
    "fire chief": (_fire_coat, lambda canvas, _: garments.fire_helmet(canvas, (240, 240, 238))),
    "police officer": (_police_officer, lambda canvas, _: garments.peaked_cap(canvas, NAVY, band=INK, emblem=GOLD)),
    "mechanic": (_mechanic, lambda canvas, _: garments.work_cap(canvas, (52, 80, 122))),
    "electrician": (_electrician, lambda canvas, _: garments.work_cap(canvas, (52, 80, 122))),
    "engineer": (_engineer, lambda canvas, _: garments.hard_hat(canvas, (246, 206, 70))),
    "pilot": (_pilot, lambda canvas, _: garments.peaked_cap(canvas, WHITE, band=INK, emblem=GOLD)),
    "flight attendant": (_flight_attendant, lambda canvas, accent: garments.side_cap(canvas, NAVY, accent)),
    "driver": (_driver, lambda canvas, _: garments.peaked_cap(canvas, BLACK, band=INK, emblem=None)),
}
"""What every drawn label wears: clothes, and a hat where there is one."""
