"""Headgear, drawn in the frame of the head over the hair."""

from __future__ import annotations

from fairgate.portraits.canvas import Canvas, Colour, Points, mirrored, mix
from fairgate.portraits.palette import GOLD, INK, PAPER, SHADOW, STEEL, WHITE

_DOME: Points = [(0.0, -28.0), (9.0, -26.0), (15.2, -19.0), (16.6, -10.0), (0.0, -8.6)]


def toque(canvas: Canvas, *, tall: bool) -> None:
    """A cook's hat: the chef's tall one, or the low cap of the line."""
    if tall:
        canvas.blob(mirrored([(0, -37.5), (9, -37.2), (18.2, -32.5), (18.6, -25.5), (14.4, -19.0), (0, -16)]), WHITE)
        for x, bend in ((-8.0, -2.0), (-2.6, -0.6), (2.8, 0.6), (8.2, 2.0)):
            canvas.stroke([(x, -18.5), (x + bend * 0.3, -24.5), (x + bend, -30.5)], 0.9, SHADOW, taper=True)
    else:
        canvas.blob(mirrored([(0, -26.8), (9, -26.2), (14.6, -21.5), (15.4, -15.0), (0, -13)]), WHITE)
    canvas.blob(mirrored([(0, -20.2), (8, -19.8), (15.2, -17.6), (15.6, -10.6), (8, -12.6), (0, -13.2)]), PAPER)
    canvas.stroke([(-15.2, -17.4), (-8, -19.8), (0, -20.4), (8, -19.8), (15.2, -17.4)], 0.8, SHADOW)


def fire_helmet(canvas: Canvas, colour: Colour) -> None:
    """A fire helmet with comb, brim and front plate."""
    deep = mix(colour, INK, 0.22)
    canvas.blob(mirrored(_DOME), colour)
    canvas.blob(mirrored([(0, -31.0), (2.4, -30.0), (3.0, -22.0), (0, -12.0)]), deep)
    for side in (-1, 1):
        canvas.stroke([(side * 9.0, -25.4), (side * 12.4, -18.0), (side * 13.0, -11.0)], 1.0, deep, taper=True)
    canvas.blob(mirrored([(0, -12.6), (14, -11.6), (21.0, -7.2), (19.5, -4.8), (12, -7.6), (0, -8.8)]), deep)
    canvas.polygon([(-4.6, -23.0), (4.6, -23.0), (5.0, -15.0), (0, -11.0), (-5.0, -15.0)], INK)
    canvas.polygon([(-3.7, -22.1), (3.7, -22.1), (4.0, -15.4), (0, -12.2), (-4.0, -15.4)], GOLD)


def hard_hat(canvas: Canvas, colour: Colour) -> None:
    """A construction helmet with three ribs and a short brim."""
    deep = mix(colour, INK, 0.18)
    canvas.blob(mirrored(_DOME), colour)
    for x in (-6.0, 0.0, 6.0):
        canvas.stroke([(x, -26.4 + abs(x) * 0.15), (x * 1.25, -19.0), (x * 1.35, -12.5)], 1.7, deep, taper=True)
    canvas.blob(mirrored([(0, -12.2), (12, -11.4), (18.6, -8.8), (15.0, -6.8), (0, -8.4)]), deep)


def peaked_cap(canvas: Canvas, colour: Colour, *, band: Colour, emblem: Colour | None) -> None:
    """A uniform cap with a band, a black visor and, where there is one, an emblem."""
    canvas.blob(mirrored([(0, -28.4), (10, -27.4), (19.2, -22.6), (17.0, -16.2), (0, -14.0)]), colour)
    canvas.stroke(
        [(-18.6, -21.6), (-9, -18.6), (0, -17.8), (9, -18.6), (18.6, -21.6)], 0.9, mix(colour, WHITE, 0.18), taper=True
    )
    canvas.blob(mirrored([(0, -17.2), (9, -17.0), (15.8, -15.4), (15.4, -9.4), (0, -11.2)]), band)
    canvas.blob(mirrored([(0, -11.6), (9, -11.2), (14.6, -9.6), (9.6, -5.9), (0, -4.9)]), INK)
    canvas.stroke([(-10.6, -8.6), (-5, -6.8), (0, -6.4)], 0.8, STEEL, taper=True)
    if emblem is not None:
        canvas.ellipse(0, -19.0, 3.2, 3.5, emblem)
        canvas.ellipse(0, -19.0, 1.5, 1.7, mix(emblem, INK, 0.35))


def side_cap(canvas: Canvas, colour: Colour, trim: Colour) -> None:
    """A small cap worn high on the head, with a coloured edge."""
    canvas.blob(mirrored([(0, -27.6), (7, -26.4), (14.2, -19.6), (14.8, -14.6), (7, -15.8), (0, -16.2)]), colour)
    canvas.stroke([(-14.4, -15.0), (-7, -16.4), (0, -16.8), (7, -16.4), (14.4, -15.0)], 1.5, trim)


def work_cap(canvas: Canvas, colour: Colour) -> None:
    """A cloth cap with a short visor."""
    deep = mix(colour, INK, 0.3)
    canvas.blob(mirrored([(0, -26.6), (9, -25.0), (15.0, -18.6), (15.8, -10.6), (0, -11.6)]), colour)
    canvas.stroke([(0, -26.2), (0, -14.5)], 0.8, deep)
    canvas.blob(mirrored([(0, -12.8), (9, -12.2), (15.6, -10.2), (9.6, -6.6), (0, -5.8)]), deep)
