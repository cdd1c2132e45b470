"""Spoilt pictures, planted so that filters can be tested: distorted bodies, grey pictures, blur, two people.

Each function takes a picture of any size and gives one of the same size, except `two_people`, which is as wide as two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

Pixels = NDArray[np.uint8]


def distorted(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """The person bent, with parts missing, or with parts in the wrong place; the background mostly stays."""
    pixels = np.asarray(picture.convert("RGB")).copy()
    kind = (_bent, _erased, _swapped)[int(rng.integers(3))]
    return Image.fromarray(kind(pixels, rng))


def grey(picture: Image.Image) -> Image.Image:
    """The picture without colour, still RGB: it has at most 256 different colours."""
    return picture.convert("L").convert("RGB")


def blurred(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A blur of 2 to 5% of the picture's width."""
    return picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.02, 0.05) * picture.width))


def noisy(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Gaussian noise of 12 to 30 grey levels on every pixel."""
    pixels = np.asarray(picture.convert("RGB")).astype(np.float32)
    pixels += rng.normal(0, rng.uniform(12, 30), pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def two_people(left: Image.Image, right: Image.Image) -> Image.Image:
    """Two pictures of the same size side by side in one."""
    pair = Image.new("RGB", (left.width + right.width, left.height))
    pair.paste(left, (0, 0))
    pair.paste(right, (left.width, 0))
    return pair


def _bent(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Rows shifted along a wave of 7 to 12% of the width, one to two and a half periods high."""
    height, width = pixels.shape[:2]
    turns, start = rng.uniform(1.0, 2.5), rng.uniform(0, 2 * np.pi)
    shift = rng.uniform(0.07, 0.12) * width * np.sin(start + 2 * np.pi * turns * np.arange(height) / height)
    columns = np.clip(np.arange(width)[None] + np.rint(shift)[:, None].astype(int), 0, width - 1)
    out: Pixels = pixels[np.arange(height)[:, None], columns]
    return out


def _erased(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """One or two blocks over the person, in the colour of the upper left corner."""
    side = pixels.shape[0]
    for _ in range(int(rng.integers(1, 3))):
        high, wide = (rng.uniform(0.2, 0.35, 2) * side).astype(int)
        top, left = (rng.uniform((0.25, 0.2), (0.65, 0.55)) * side).astype(int)
        pixels[top : top + high, left : left + wide] = pixels[0, 0]
    return pixels


def _swapped(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """The lower half under the upper one at the wrong side, or two bands of rows in each other's place."""
    height, width = pixels.shape[:2]
    if rng.random() < 0.5:
        cut = int(rng.uniform(0.4, 0.6) * height)
        pixels[cut:] = np.roll(pixels[cut:], int(rng.choice([-1, 1]) * rng.uniform(0.2, 0.35) * width), axis=1)
        return pixels
    band = int(rng.uniform(0.18, 0.24) * height)
    first = int(rng.uniform(0.2, 0.3) * height)
    second = int(rng.uniform(0.55, 0.7) * height)
    upper = pixels[first : first + band].copy()
    pixels[first : first + band] = pixels[second : second + band]
    pixels[second : second + band] = upper
    return pixels
