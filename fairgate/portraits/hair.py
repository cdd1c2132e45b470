"""Hair: four cuts, each in a short (male) and a long (female) form, as drawn."""

from __future__ import annotations

from fairgate.portraits.canvas import Canvas, Colour, Points, mirrored, mix
from fairgate.portraits.scene import Cut, Scene

_SKULL: Points = [(0.0, -21.5), (9.0, -19.5), (14.6, -12.5), (15.2, -4.0)]
_LONG_BACK: dict[Cut, Points] = {
    "crop": [*_SKULL, (16.6, 6.0), (15.2, 14.0), (9.0, 16.5), (0.0, 16.0)],
    "parted": [*_SKULL, (16.8, 8.0), (18.6, 20.0), (18.0, 31.0), (9.0, 33.0), (0.0, 30.0)],
    "curls": [
        (0.0, -23.5),
        (11.0, -21.5),
        (18.0, -13.0),
        (20.0, -2.0),
        (20.5, 9.0),
        (18.6, 19.0),
        (11.0, 21.0),
        (0.0, 20.0),
    ],
    "tied": [*_SKULL, (14.6, 4.0), (10.0, 8.0), (0.0, 8.0)],
}
_FRINGE: dict[Cut, Points] = {
    "crop": [(-8.5, -7.5), (-4.0, -9.6), (1.0, -9.9), (6.0, -9.4), (9.5, -7.0)],
    "parted": [(-9.5, -7.0), (-6.5, -11.2), (-4.2, -14.0), (2.0, -11.0), (9.5, -6.5)],
    "curls": [(-9.0, -8.0), (-6.0, -11.2), (-2.0, -10.2), (2.0, -11.2), (6.0, -10.2), (9.5, -7.5)],
    "tied": [(-10.0, -8.0), (-5.0, -12.6), (0.0, -13.6), (5.0, -12.6), (10.0, -8.0)],
}


def draw_back_hair(canvas: Canvas, scene: Scene, hair: Colour, *, male: bool, hatted: bool) -> None:
    """What is seen of the hair behind neck and shoulders."""
    if male:
        return
    if scene.cut == "tied" and not hatted:
        canvas.ellipse(0, -23.0, 6.2, 5.2, mix(hair, (0, 0, 0), 0.15))
    canvas.blob(mirrored(_LONG_BACK[scene.cut]), mix(hair, (0, 0, 0), 0.18))
    if scene.cut == "tied":
        canvas.blob([(10, 4), (16, 8), (17.5, 18), (14.5, 25), (11.5, 18), (10, 11)], mix(hair, (0, 0, 0), 0.18))


def draw_front_hair(canvas: Canvas, scene: Scene, hair: Colour, *, male: bool) -> None:
    """The cap of hair over the skull, down to the fringe and the sides of the face."""
    w = scene.face_width
    top = -20.3 if male and scene.cut == "tied" else -22.0
    reach = {"crop": -2.0, "parted": -1.0, "curls": 0.0, "tied": -5.0}[scene.cut] if male else 5.5
    if not male and scene.cut == "tied":
        reach = 0.0
    crown = [
        (-15.0 * w, -4.0),
        (-14.8 * w, -12.0),
        (-9.0, top + 2.6),
        (0.0, top),
        (9.0, top + 2.6),
        (14.8 * w, -12.0),
        (15.0 * w, -4.0),
    ]
    right = [(14.7 * w, reach), (12.9 * w, reach), (11.8 * w, -3.5)]
    left = [(-x, y) for x, y in reversed(right)]
    canvas.blob([*crown, *right, *reversed(_FRINGE[scene.cut]), *left], hair)
    if scene.cut == "curls":
        for x, y in ((-12, -13), (-7.5, -18), (-1.5, -20.5), (5, -19.3), (10.5, -15), (13.5, -8.5), (-14, -8)):
            canvas.ellipse(x * w, y, 4.4, 4.2, hair)
    shine = mix(hair, (255, 244, 226), 0.2)
    x = -1 if scene.light_left else 1
    canvas.stroke([(x * 10.4, -13.2), (x * 7.4, -16.8), (x * 2.4, -18.6)], 1.6, shine, taper=True)
