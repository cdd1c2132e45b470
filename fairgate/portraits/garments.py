"""Pieces of clothing that several occupations share, drawn in the frame of the body: origin at the base of the neck."""

from __future__ import annotations

from fairgate.portraits.canvas import (
    GOLD,
    INK,
    PAPER,
    SHADOW,
    STEEL,
    WHITE,
    Canvas,
    Colour,
    Points,
    mirrored,
    mix,
    moved,
)
from fairgate.portraits.scene import Scene

_TORSO: Points = mirrored([(0.0, 2.0), (8.0, 3.2), (19.0, 6.4), (28.0, 11.5), (32.6, 22.0), (34.5, 46.0), (0.0, 50.0)])


def torso(canvas: Canvas, scene: Scene, colour: Colour, *, width: float) -> None:
    """Shoulders and chest in one colour, with a shaded side and the lines of the arms. `width` is the build's."""
    body = [(x * width, y) for x, y in _TORSO]
    canvas.blob(body, colour)
    shadow = mix(colour, (30, 40, 80), 0.14)
    side = 1 if scene.light_left else -1
    canvas.shade(
        body,
        [(side * x, y) for x, y in ((23 * width, 0), (50, 0), (50, 60), (25.5 * width, 60), (24 * width, 24))],
        shadow,
    )
    for x in (-23.5, 23.5):
        canvas.stroke([(x * width, 22), (x * width * 1.02, 30), (x * width, 44)], 0.9, mix(colour, (20, 24, 60), 0.3))


def v_neck(canvas: Canvas, colour: Colour, *, depth: float = 17.0, wide: float = 7.5) -> None:
    """The opening of a coat or jacket, filled with what is worn under it."""
    canvas.polygon([(-wide, 1.5), (wide, 1.5), (1.2, depth), (-1.2, depth)], colour)


def lapels(canvas: Canvas, colour: Colour) -> None:
    """Two lapels, and the closing below them."""
    canvas.both_sides([(6.5, 0.5), (11.5, 5.0), (10.2, 10.5), (7.4, 11.5), (0, 19), (1.2, 16)], colour)
    canvas.stroke([(0, 18), (0, 44)], 0.8, mix(colour, INK, 0.35))


def collar(canvas: Canvas, colour: Colour) -> None:
    """A shirt collar with its two points."""
    canvas.both_sides([(7.2, 0.2), (8.2, 3.6), (4.6, 9.4), (0.2, 5.2)], colour)


def tie(canvas: Canvas, colour: Colour, *, end: float = 22.0) -> None:
    """A knotted tie that ends at `end`."""
    canvas.polygon([(-1.9, 4.6), (1.9, 4.6), (1.2, 7.8), (-1.2, 7.8)], mix(colour, INK, 0.25))
    canvas.polygon([(-1.2, 7.8), (1.2, 7.8), (2.3, end - 2), (0, end), (-2.3, end - 2)], colour)


def neckerchief(canvas: Canvas, colour: Colour) -> None:
    """A knotted neckerchief with two tails."""
    canvas.blob([(-8.6, 1.4), (0, 5.6), (8.6, 1.4), (7.6, 5.4), (0, 9.2), (-7.6, 5.4)], colour)
    deep = mix(colour, INK, 0.22)
    canvas.both_sides([(0, 7.2), (5.2, 13.2), (1.4, 14.6)], deep)
    canvas.ellipse(0, 7.4, 2.1, 1.9, deep)


def stethoscope(canvas: Canvas) -> None:
    """A stethoscope around the neck, its disc on the chest."""
    tube = (44, 60, 84)
    canvas.stroke([(8.4, 1.0), (9.8, 8.0), (8.6, 15.0), (6.0, 19.0)], 1.7, tube)
    canvas.stroke([(-8.4, 1.0), (-10.6, 8.0), (-11.4, 14.0), (-11.0, 19.5)], 1.7, tube)
    canvas.ellipse(5.6, 20.4, 1.5, 1.5, STEEL)
    canvas.ellipse(-11.0, 22.2, 3.4, 3.4, tube)
    canvas.ellipse(-11.0, 22.2, 2.1, 2.1, (214, 222, 230))


def badge(
    canvas: Canvas, scene: Scene, colour: Colour = WHITE, *, rx: float = 4.6, ry: float = 3.6
) -> tuple[float, float]:
    """A plate on the chest; returns its centre, for the sign on it."""
    x, y = 14.0 + scene.detail_x, 20.0 + scene.detail_y
    canvas.polygon([(x - rx, y - ry), (x + rx, y - ry), (x + rx, y + ry), (x - rx, y + ry)], mix(colour, INK, 0.28))
    rx, ry = rx - 0.5, ry - 0.5
    canvas.polygon([(x - rx, y - ry), (x + rx, y - ry), (x + rx, y + ry), (x - rx, y + ry)], colour)
    return x, y


def cross(canvas: Canvas, x: float, y: float, colour: Colour, *, size: float = 2.7) -> None:
    """A cross with equal arms."""
    thick = size * 0.36
    canvas.polygon([(x - size, y - thick), (x + size, y - thick), (x + size, y + thick), (x - size, y + thick)], colour)
    canvas.polygon([(x - thick, y - size), (x + thick, y - size), (x + thick, y + size), (x - thick, y + size)], colour)


def wings(canvas: Canvas, scene: Scene) -> None:
    """A gold pin in the form of wings."""
    x, y = 14.5 + scene.detail_x, 17.5 + scene.detail_y
    canvas.stroke(moved(x, y, [(-5.0, -0.9), (-2.4, -0.2), (0, 0.7), (2.4, -0.2), (5.0, -0.9)]), 1.7, GOLD, taper=True)
    canvas.ellipse(x, y + 0.3, 1.4, 1.4, GOLD)


def buttons(
    canvas: Canvas, colour: Colour, *, columns: tuple[float, ...], top: float, step: float, rows: int = 4
) -> None:
    """Rows of round buttons."""
    for x in columns:
        for row in range(rows):
            canvas.ellipse(x, top + row * step, 1.15, 1.15, colour)


def double_breasted(canvas: Canvas) -> None:
    """The overlap and the two rows of buttons of a cook's jacket."""
    canvas.polygon([(-7.0, 1.0), (8.4, 1.0), (9.6, 46.0), (-9.6, 46.0)], WHITE)
    canvas.stroke([(8.4, 4.0), (9.6, 24.0), (9.6, 46.0)], 0.9, SHADOW)
    canvas.both_sides([(7.6, 0.0), (8.4, 4.2), (2.2, 7.4), (0, 4.6)], PAPER)
    buttons(canvas, (128, 136, 152), columns=(-5.2, 5.2), top=14.5, step=6.5)


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
