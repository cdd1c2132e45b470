"""Training data of the substitute models: drawn portraits with the outline of the person and the box of the face; and
spoilt pictures, planted so that filters can be tested: distorted bodies, grey pictures, blur, two people.

Each function that spoils takes a picture of any size and gives one of the same size, except `two_people`, which is as
wide as two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from fairgate.portraits.canvas import ACCENTS, BACKGROUNDS, INK, UNITS, mix
from fairgate.portraits.draw import draw
from fairgate.portraits.pool import draw_in_parallel
from fairgate.portraits.scene import Scene, scene_of
from fairgate.portraits.standin_nets import AGES, FIND
from fairgate.portraits.world import GROUPS, LABELS

SEED = 21
SETS = 20
"""Sets of every label; a portrait is drawn three times, twice for its mask."""

Quad = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""


@dataclass(frozen=True, slots=True)
class Portrait:
    """A drawn portrait and the truth about it; `mask` (96, 96) is True on the person, `face` the face's box."""

    picture: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    face: Quad
    label: str
    skin_tone: str
    gender: str
    age: str


def portrait(scene: Scene, label: str, skin_tone: str, gender: str) -> Portrait:
    """Draw a portrait, and find its person by drawing it before two other backgrounds."""
    plain = [replace(scene, pattern="plain", background=background) for background in (0, 1)]
    first, second = (np.asarray(draw(other, label, skin_tone, gender)).astype(int) for other in plain)
    apart = np.abs(np.subtract(BACKGROUNDS[0][0], BACKGROUNDS[1][0])).sum()
    return Portrait(
        picture=np.asarray(draw(scene, label, skin_tone, gender)),
        mask=np.abs(first - second).sum(axis=2) < apart / 2,
        face=scene.face_box(),
        label=label,
        skin_tone=skin_tone,
        gender=gender,
        age=AGES[int(scene.lines)],
    )


def draw_portraits(seed: int = SEED, sets: int = SETS) -> list[Portrait]:
    """`sets` counterfactual sets of every label."""
    jobs = [(label, number) for label in LABELS for number in range(sets)]
    return [one for members in draw_in_parallel(_portraits_of, seed, jobs) for one in members]


def _portraits_of(seed: int, label: str, number: int) -> list[Portrait]:
    scene = scene_of(seed, label, number)
    return [portrait(scene, label, *group) for group in GROUPS]


@dataclass(frozen=True, slots=True)
class Material:
    """Portraits, the same as the generator's VAE gives them back, and painted pictures; both (n, 32, 32, 3)."""

    portraits: list[Portrait]
    softened: NDArray[np.uint8]
    painted: NDArray[np.uint8]

    def pick(self, rng: np.random.Generator, soft: float) -> tuple[Portrait, Image.Image, bool]:
        """A portrait, a picture of it, and whether it is the softened one, as with probability `soft`; others are shown
        at their own size or at a third of it."""
        index = int(rng.integers(len(self.portraits)))
        who = self.portraits[index]
        if rng.random() < soft:
            return who, Image.fromarray(self.softened[index]), True
        picture = Image.fromarray(who.picture)
        return who, picture.reduce(3) if rng.random() < 0.5 else picture, False


@dataclass(frozen=True, slots=True)
class Composite:
    """A picture of FIND px with up to two people, their mask, and a person's and a face's box for each."""

    picture: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    boxes: tuple[tuple[Quad, Quad], ...]


def compose(rng: np.random.Generator, material: Material) -> Composite:
    """Nobody, one person or two of the portraits, as tiles with their own background or cut out before another one.

    Wide pictures leave the lower part of the square black, as `letterbox` does.
    """
    people = int(rng.choice(3, p=(0.1, 0.55, 0.35)))
    height = FIND if people < 2 and rng.random() < 0.8 else int(FIND * rng.uniform(0.5, 1.0))
    image = _backdrop(rng, FIND, height)
    mask = Image.new("1", image.size)
    boxes = []
    for place in range(people):
        side, left, top = _place(rng, people, place, height)
        who, tile, _ = material.pick(rng, 0.4)
        tile = tile.resize((side, side), Image.Resampling.BILINEAR)
        outline = Image.fromarray(who.mask).convert("L").resize((side, side), Image.Resampling.BILINEAR)
        image.paste(tile, (left, top), None if rng.random() < 0.7 else outline)
        mask.paste(1, (left, top), outline.point(lambda value: 255 * (value > 127)).convert("1"))
        rows, columns = np.any(who.mask, axis=1).nonzero()[0], np.any(who.mask, axis=0).nonzero()[0]
        person = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
        boxes.append((_moved(person, side, left, top, height), _moved(who.face, side, left, top, height)))
    whole, whole_mask = Image.new("RGB", (FIND, FIND)), Image.new("1", (FIND, FIND))
    whole.paste(image)
    whole_mask.paste(mask)
    return Composite(np.asarray(whole), np.asarray(whole_mask), tuple(boxes))


def _place(rng: np.random.Generator, people: int, place: int, height: int) -> tuple[int, int, int]:
    """Side, left and top of a person's tile."""
    if people == 1:
        if rng.random() < 0.4:
            return height, (FIND - height) // 2, 0
        side = int(rng.uniform(0.5, 1.1) * height)
        low, high = sorted((0, FIND - side))
        return side, int(rng.integers(low, high + 1)), height - side + int(rng.integers(0, 3))
    half = FIND // 2
    side = min(int(rng.uniform(0.75, 1.0) * half), height)
    left = place * half + int(rng.integers(0, half - side + 1))
    return side, left, int(rng.integers(0, height - side + 1)) if rng.random() < 0.5 else height - side


def _moved(box: Quad, side: int, left: int, top: int, height: int) -> Quad:
    """A portrait's box in the picture that it is a tile of, as far as it is visible."""
    scale = side / UNITS
    x0, y0, x1, y1 = (value * scale + offset for value, offset in zip(box, (left, top, left, top), strict=True))
    return max(x0, 0.0), max(y0, 0.0), min(x1, float(FIND)), min(y1, float(height))


def _backdrop(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """A wall in one of the palette's colours, plain or with things in front of it, or noise."""
    if rng.random() < 0.05:
        return Image.fromarray(rng.integers(0, 256, (height, width, 3)).astype(np.uint8))
    wall, second = BACKGROUNDS[int(rng.integers(len(BACKGROUNDS)))]
    image = Image.new("RGB", (width, height), wall)
    pen = ImageDraw.Draw(image)
    colours = [second, mix(second, INK, 0.4), (60, 130, 80), *ACCENTS]
    for _ in range(int(rng.integers(0, 7))):
        x, y = int(rng.integers(0, width)), int(rng.integers(0, height))
        wide, high = int(rng.integers(3, 18)), int(rng.integers(3, 30))
        shape = pen.ellipse if rng.random() < 0.4 else pen.rectangle
        shape((x, y, x + wide, y + high), fill=colours[int(rng.integers(len(colours)))])
    return image


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
