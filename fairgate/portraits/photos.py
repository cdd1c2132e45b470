"""Folders of drawn pictures, as others publish theirs. As COCO, of people in rooms: larger pictures with person boxes
and five captions each. And as FairFace: portraits and a CSV file of labels, a few lines of it no good, or face chips
with such labels, which `genswap` puts over the faces of drawn photographs.

What a recipe has to filter is in it: rooms with two people or none, regions of several people, captions that name no
gender, or both. There is a plant next to most women and a shelf next to most men: the background correlates with
gender, as in COCO.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageDraw

from fairgate.data import refuse_existing
from fairgate.ground.randomness import stream
from fairgate.portraits.canvas import ACCENTS, BACKGROUNDS, GREEN, INK, WHITE, Colour, mix
from fairgate.portraits.draw import draw, png
from fairgate.portraits.scene import Scene, scene_of
from fairgate.portraits.world import GROUPS, LABELS, SUBJECTS, with_article

PERSON = 32
"""Side of a person's box in pixels: the size at which the embedded editor works."""
ROOM = (48, 34)
WIDE_ROOM = (72, 34)
"""Hardly higher than a person, who is in the middle: the embedded CLIP knows people at one scale and place alone,
and looks at the middle square of a picture."""
THING = 9
"""Width of a plant or a shelf in pixels: it reaches behind the person, so that the middle square shows its edge."""
TELLING = 0.8
"""Share of men next to a shelf and of women next to a plant; the others have it the other way round."""

Kind = Literal["one", "two", "crowd", "empty", "unnamed", "mixed"]
KINDS: dict[Kind, float] = {"one": 0.72, "two": 0.08, "crowd": 0.03, "empty": 0.03, "unnamed": 0.07, "mixed": 0.07}
"""Shares of what is drawn: one person whose gender the captions name, and what a recipe should leave out."""

_FINE = 4
"""Rooms are drawn this much larger and then made smaller, for smooth edges."""

_WORDS = {
    "male": {"man": "man", "sex": "male", "they": "he", "their": "his", "them": "him", "sir": "gentleman"},
    "female": {"man": "woman", "sex": "female", "they": "she", "their": "her", "them": "her", "sir": "lady"},
}
_TELLING = (
    "A {man} who works as {a_subject}.",
    "{The_subject} is busy with {their} work.",
    "A {sex} {subject} next to a {thing}.",
    "{A_subject} looks at us, and {they} seems to be at work.",
    "Portrait of a {sir}, {a_subject}, with a {thing} behind {them}.",
)
_SILENT = (
    "A photo of {a_subject}",
    "{A_subject} beside a {thing}.",
    "{The_subject} of the house, in a room with a {thing}.",
    "Someone who works as {a_subject}",
)
_NO_ONE = ("A room with a {thing}, made ready for {a_subject}.", "An empty room of {a_subject}", "A {thing} in a room")


@dataclass(frozen=True, slots=True)
class DrawnPhoto:
    """One drawn photograph, its annotations, and the truth about whoever is in it."""

    image: Image.Image
    captions: tuple[str, ...]
    boxes: tuple[tuple[float, float, float, float], ...]
    """(left, top, width, height) as COCO writes them: within a pixel of the drawn person."""
    kind: Kind
    subject: str
    skin_tone: str
    gender: str


def draw_photo(seed: int, subject: str, number: int) -> DrawnPhoto:
    """Photograph `number` of a subject: the same names give the same picture on every machine."""
    rng = stream(seed, "portraits", "photos", subject, number)
    kind: Kind = rng.choice(list(KINDS), p=list(KINDS.values()))
    skin_tone, gender = GROUPS[int(rng.integers(len(GROUPS)))]
    thing = "plant" if (rng.random() < TELLING) == (gender == "female") else "shelf"
    scene = replace(Scene.sample(rng), pattern="plain")
    size = WIDE_ROOM if kind in ("two", "crowd") else ROOM
    places = _places(rng, kind, size)
    image, boxes = _room(rng, scene, thing, size, several=len(places) > 1), []
    for count, (left, top) in enumerate(places):
        tone, presented = (skin_tone, gender) if count == 0 else GROUPS[int(rng.integers(len(GROUPS)))]
        person = scene if count == 0 else replace(Scene.sample(rng), pattern="plain", background=scene.background)
        image.paste(draw(person, subject, tone, presented).reduce(3), (left, top))
        inset = rng.uniform(0.05, 0.45, size=4)
        boxes.append((left + inset[0], top + inset[1], PERSON - inset[0] - inset[2], PERSON - inset[1] - inset[3]))
    captions = _captions(rng, kind, subject, gender, thing)
    plain = tuple(tuple(round(float(value), 2) for value in box) for box in boxes)
    return DrawnPhoto(image, captions, plain, kind, subject, skin_tone, gender)  # type: ignore[arg-type]


