"""The scene of a counterfactual set: all that its members share, drawn once from the set's own stream."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal, get_args

import numpy as np

from fairgate.ground.randomness import stream

Hair = Literal["black", "dark brown", "brown", "auburn", "grey"]
Cut = Literal["crop", "parted", "curls", "tied"]
Whiskers = Literal["none", "moustache", "beard"]
Pattern = Literal["plain", "disc", "arch", "window", "band", "hills"]


@dataclass(frozen=True, slots=True)
class Scene:
    """What stays the same when skin tone and gender presentation change. Lengths are in pixels of the 96 px picture.

    `sample` draws the fields in their order, each as its metadata says.
    """

    lines: bool
    hair: Hair
    background: int = field(metadata={"draw": lambda rng: int(rng.integers(8))})
    pattern: Pattern = field(metadata={"draw": lambda rng: rng.choice(get_args(Pattern))})
    x: float = field(metadata={"draw": lambda rng: float(rng.uniform(-2.5, 2.5))})
    y: float = field(metadata={"draw": lambda rng: float(rng.uniform(-1.2, 1.2))})
    tilt: float = field(metadata={"draw": lambda rng: float(rng.uniform(-4, 4))})
    face_width: float = field(metadata={"draw": lambda rng: float(rng.uniform(0.94, 1.06))})
    face_length: float = field(metadata={"draw": lambda rng: float(rng.uniform(-0.6, 0.8))})
    warmth: float = field(metadata={"draw": lambda rng: float(rng.uniform(-1, 1))})
    cut: Cut = field(metadata={"draw": lambda rng: rng.choice(get_args(Cut))})
    whiskers: Whiskers = field(metadata={"draw": lambda rng: rng.choice(get_args(Whiskers), p=(0.6, 0.15, 0.25))})
    glasses: bool = field(metadata={"draw": lambda rng: bool(rng.random() < 0.3)})
    smile: float = field(metadata={"draw": lambda rng: float(rng.uniform(0.2, 1.0))})
    light_left: bool = field(metadata={"draw": lambda rng: bool(rng.random() < 0.5)})
    accent: int = field(metadata={"draw": lambda rng: int(rng.integers(5))})
    detail_x: float = field(metadata={"draw": lambda rng: float(rng.uniform(-0.8, 0.8))})
    detail_y: float = field(metadata={"draw": lambda rng: float(rng.uniform(-0.8, 0.8))})

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Scene:
        """Draw a scene. No part of it depends on subject, skin tone or gender."""
        lines = rng.random() < 0.25
        grey = lines and rng.random() < 0.7
        hair: Hair = "grey" if grey else rng.choice(get_args(Hair)[:4], p=(0.4, 0.3, 0.2, 0.1))
        return cls(lines, hair, **{part.name: part.metadata["draw"](rng) for part in fields(cls) if part.metadata})

    def face_box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the face in pixels: from the fringe to the chin, between the cheeks."""
        x, y, wide = 48 + self.x, 41 + self.y, 13.6 * self.face_width
        return x - wide, y - 13, x + wide, y + 18 + self.face_length

    def columns(self) -> dict[str, str]:
        """The parts a reader may want to filter by, as dataset columns."""
        parts = {name: str(getattr(self, name)) for name in ("pattern", "hair", "cut")}
        return {**parts, "glasses": str(self.glasses).lower()}


def scene_of(seed: int, label: str, number: int) -> Scene:
    """The scene of set `number` of a label: the same names give the same scene on every machine."""
    return Scene.sample(stream(seed, "portraits", label, number))
