"""A folder of drawn portraits as FairFace comes: pictures and a CSV file of labels, a few lines of it no good; and face
chips with such labels, which `genswap` puts over the faces of drawn photographs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from PIL import Image

from fairgate.data import refuse_existing
from fairgate.portraits.draw import draw, png
from fairgate.portraits.scene import Scene, scene_of
from fairgate.portraits.world import GROUPS, LABELS
from fairgate.randomness import stream

SEED = 20_000
"""Scenes that no training pool and no release draws from."""
LABELS_FILE = "faces.csv"
COLUMNS = ("file", "skin_tone", "gender", "clothes")
SPOILT = ("absent", "cut short", "no label", "too small", "drawn twice")
"""What is wrong with the last lines, in turn: an importer is to notice each."""


def write_faces(folder: Path, *, per_group: int = 40, spoilt: int = 5) -> int:
    """Draw `per_group` portraits of every group and `spoilt` lines that are no good; the number of good ones.

    Clothes are drawn evenly from all labels, whatever the group. Raises DatasetError where the folder holds something.
    """
    refuse_existing(folder)
    (folder / "faces").mkdir(parents=True)
    lines = list(_good(folder, per_group))
    bad = list(_bad(folder, lines, spoilt))
    with (folder / LABELS_FILE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([*lines, *bad])
    return len(lines)


def _good(folder: Path, per_group: int) -> Iterator[tuple[str, str, str, str]]:
    for number in range(per_group * len(GROUPS)):
        skin_tone, gender = GROUPS[number % len(GROUPS)]
        clothes = str(stream(SEED, "clothes", number).choice(LABELS))
        name = f"faces/{number + 1}.png"
        (folder / name).write_bytes(png(draw(scene_of(SEED, "face", number), clothes, skin_tone, gender)))
        yield name, skin_tone, gender, clothes


def _bad(folder: Path, good: list[tuple[str, str, str, str]], spoilt: int) -> Iterator[tuple[str, str, str, str]]:
    for number in range(spoilt):
        like, skin_tone, gender, clothes = good[number * 7 % len(good)]
        kind = SPOILT[number % len(SPOILT)]
        name = f"faces/{len(good) + number + 1}.png"
        picture = (folder / like).read_bytes()
        if kind == "cut short":
            picture = picture[: len(picture) // 2]
        elif kind == "too small":
            scene = scene_of(SEED, "face", len(good) + number)
            picture = png(draw(scene, clothes, skin_tone, gender).resize((24, 24)))
        if kind != "absent":
            (folder / name).write_bytes(picture)
        yield name, "unknown" if kind == "no label" else skin_tone, gender, clothes


CHIPS = "faces"
CHIP_COLUMNS = ("file", "age", "gender", "skin_tone")
TOO_YOUNG = 6
"""Every so many faces are labelled 10-19: an importer is to leave them out. They are drawn like the others."""


def draw_chip(number: int) -> tuple[Image.Image, dict[str, str]]:
    """Face `number`, from the fringe to the chin, and its labels; groups take turns."""
    skin_tone, gender = GROUPS[number % len(GROUPS)]
    rng = stream(0, "portraits", "photo faces", number)
    scene = replace(Scene.sample(rng), tilt=0.0)
    label = LABELS[int(rng.integers(len(LABELS)))]
    left, top, right, bottom = map(round, scene.face_box())
    chip = draw(scene, label, skin_tone, gender).crop((left, top, right, bottom))
    grown = "60-69" if scene.lines else "20-29"
    turn = number // len(GROUPS)
    return chip, {
        "age": "10-19" if turn % TOO_YOUNG == TOO_YOUNG - 1 else grown,
        "gender": gender,
        "skin_tone": skin_tone,
    }


def write_chips(folder: Path, *, per_group: int) -> None:
    """Write `faces/` and `faces.csv` into a folder."""
    (folder / CHIPS).mkdir(parents=True)
    with (folder / LABELS_FILE).open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, CHIP_COLUMNS, lineterminator="\n")
        table.writeheader()
        for number in range(per_group * len(GROUPS)):
            chip, labels = draw_chip(number)
            name = f"{CHIPS}/{number + 1:04d}.png"
            (folder / name).write_bytes(png(chip))
            table.writerow({"file": name, **labels})
