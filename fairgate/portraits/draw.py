"""Portraits: one member of a counterfactual set, from its scene, label, skin tone and gender presentation."""

from __future__ import annotations

import io

from PIL import Image

from fairgate.portraits import face
from fairgate.portraits.canvas import BACKGROUNDS, UNITS, WHITE, Figure, mix
from fairgate.portraits.outfits import OUTFITS
from fairgate.portraits.scene import Scene

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
        face.draw_back_hair(figure, hatted=hat is not None)
    figure.place(*head)
    face.draw_neck(figure)
    figure.place(48 + scene.x, 60 + scene.y)
    clothes(figure)
    figure.place(*head, degrees=scene.tilt)
    face.draw_head(figure)
    if figure.male:
        face.draw_whiskers(figure)
    face.draw_features(figure)
    face.draw_front_hair(figure)
    if scene.glasses:
        face.draw_glasses(figure)
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
