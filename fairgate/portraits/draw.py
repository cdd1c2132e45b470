"""Portraits: one member of a counterfactual set, from its scene, label, skin tone and gender presentation."""

from __future__ import annotations

import io

from PIL import Image

from fairgate.portraits import face
from fairgate.portraits.canvas import ACCENTS, BACKGROUNDS, HAIR, UNITS, WHITE, Canvas, complexion, mix
from fairgate.portraits.outfits import OUTFITS, Wearer
from fairgate.portraits.scene import Scene

_STEP = 4
"""Colours are rounded to multiples of this, which halves the PNG and cannot be seen."""


def draw(scene: Scene, label: str, skin_tone: str, gender: str) -> Image.Image:
    """A head-and-shoulders portrait, RGB, 96 x 96 px.

    Of two calls with the same scene and label, the pictures differ only where skin, hair, face and build are drawn.
    """
    male = gender == "male"
    skin = complexion(skin_tone, scene.warmth)
    colour = HAIR[scene.hair]
    clothes, hat = OUTFITS[label]
    canvas = Canvas(BACKGROUNDS[scene.background][0])
    _draw_background(canvas, scene)
    head = (48 + scene.x, 41 + scene.y)
    body = (48 + scene.x, 60 + scene.y)

    canvas.place(*head, degrees=scene.tilt)
    face.draw_back_hair(canvas, scene, colour, male=male, hatted=hat is not None)
    canvas.place(*head)
    face.draw_neck(canvas, skin, male=male)
    canvas.place(*body)
    clothes(Wearer(canvas, scene, skin, 1.04 if male else 0.9))
    canvas.place(*head, degrees=scene.tilt)
    face.draw_head(canvas, scene, skin, male=male)
    if male:
        face.draw_whiskers(canvas, scene, colour)
    face.draw_features(canvas, scene, skin, colour, male=male)
    face.draw_front_hair(canvas, scene, colour, male=male)
    if scene.glasses:
        face.draw_glasses(canvas, scene)
    if hat is not None:
        hat(canvas, ACCENTS[scene.accent])
    return canvas.finish().point(lambda value: min(255, (value + _STEP // 2) // _STEP * _STEP))


def png(image: Image.Image) -> bytes:
    """The picture as PNG bytes."""
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _draw_background(canvas: Canvas, scene: Scene) -> None:
    colour, second = BACKGROUNDS[scene.background]
    light = mix(colour, WHITE, 0.35)
    if scene.pattern == "disc":
        canvas.ellipse(48, 44, 38, 38, light)
    elif scene.pattern == "arch":
        canvas.ellipse(48, 42, 34, 34, second)
        canvas.polygon([(14, 42), (82, 42), (82, UNITS), (14, UNITS)], second)
    elif scene.pattern == "window":
        for x in (8, 66):
            canvas.polygon([(x, 10), (x + 22, 10), (x + 22, 52), (x, 52)], light)
    elif scene.pattern == "band":
        canvas.polygon([(0, 62), (96, 26), (96, 96), (0, 96)], second)
    elif scene.pattern == "hills":
        canvas.blob([(-20, 110), (-10, 64), (18, 56), (44, 70), (74, 54), (106, 62), (116, 110)], second)
