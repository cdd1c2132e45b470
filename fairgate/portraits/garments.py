"""Pieces of clothing that several occupations share, drawn in the frame of the body: origin at the base of the neck."""

from __future__ import annotations

from fairgate.portraits.canvas import Canvas, Colour, Points, mirrored, mix
from fairgate.portraits.palette import GOLD, INK, PAPER, SHADOW, STEEL, WHITE
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


def lapels(canvas: Canvas, colour: Colour, *, depth: float = 18.0) -> None:
    """Two lapels that meet at `depth`, and the closing below them."""
    for side in (-1, 1):
        canvas.polygon(
            [
                (side * 6.5, 0.5),
                (side * 11.5, 5.0),
                (side * 10.2, 10.5),
                (side * 7.4, 11.5),
                (0, depth + 1),
                (side * 1.2, depth - 2),
            ],
            colour,
        )
    canvas.stroke([(0, depth), (0, 44)], 0.8, mix(colour, INK, 0.35))


def collar(canvas: Canvas, colour: Colour) -> None:
    """A shirt collar with its two points."""
    for side in (-1, 1):
        canvas.polygon([(side * 7.2, 0.2), (side * 8.2, 3.6), (side * 4.6, 9.4), (side * 0.2, 5.2)], colour)


def skin_v(canvas: Canvas, skin: Colour, *, depth: float = 10.0) -> None:
    """Bare skin in an open neckline."""
    canvas.polygon([(-6.4, 0), (6.4, 0), (0, depth)], skin)


def tie(canvas: Canvas, colour: Colour, *, end: float = 22.0) -> None:
    """A knotted tie that ends at `end`."""
    canvas.polygon([(-1.9, 4.6), (1.9, 4.6), (1.2, 7.8), (-1.2, 7.8)], mix(colour, INK, 0.25))
    canvas.polygon([(-1.2, 7.8), (1.2, 7.8), (2.3, end - 2), (0, end), (-2.3, end - 2)], colour)


def neckerchief(canvas: Canvas, colour: Colour) -> None:
    """A knotted neckerchief with two tails."""
    canvas.blob([(-8.6, 1.4), (0, 5.6), (8.6, 1.4), (7.6, 5.4), (0, 9.2), (-7.6, 5.4)], colour)
    deep = mix(colour, INK, 0.22)
    for side in (-1, 1):
        canvas.polygon([(0, 7.2), (side * 5.2, 13.2), (side * 1.4, 14.6)], deep)
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
    canvas.stroke(
        [(x - 5.0, y - 0.9), (x - 2.4, y - 0.2), (x, y + 0.7), (x + 2.4, y - 0.2), (x + 5.0, y - 0.9)],
        1.7,
        GOLD,
        taper=True,
    )
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
    for side in (-1, 1):
        canvas.polygon([(side * 7.6, 0.0), (side * 8.4, 4.2), (side * 2.2, 7.4), (0, 4.6)], PAPER)
    buttons(canvas, (128, 136, 152), columns=(-5.2, 5.2), top=14.5, step=6.5)
