"""Head, face, neck and hair: where skin tone and gender presentation are drawn."""

from __future__ import annotations

from fairgate.portraits.canvas import INK, WHITE, Canvas, Colour, Complexion, Points, mirrored, mix
from fairgate.portraits.scene import Cut, Scene


def outline(scene: Scene, *, male: bool) -> list[tuple[float, float]]:
    """The face's outline around its own origin, between the eyes and the nose; the chin is near y = 17."""
    jaw, cheek, chin = (10.9, 13.4, 5.8) if male else (8.7, 13.2, 3.9)
    long = scene.face_length
    half = [
        (0.0, -18.5),
        (8.0, -16.5),
        (12.6, -9.0),
        (13.4, -1.0),
        (cheek - 0.8, 6.5),
        (jaw, 12.2 + long),
        (chin, 16.4 + long),
        (0.0, 17.6 + long),
    ]
    return mirrored([(x * scene.face_width, y) for x, y in half])


def draw_neck(canvas: Canvas, skin: Complexion, *, male: bool) -> None:
    """The neck, with the shadow that the chin throws on it."""
    wide = 7.0 if male else 5.5
    neck = mirrored([(wide, 8.0), (wide, 20.0), (wide + 3.5, 27.0), (0.0, 33.0)])
    canvas.blob(neck, skin.base)
    canvas.shade(neck, [(-12, 8), (12, 8), (9, 19.5), (0, 22.5), (-9, 19.5)], skin.shadow)


def draw_head(canvas: Canvas, scene: Scene, skin: Complexion, *, male: bool) -> None:
    """Ears, face shape and its shaded side."""
    ear = 13.5 * scene.face_width
    for side in (-1, 1):
        canvas.ellipse(side * ear, 1.5, 2.5, 3.7, skin.base)
        canvas.ellipse(side * (ear + 0.3), 1.6, 1.3, 2.2, skin.shadow)
    face = outline(scene, male=male)
    canvas.blob(face, skin.base)
    dark = 1 if scene.light_left else -1
    canvas.shade(face, [(dark * x, y) for x, y in _SHADED_SIDE], skin.shadow)
    for side in (-1, 1):
        canvas.ellipse(side * 7.6, 6.2, 2.8, 1.9, skin.glow)


_SHADED_SIDE: Points = [(9.4, -22), (22, -22), (22, 24), (1, 24), (6.6, 14.5), (10.4, 6), (10.9, -6)]


def draw_features(canvas: Canvas, scene: Scene, skin: Complexion, hair: Colour, *, male: bool) -> None:
    """Eyes, brows, nose, mouth, lines of age."""
    brow = mix(hair, skin.deep, 0.45)
    for side in (-1, 1):
        _draw_eye(canvas, side, skin, male=male)
        arch = 0.5 if male else 1.4
        points = [(side * 2.5, -4.3), (side * 5.2, -4.9 - arch), (side * 8.6, -3.9)]
        canvas.stroke(points, 2.3 if male else 1.3, brow, taper=True)
        if scene.lines:
            canvas.stroke([(side * 4.4, 6.6), (side * 6.0, 9.0)], 0.7, skin.shadow, taper=True)
            canvas.stroke([(side * 3.6, 2.5), (side * 5.4, 3.3), (side * 7.2, 2.5)], 0.6, skin.shadow, taper=True)
    nose = 1.9 if male else 1.5
    canvas.stroke(
        [(0.2, 0.6), (nose, 4.6), (0.6, 5.9), (-1.0, 5.6)], 1.1, mix(skin.shadow, skin.deep, 0.35), taper=True
    )
    _draw_mouth(canvas, scene, skin, male=male)


def _draw_eye(canvas: Canvas, side: int, skin: Complexion, *, male: bool) -> None:
    x = side * 5.5
    tall = 1.6 if male else 1.95
    canvas.ellipse(x, -0.4, 2.6, tall, WHITE)
    canvas.ellipse(x, -0.4, 1.5, min(tall, 1.75), (58, 38, 30))
    canvas.ellipse(x + 0.5, -1.0, 0.5, 0.5, WHITE)
    lid = [(x - side * 2.7, -0.2), (x, -0.6 - tall), (x + side * 2.8, -0.6)]
    canvas.stroke(lid, 0.9 if male else 1.3, mix(INK, skin.deep, 0.3), taper=male)
    if not male:
        canvas.stroke([(x + side * 2.3, -1.0), (x + side * 3.9, -2.2)], 0.9, INK, taper=True)


def _draw_mouth(canvas: Canvas, scene: Scene, skin: Complexion, *, male: bool) -> None:
    y, lift = 10.6 + scene.face_length * 0.5, scene.smile
    wide = 4.6 if male else 4.2
    corner = y - 1.1 * lift
    lips = skin.lips if male else skin.lips_made_up
    full = 0.85 if male else 1.55
    upper = [(-wide, corner), (-1.3, y - 0.2 - full), (0, y + 0.2 - full), (1.3, y - 0.2 - full), (wide, corner)]
    canvas.blob([*upper, (2.2, y + full + 0.5), (0, y + full + 0.9), (-2.2, y + full + 0.5)], lips)
    if lift > 0.62:
        canvas.blob([(-wide + 1, corner + 0.2), (0, y - 0.3), (wide - 1, corner + 0.2), (0, y + 1.2)], WHITE)
    else:
        canvas.stroke(
            [(-wide + 0.4, corner + 0.1), (0, y + 0.2), (wide - 0.4, corner + 0.1)], 0.6, skin.deep, taper=True
        )


def draw_whiskers(canvas: Canvas, scene: Scene, hair: Colour) -> None:
    """A moustache or a beard, where the scene has one for its male members."""
    if scene.whiskers == "none":
        return
    y = 8.6 + scene.face_length * 0.5
    if scene.whiskers == "beard":
        long = scene.face_length
        wide = scene.face_width
        outer = [
            (13.2 * wide, 3.0),
            (12.6 * wide, 8.5),
            (10.6 * wide, 13.8 + long),
            (5.6, 18.2 + long),
            (0.0, 19.2 + long),
        ]
        inner = [(0.0, 7.2), (5.2, 7.8), (8.6, 7.6), (11.4 * wide, 3.0)]
        right = [*outer, *inner]
        for side in (-1, 1):
            canvas.blob([(side * x, py) for x, py in right], hair)
    else:
        canvas.blob(
            [(-5.4, y + 1.3), (-2.5, y - 1.0), (0, y - 0.5), (2.5, y - 1.0), (5.4, y + 1.3), (0, y + 0.9)], hair
        )


def draw_glasses(canvas: Canvas, scene: Scene) -> None:
    """Thin round glasses."""
    for side in (-1, 1):
        ring = [(side * 5.6 + 3.5 * x, -0.2 + 3.1 * y) for x, y in _RING]
        canvas.stroke(ring, 0.8, INK)
        canvas.stroke([(side * 9.1, -0.8), (side * 13.4 * scene.face_width, -0.4)], 0.8, INK)
    canvas.stroke([(-2.2, -0.6), (0, -1.2), (2.2, -0.6)], 0.8, INK)


_RING: Points = [(1, 0), (0.71, 0.71), (0, 1), (-0.71, 0.71), (-1, 0), (-0.71, -0.71), (0, -1), (0.71, -0.71), (1, 0)]


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
