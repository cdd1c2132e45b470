"""A folder of drawn portraits as FairFace comes: pictures and a CSV file of labels, a few lines of it no good; and face
chips with such labels, which `genswap` puts over the faces of drawn photographs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fairgate.data import refuse_existing
from fairgate.ground.randomness import stream
from fairgate.portraits.draw import draw, png
from fairgate.portraits.scene import Scene, scene_of
from fairgate.portraits.world import GROUPS, LABELS

SEED = 20_000
"""Scenes that no training pool and no release draws from."""
LABELS_FILE = "faces.csv"
SPOILT = ("absent", "cut short", "no label", "too small", "drawn twice")
"""What is wrong with the last lines, in turn: an importer is to notice each."""


def write_faces(folder: Path, *, per_group: int = 40, spoilt: int = 5) -> int:
    """Draw `per_group` portraits of every group and `spoilt` lines that are no good; the number of good ones.

    Clothes are drawn evenly from all labels, whatever the group. Raises DatasetError where the folder holds something.
    """
    refuse_existing(folder)
    good = per_group * len(GROUPS)
    lines = []
    for number in range(good + spoilt):
        wrong = None if number < good else SPOILT[(number - good) % len(SPOILT)]
        like = number if wrong is None else (number - good) * 7 % good
        skin_tone, gender = GROUPS[like % len(GROUPS)]
        clothes = str(stream(SEED, "clothes", like).choice(LABELS))
        portrait = draw(scene_of(SEED, "face", number if wrong == "too small" else like), clothes, skin_tone, gender)
        picture = png(portrait.resize((24, 24)) if wrong == "too small" else portrait)
        if wrong == "cut short":
            picture = picture[: len(picture) // 2]
        labels = ("unknown" if wrong == "no label" else skin_tone, gender, clothes)
        lines.append((f"faces/{number + 1}.png", None if wrong == "absent" else picture, *labels))
    _write(folder, ("skin_tone", "gender", "clothes"), lines)
    return good


TOO_YOUNG = 6
"""Every so many faces are labelled 10-19: an importer is to leave them out. They are drawn like the others."""


def write_chips(folder: Path, *, per_group: int) -> None:
    """Write faces, from the fringe to the chin, and their labels into a folder; groups take turns."""
    lines = []
    for number in range(per_group * len(GROUPS)):
        skin_tone, gender = GROUPS[number % len(GROUPS)]
        rng = stream(0, "portraits", "photo faces", number)
        scene = replace(Scene.sample(rng), tilt=0.0)
        label = LABELS[int(rng.integers(len(LABELS)))]
        left, top, right, bottom = map(round, scene.face_box())
        chip = draw(scene, label, skin_tone, gender).crop((left, top, right, bottom))
        young = number // len(GROUPS) % TOO_YOUNG == TOO_YOUNG - 1
        age = "10-19" if young else "60-69" if scene.lines else "20-29"
        lines.append((f"faces/{number + 1:04d}.png", png(chip), age, gender, skin_tone))
    _write(folder, ("age", "gender", "skin_tone"), lines)


def _write(folder: Path, labels: Sequence[str], lines: Sequence[tuple[str, bytes | None, *tuple[str, ...]]]) -> None:
    """Pictures (None: left out) and the table of their labels."""
    (folder / "faces").mkdir(parents=True)
    with (folder / LABELS_FILE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("file", *labels))
        for name, picture, *values in lines:
            if picture is not None:
                (folder / name).write_bytes(picture)
            writer.writerow((name, *values))
