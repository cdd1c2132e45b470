"""Portraits: one member of a counterfactual set, from its scene, label, skin tone and gender presentation; and head,
face, neck and hair, which show the last two."""

from __future__ import annotations

import io

from PIL import Image

from fairgate.portraits.canvas import BACKGROUNDS, INK, UNITS, WHITE, Figure, Points, mirrored, mix
from fairgate.portraits.outfits import OUTFITS
from fairgate.portraits.scene import Cut, Scene

_STEP = 4
"""Colours are rounded to multiples of this, which halves the PNG and cannot be seen."""


def draw(scene: Scene, label: str, skin_tone: str, gender: str) -> Image.Image:
    """A head-and-shoulders portrait, RGB, 96 x 96 px.

    Of two calls with the same scene and label, the pictures differ only where skin, hair, face and build are drawn.
    """
    clothes, hat = OUTFITS[label]
    figure = Figure(scene, skin_tone, gender)
    _draw_background(figure)
    head = (48 + scene.x, 41 + scene.y)
    if not figure.male:
        figure.place(*head, degrees=scene.tilt)
        _draw_back_hair(figure, hatted=hat is not None)
    figure.place(*head)
    _draw_neck(figure)
    figure.place(48 + scene.x, 60 + scene.y)
    clothes(figure)
    figure.place(*head, degrees=scene.tilt)
    _draw_head(figure)
    if figure.male:
        _draw_whiskers(figure)
    _draw_features(figure)
    _draw_front_hair(figure)
    if scene.glasses:
        _draw_glasses(figure)
    if hat is not None:
        hat(figure)
    return figure.finish().point(lambda value: min(255, (value + _STEP // 2) // _STEP * _STEP))


def png(image: Image.Image) -> bytes:
    """The picture as PNG bytes."""
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _draw_background(figure: Figure) -> None:
    colour, second = BACKGROUNDS[figure.scene.background]
    light = mix(colour, WHITE, 0.35)
    pattern = figure.scene.pattern
    if pattern == "disc":
        figure.ellipse(48, 44, 38, 38, light)
    elif pattern == "arch":
        figure.ellipse(48, 42, 34, 34, second)
        figure.box(14, 42, 82, UNITS, second)
    elif pattern == "window":
        for x in (8, 66):
            figure.box(x, 10, x + 22, 52, light)
    elif pattern == "band":
        figure.polygon([(0, 62), (96, 26), (96, 96), (0, 96)], second)
    elif pattern == "hills":
        figure.blob([(-20, 110), (-10, 64), (18, 56), (44, 70), (74, 54), (106, 62), (116, 110)], second)


def _draw_neck(figure: Figure) -> None:
    """The neck, with the shadow that the chin throws on it."""
    wide = 7.0 if figure.male else 5.5
    neck = mirrored([(wide, 8.0), (wide, 20.0), (wide + 3.5, 27.0), (0.0, 33.0)])
    figure.blob(neck, figure.skin)
    figure.shade(neck, [(-12, 8), (12, 8), (9, 19.5), (0, 22.5), (-9, 19.5)], figure.shadow)


_SHADED_SIDE: Points = [(9.4, -22), (22, -22), (22, 24), (1, 24), (6.6, 14.5), (10.4, 6), (10.9, -6)]


def _draw_head(figure: Figure) -> None:
    """Ears, face shape and its shaded side, around an origin between the eyes and the nose; the chin is near y = 17."""
    wide, long = figure.scene.face_width, figure.scene.face_length
    for side in (-1, 1):
        figure.ellipse(side * 13.5 * wide, 1.5, 2.5, 3.7, figure.skin)
        figure.ellipse(side * (13.5 * wide + 0.3), 1.6, 1.3, 2.2, figure.shadow)
    jaw, cheek, chin = (10.9, 13.4, 5.8) if figure.male else (8.7, 13.2, 3.9)
    above = [(0.0, -18.5), (8.0, -16.5), (12.6, -9.0), (13.4, -1.0)]
    half = [*above, (cheek - 0.8, 6.5), (jaw, 12.2 + long), (chin, 16.4 + long), (0.0, 17.6 + long)]
    face = mirrored([(x * wide, y) for x, y in half])
    figure.blob(face, figure.skin)
    dark = 1 if figure.scene.light_left else -1
    figure.shade(face, [(dark * x, y) for x, y in _SHADED_SIDE], figure.shadow)
    for side in (-1, 1):
        figure.ellipse(side * 7.6, 6.2, 2.8, 1.9, figure.glow)


def _draw_features(figure: Figure) -> None:
    """Eyes, brows, nose, mouth, lines of age."""
    male, shadow = figure.male, figure.shadow
    brow = mix(figure.hair, figure.deep, 0.45)
    for side in (-1, 1):
        _draw_eye(figure, side)
        points = [(side * 2.5, -4.3), (side * 5.2, -5.4 if male else -6.3), (side * 8.6, -3.9)]
        figure.stroke(points, 2.3 if male else 1.3, brow, taper=True)
        if figure.scene.lines:
            figure.stroke([(side * 4.4, 6.6), (side * 6.0, 9.0)], 0.7, shadow, taper=True)
            figure.stroke([(side * 3.6, 2.5), (side * 5.4, 3.3), (side * 7.2, 2.5)], 0.6, shadow, taper=True)
    nose = [(0.2, 0.6), (1.9 if male else 1.5, 4.6), (0.6, 5.9), (-1.0, 5.6)]
    figure.stroke(nose, 1.1, mix(shadow, figure.deep, 0.35), taper=True)
    _draw_mouth(figure)


def _draw_eye(figure: Figure, side: int) -> None:
    x = side * 5.5
    tall = 1.6 if figure.male else 1.95
    figure.ellipse(x, -0.4, 2.6, tall, WHITE)
    figure.ellipse(x, -0.4, 1.5, min(tall, 1.75), (58, 38, 30))
    figure.ellipse(x + 0.5, -1.0, 0.5, 0.5, WHITE)
    lid = [(x - side * 2.7, -0.2), (x, -0.6 - tall), (x + side * 2.8, -0.6)]
    figure.stroke(lid, 0.9 if figure.male else 1.3, mix(INK, figure.deep, 0.3), taper=figure.male)
    if not figure.male:
        figure.stroke([(x + side * 2.3, -1.0), (x + side * 3.9, -2.2)], 0.9, INK, taper=True)


def _draw_mouth(figure: Figure) -> None:
    y, lift = 10.6 + figure.scene.face_length * 0.5, figure.scene.smile
    wide, full = (4.6, 0.85) if figure.male else (4.2, 1.55)
    corner = y - 1.1 * lift
    upper = [(-wide, corner), (-1.3, y - 0.2 - full), (0, y + 0.2 - full), (1.3, y - 0.2 - full), (wide, corner)]
    figure.blob([*upper, (2.2, y + full + 0.5), (0, y + full + 0.9), (-2.2, y + full + 0.5)], figure.lips)
    if lift > 0.62:
        figure.blob([(-wide + 1, corner + 0.2), (0, y - 0.3), (wide - 1, corner + 0.2), (0, y + 1.2)], WHITE)
    else:
        closed = [(-wide + 0.4, corner + 0.1), (0, y + 0.2), (wide - 0.4, corner + 0.1)]
        figure.stroke(closed, 0.6, figure.deep, taper=True)


def _draw_whiskers(figure: Figure) -> None:
    """A moustache or a beard, where the scene has one for its male members."""
    wide, long = figure.scene.face_width, figure.scene.face_length
    if figure.scene.whiskers == "beard":
        outer = [(13.2 * wide, 3.0), (12.6 * wide, 8.5), (10.6 * wide, 13.8 + long), (5.6, 18.2 + long)]
        inner = [(0.0, 7.2), (5.2, 7.8), (8.6, 7.6), (11.4 * wide, 3.0)]
        for side in (-1, 1):
            figure.blob([(side * x, y) for x, y in [*outer, (0.0, 19.2 + long), *inner]], figure.hair)
    elif figure.scene.whiskers == "moustache":
        y = 8.6 + long * 0.5
        above = [(-5.4, y + 1.3), (-2.5, y - 1.0), (0, y - 0.5), (2.5, y - 1.0), (5.4, y + 1.3)]
        figure.blob([*above, (0, y + 0.9)], figure.hair)


_RING: Points = [(1, 0), (0.71, 0.71), (0, 1), (-0.71, 0.71), (-1, 0), (-0.71, -0.71), (0, -1), (0.71, -0.71), (1, 0)]


def _draw_glasses(figure: Figure) -> None:
    """Thin round glasses."""
    for side in (-1, 1):
        figure.stroke([(side * 5.6 + 3.5 * x, -0.2 + 3.1 * y) for x, y in _RING], 0.8, INK)
        figure.stroke([(side * 9.1, -0.8), (side * 13.4 * figure.scene.face_width, -0.4)], 0.8, INK)
    figure.stroke([(-2.2, -0.6), (0, -1.2), (2.2, -0.6)], 0.8, INK)


_SKULL: Points = [(0.0, -21.5), (9.0, -19.5), (14.6, -12.5), (15.2, -4.0)]
_CURLY_SKULL: Points = [(0.0, -23.5), (11.0, -21.5), (18.0, -13.0), (20.0, -2.0)]
_LONG_BACK: dict[Cut, Points] = {
    "crop": [*_SKULL, (16.6, 6.0), (15.2, 14.0), (9.0, 16.5), (0.0, 16.0)],
    "parted": [*_SKULL, (16.8, 8.0), (18.6, 20.0), (18.0, 31.0), (9.0, 33.0), (0.0, 30.0)],
    "curls": [*_CURLY_SKULL, (20.5, 9.0), (18.6, 19.0), (11.0, 21.0), (0.0, 20.0)],
    "tied": [*_SKULL, (14.6, 4.0), (10.0, 8.0), (0.0, 8.0)],
}
_FRINGE: dict[Cut, Points] = {
    "crop": [(-8.5, -7.5), (-4.0, -9.6), (1.0, -9.9), (6.0, -9.4), (9.5, -7.0)],
    "parted": [(-9.5, -7.0), (-6.5, -11.2), (-4.2, -14.0), (2.0, -11.0), (9.5, -6.5)],
    "curls": [(-9.0, -8.0), (-6.0, -11.2), (-2.0, -10.2), (2.0, -11.2), (6.0, -10.2), (9.5, -7.5)],
    "tied": [(-10.0, -8.0), (-5.0, -12.6), (0.0, -13.6), (5.0, -12.6), (10.0, -8.0)],
}
_REACH: dict[Cut, tuple[float, float]] = {"crop": (-2, 5.5), "parted": (-1, 5.5), "curls": (0, 5.5), "tied": (-5, 0)}
"""How far down the hair at the sides of the face reaches: where presented as male, and as female."""


def _draw_back_hair(figure: Figure, *, hatted: bool) -> None:
    """What is seen of long hair behind neck and shoulders."""
    cut, colour = figure.scene.cut, mix(figure.hair, (0, 0, 0), 0.18)
    if cut == "tied" and not hatted:
        figure.ellipse(0, -23.0, 6.2, 5.2, mix(figure.hair, (0, 0, 0), 0.15))
    figure.blob(mirrored(_LONG_BACK[cut]), colour)
    if cut == "tied":
        figure.blob([(10, 4), (16, 8), (17.5, 18), (14.5, 25), (11.5, 18), (10, 11)], colour)


def _draw_front_hair(figure: Figure) -> None:
    """The cap of hair over the skull, down to the fringe and the sides of the face."""
    w, cut, hair = figure.scene.face_width, figure.scene.cut, figure.hair
    top = -20.3 if figure.male and cut == "tied" else -22.0
    reach = _REACH[cut][not figure.male]
    right = [(9.0, top + 2.6), (14.8 * w, -12.0), (15.0 * w, -4.0)]
    right += [(14.7 * w, reach), (12.9 * w, reach), (11.8 * w, -3.5)]
    left = [(-x, y) for x, y in reversed(right)]
    figure.blob([(0.0, top), *right, *reversed(_FRINGE[cut]), *left], hair)
    if cut == "curls":
        for x, y in ((-12, -13), (-7.5, -18), (-1.5, -20.5), (5, -19.3), (10.5, -15), (13.5, -8.5), (-14, -8)):
            figure.ellipse(x * w, y, 4.4, 4.2, hair)
    side = -1 if figure.scene.light_left else 1
    shine = [(side * 10.4, -13.2), (side * 7.4, -16.8), (side * 2.4, -18.6)]
    figure.stroke(shine, 1.6, mix(hair, (255, 244, 226), 0.2), taper=True)
