"""A small vector canvas on PIL: smooth shapes in picture units, supersampled, flat colours; the palette; and the canvas
with whom it shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw

from fairgate.portraits.scene import Hair, Scene

Colour = tuple[int, int, int]
Points = Sequence[tuple[float, float]]

UNITS = 96
"""Width and height of a picture in canvas units, which are also its pixels."""

_SUPERSAMPLING = 4
_CURVE_STEPS = 6
_T = np.linspace(0.0, 1.0, _CURVE_STEPS, endpoint=False)[:, None]
# Catmull-Rom weights of the four points around a segment, for every step along it.
_BASIS = 0.5 * np.hstack(
    [-_T + 2 * _T**2 - _T**3, 2 - 5 * _T**2 + 3 * _T**3, _T + 4 * _T**2 - 3 * _T**3, _T**3 - _T**2]
)
_CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 36)), np.sin(np.linspace(0, 2 * np.pi, 36))], axis=1)


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """`first` with `share` (0 to 1) of `second` in it."""
    r, g, b = (round(a + (z - a) * share) for a, z in zip(first, second, strict=True))
    return r, g, b


def mirrored(half: Points) -> list[tuple[float, float]]:
    """A closed outline from its right half, given from top to bottom, mirrored at x = 0."""
    return [*half, *((-x, y) for x, y in reversed(half) if x != 0)]


def moved(x: float, y: float, points: Points) -> list[tuple[float, float]]:
    """Points around the origin, moved to (x, y)."""
    return [(x + dx, y + dy) for dx, dy in points]


def smooth(points: Points, *, closed: bool) -> NDArray[np.float64]:
    """A Catmull-Rom curve through points, as an (n, 2) polyline."""
    p = np.asarray(points, dtype=np.float64)
    if closed:
        around = np.stack([np.roll(p, 1, axis=0), p, np.roll(p, -1, axis=0), np.roll(p, -2, axis=0)], axis=1)
        curve: NDArray[np.float64] = np.einsum("sk,nkd->nsd", _BASIS, around).reshape(-1, 2)
        return curve
    padded = np.vstack([2 * p[0] - p[1], p, 2 * p[-1] - p[-2]])
    around = np.stack([padded[:-3], padded[1:-2], padded[2:-1], padded[3:]], axis=1)
    return np.vstack([np.einsum("sk,nkd->nsd", _BASIS, around).reshape(-1, 2), p[-1:]])


class Canvas:
    """A square picture; shapes are given in units of the current frame (`place`) and painted over each other."""

    def __init__(self, background: Colour) -> None:
        side = UNITS * _SUPERSAMPLING
        self._image = Image.new("RGB", (side, side), background)
        self._pen = ImageDraw.Draw(self._image)
        self.place()

    def place(self, x: float = 0.0, y: float = 0.0, *, degrees: float = 0.0) -> None:
        """Move the frame: the origin to (x, y), turned clockwise by `degrees`."""
        turn = np.deg2rad(degrees)
        rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        self._matrix = rotation * _SUPERSAMPLING
        self._origin = np.array([x, y]) * _SUPERSAMPLING

    def polygon(self, points: Points | NDArray[np.float64], colour: Colour) -> None:
        """Fill a straight-edged outline."""
        self._pen.polygon(self._pixels(points), fill=colour)

    def box(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """Fill a rectangle."""
        self.polygon([(left, top), (right, top), (right, bottom), (left, bottom)], colour)

    def both_sides(self, points: Points, colour: Colour) -> None:
        """Fill a straight-edged outline mirrored at x = 0, and the outline itself."""
        for side in (-1, 1):
            self.polygon([(side * x, y) for x, y in points], colour)

    def blob(self, points: Points, colour: Colour) -> None:
        """Fill the smooth closed outline through points."""
        self.polygon(smooth(points, closed=True), colour)

    def ellipse(self, x: float, y: float, rx: float, ry: float, colour: Colour) -> None:
        """Fill an ellipse with centre (x, y) and radii rx, ry."""
        self.polygon(_CIRCLE * (rx, ry) + (x, y), colour)

    def stroke(self, points: Points, width: float, colour: Colour, *, taper: bool = False) -> None:
        """Draw a smooth line with round ends, or one that thins out towards them."""
        line = smooth(points, closed=False)
        along = np.gradient(line, axis=0)
        normal = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.linalg.norm(along, axis=1, keepdims=True)
        half = np.full((len(line), 1), width / 2)
        if taper:
            half = half * np.sin(np.linspace(0.15, np.pi - 0.15, len(line)))[:, None]
        self.polygon(np.vstack([line + normal * half, (line - normal * half)[::-1]]), colour)
        if not taper:
            for x, y in (line[0], line[-1]):
                self.ellipse(float(x), float(y), width / 2, width / 2, colour)

    def shade(self, inside: Points, points: Points, colour: Colour) -> None:
        """Fill the part of the smooth outline `points` that lies within the smooth outline `inside`."""
        masks = []
        for outline in (inside, points):
            mask = Image.new("1", self._image.size)
            ImageDraw.Draw(mask).polygon(self._pixels(smooth(outline, closed=True)), fill=1)
            masks.append(mask)
        self._image.paste(colour, mask=ImageChops.logical_and(*masks))

    def finish(self) -> Image.Image:
        """The picture at its final size, `UNITS` pixels square."""
        return self._image.reduce(_SUPERSAMPLING)

    def _pixels(self, points: Points | NDArray[np.float64]) -> list[tuple[float, float]]:
        placed = np.asarray(points, dtype=np.float64) @ self._matrix + self._origin
        return list(map(tuple, placed.tolist()))


WHITE: Colour = (250, 250, 248)
PAPER: Colour = (236, 239, 243)
SHADOW: Colour = (206, 213, 223)
INK: Colour = (38, 40, 52)
NAVY: Colour = (38, 52, 92)
GOLD: Colour = (232, 184, 64)
RED: Colour = (204, 52, 52)
GREEN: Colour = (40, 142, 86)
YELLOW: Colour = (246, 210, 62)
STEEL: Colour = (150, 160, 172)

SKIN: dict[str, Colour] = {
    "light": (246, 210, 184),
    "tan": (222, 170, 126),
    "brown": (166, 110, 72),
    "dark": (92, 58, 44),
}
HAIR: dict[Hair, Colour] = {
    "black": (34, 30, 34),
    "dark brown": (56, 38, 32),
    "brown": (132, 84, 46),
    "auburn": (158, 72, 38),
    "grey": (164, 164, 168),
}
BACKGROUNDS: tuple[tuple[Colour, Colour], ...] = (
    ((176, 212, 226), (150, 194, 212)),
    ((244, 214, 170), (236, 196, 142)),
    ((190, 220, 190), (164, 202, 166)),
    ((226, 196, 214), (212, 174, 198)),
    ((206, 202, 232), (184, 180, 218)),
    ((240, 200, 186), (230, 178, 162)),
    ((214, 218, 210), (192, 198, 190)),
    ((170, 206, 202), (142, 186, 182)),
)
ACCENTS: tuple[Colour, ...] = ((196, 58, 62), (52, 104, 170), (226, 142, 48), (112, 76, 150), (34, 132, 126))


class Figure(Canvas):
    """A canvas with whom it shows: the scene, the gender presentation, the width of the shoulders, and the shades of
    skin, hair and clothes."""

    def __init__(self, scene: Scene, skin_tone: str, gender: str) -> None:
        super().__init__(BACKGROUNDS[scene.background][0])
        self.scene = scene
        self.male = gender == "male"
        self.width = 1.04 if self.male else 0.9
        self.hair = HAIR[scene.hair]
        self.accent = ACCENTS[scene.accent]
        light = (255, 190, 150) if scene.warmth > 0 else (190, 170, 190)  # the same for every member of a set
        self.skin = mix(SKIN[skin_tone], light, abs(scene.warmth) * 0.06)
        self.shadow = mix(self.skin, (92, 30, 30), 0.2)
        self.deep = mix(self.skin, (60, 16, 20), 0.45)
        self.glow = mix(self.skin, (240, 100, 90), 0.2)
        self.lips = mix(self.skin, (150, 50, 55), 0.42) if self.male else mix(self.skin, (190, 26, 58), 0.68)
