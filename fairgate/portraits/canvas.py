"""A small vector canvas on PIL: smooth shapes in picture units, supersampled, flat colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw

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

    def place(self, x: float = 0.0, y: float = 0.0, *, degrees: float = 0.0, width: float = 1.0) -> None:
        """Move the frame: the origin to (x, y), turned clockwise by `degrees`, widened by `width`."""
        turn = np.deg2rad(degrees)
        rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        self._matrix = np.diag([width, 1.0]) @ rotation * _SUPERSAMPLING
        self._origin = np.array([x, y]) * _SUPERSAMPLING

    def polygon(self, points: Points | NDArray[np.float64], colour: Colour) -> None:
        """Fill a straight-edged outline."""
        self._pen.polygon(self._pixels(points), fill=colour)

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
