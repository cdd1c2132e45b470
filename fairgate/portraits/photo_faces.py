"""Drawn face chips with labels as FairFace's: what `genswap` puts over the faces of drawn photographs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from PIL import Image

from fairgate.portraits.draw import draw, png
from fairgate.portraits.scene import Scene
from fairgate.portraits.world import GROUPS, LABELS
from fairgate.randomness import stream

LABELS_FILE = "faces.csv"
FOLDER = "faces"
COLUMNS = ("file", "age", "gender", "skin_tone")
TOO_YOUNG = 6
"""Every so many faces are labelled 10-19: an importer is to leave them out. They are drawn like the others."""


def draw_face(seed: int, number: int) -> tuple[Image.Image, dict[str, str]]:
    """Face `number`, from the fringe to the chin, and its labels; groups take turns."""
    skin_tone, gender = GROUPS[number % len(GROUPS)]
    rng = stream(seed, "portraits", "photo faces", number)
    scene = replace(Scene.sample(rng), tilt=0.0)
    label = LABELS[int(rng.integers(len(LABELS)))]
    x, y, wide = 48 + scene.x, 41 + scene.y, 13.6 * scene.face_width
    chip = draw(scene, label, skin_tone, gender).crop(
        (round(x - wide), round(y - 13), round(x + wide), round(y + 18 + scene.face_length))
    )
    grown = "60-69" if scene.lines else "20-29"
    turn = number // len(GROUPS)
    return chip, {
        "age": "10-19" if turn % TOO_YOUNG == TOO_YOUNG - 1 else grown,
        "gender": gender,
        "skin_tone": skin_tone,
    }


def write_faces(folder: Path, *, per_group: int, seed: int = 0) -> int:
    """Write `faces/` and `faces.csv` into a folder; how many faces."""
    (folder / FOLDER).mkdir(parents=True)
    with (folder / LABELS_FILE).open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(_written(folder, per_group * len(GROUPS), seed))
    return per_group * len(GROUPS)


def _written(folder: Path, faces: int, seed: int) -> Iterator[dict[str, str]]:
    for number in range(faces):
        chip, labels = draw_face(seed, number)
        name = f"{FOLDER}/{number + 1:04d}.png"
        (folder / name).write_bytes(png(chip))
        yield {"file": name, **labels}