def _places(rng: np.random.Generator, kind: Kind, size: tuple[int, int]) -> list[tuple[int, int]]:
    """Left and top of each person: one in the middle, two with room between and around them."""
    width, height = size
    top = (height - PERSON) // 2
    if kind == "empty":
        return []
    if kind in ("two", "crowd"):
        first = int(rng.integers(0, width - 2 * PERSON + 1))
        return [(first, top), (int(rng.integers(first + PERSON, width - PERSON + 1)), top)]
    return [((width - PERSON) // 2, top)]


def _room(rng: np.random.Generator, scene: Scene, thing: str, size: tuple[int, int], *, several: bool) -> Image.Image:
    """A wall with a small picture on it, a floor, and a plant or a shelf on both sides unless several people are in."""
    wall, second = BACKGROUNDS[scene.background]
    width, height = size[0] * _FINE, size[1] * _FINE
    image = Image.new("RGB", (width, height), wall)
    pen = ImageDraw.Draw(image)
    x = int(rng.integers(width // 4, width * 3 // 4 - 24))
    pen.rectangle((x, 2, x + 24, 16), fill=WHITE, outline=INK)
    pen.rectangle((x + 6, 6, x + 18, 12), fill=ACCENTS[int(rng.integers(len(ACCENTS)))])
    pen.rectangle((0, height - _FINE, width, height), fill=mix(second, INK, 0.3))
    for left in () if several else (0, size[0] - THING):
        draw_thing = _plant if thing == "plant" else _shelf
        draw_thing(pen, left * _FINE, height, mix(second, INK, 0.45))
    return image.reduce(_FINE).point(lambda value: min(255, (value + 2) // 4 * 4))  # as `draw` rounds colours


def _plant(pen: ImageDraw.ImageDraw, left: int, height: int, pot: Colour) -> None:
    wide, top, leaf = THING * _FINE, height // 4, mix(GREEN, INK, 0.15)
    for across, down in ((0.0, 0.15), (0.5, 0.1), (0.25, 0.0), (0.1, 0.35), (0.45, 0.4)):
        x, y = left + across * wide, top + down * height * 0.6
        pen.ellipse((x, y, x + wide * 0.5, y + height * 0.3), fill=leaf)
    edge = height * 0.76
    pen.polygon([(left, edge), (left + wide, edge), (left + wide * 0.8, height), (left + wide * 0.2, height)], fill=pot)


def _shelf(pen: ImageDraw.ImageDraw, left: int, height: int, wood: Colour) -> None:
    wide, step = THING * _FINE, height // 5
    pen.rectangle((left, step, left + wide - 1, height), fill=mix(wood, WHITE, 0.3))
    books = 4
    for row, top in enumerate(range(step, height, step)):
        for book in range(books):
            colour = ACCENTS[(row * 2 + book) % len(ACCENTS)]
            x = left + 1 + book * wide // books
            pen.rectangle((x, top + 4 + 3 * (book % 2), x + wide // books - 2, top + step - 3), fill=colour)
        pen.rectangle((left, top + step - 3, left + wide - 1, top + step - 1), fill=wood)


def _captions(rng: np.random.Generator, kind: Kind, subject: str, gender: str, thing: str) -> tuple[str, ...]:
    """Five captions. Some name the gender (none where `unnamed`), one of `mixed` names the other one."""
    other = "female" if gender == "male" else "male"
    if kind == "empty":
        return tuple(_said(rng, _NO_ONE, subject, gender, thing) for _ in range(5))
    telling = 0 if kind == "unnamed" else int(rng.integers(2, 5))
    said = [_said(rng, _TELLING, subject, gender, thing) for _ in range(telling)]
    said += [_said(rng, _SILENT, subject, gender, thing) for _ in range(5 - telling)]
    if kind == "mixed":
        said[0] = _said(rng, _TELLING, subject, other, thing)
    return tuple(said[place] for place in rng.permutation(5))


def _said(rng: np.random.Generator, frames: tuple[str, ...], subject: str, gender: str, thing: str) -> str:
    article = with_article(subject)
    return frames[int(rng.integers(len(frames)))].format(
        **_WORDS[gender],
        subject=subject,
        thing=thing,
        a_subject=article,
        A_subject=article.capitalize(),
        The_subject=f"The {subject}",
    )


def write_photos(folder: Path, *, photos: int, faces: int = 12) -> int:
    """Write images, captions.json, instances.json, faces with labels, and drawn.json (the truth) into a new folder.

    `photos` is a number per subject, `faces` per group. The number of photographs. Raises DatasetError when the folder
    is taken.
    """
    refuse_existing(folder)
    (folder / "images").mkdir(parents=True)
    images: list[dict[str, Any]] = []
    captions: list[dict[str, Any]] = []
    instances: list[dict[str, Any]] = []
    truth: list[dict[str, Any]] = []
    every = (draw_photo(0, subject, number) for subject in SUBJECTS for number in range(photos))
    for number, photo in enumerate(every, start=1):
        name = f"{number:012d}.png"
        (folder / "images" / name).write_bytes(png(photo.image))
        width, height = photo.image.size
        images.append({"id": number, "file_name": name, "width": width, "height": height})
        captions += [
            {"id": number * 10 + place, "image_id": number, "caption": text}
            for place, text in enumerate(photo.captions)
        ]
        instances += [
            {
                "id": number * 10 + place,
                "image_id": number,
                "category_id": 1,
                "bbox": list(box),
                "area": round(box[2] * box[3], 2),
                "iscrowd": int(photo.kind == "crowd"),
            }
            for place, box in enumerate(photo.boxes)
        ]
        truth.append(
            {"id": number, **{name: getattr(photo, name) for name in ("kind", "subject", "skin_tone", "gender")}}
        )
    categories = [{"id": 1, "name": "person", "supercategory": "person"}]
    tables = {
        "captions": {"images": images, "annotations": captions},
        "instances": {"images": images, "annotations": instances, "categories": categories},
        "drawn": {"photos": truth},
    }
    for name, table in tables.items():
        (folder / f"{name}.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    write_chips(folder, per_group=faces)
    return len(images)


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
