"""A folder of drawn portraits as FairFace comes: pictures and a CSV file of labels, a few lines of it no good."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from fairgate.errors import DatasetError
from fairgate.portraits.draw import draw, png
from fairgate.portraits.scene import scene_of
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
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DatasetError(
            f"'{folder}' is taken.", where=str(folder), remedy="name a new folder, or remove this one if nobody uses it"
        )
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
