"""The drawn dataset: held-out counterfactual sets of every subject, as rows and as a dataset folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairgate.portraits.canvas import UNITS
from fairgate.portraits.draw import draw, png
from fairgate.portraits.pool import RELEASE_SEED
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import ATTRIBUTES, GROUPS, PERSON, SUBJECTS, caption

if TYPE_CHECKING:
    from fairgate.data import Manifest

NAME = "occupations"
NOTICE = (
    "Drawn portraits of fairgate's embedded world, a test instrument: no person is depicted, skin tone and gender "
    "presentation are as drawn, and figures measured here are no facts about real models or real people."
)
ABOUT = (
    "Portraits drawn by program, in exact counterfactual sets: the members of a set share subject, outfit, scene, "
    "pose and hair colour, and differ in skin tone and gender presentation. They serve to show and to test fairgate: "
    "tiny checkpoints with a planted association are measured on them."
)


PEOPLE = "people"
ABOUT_PEOPLE = (
    "Portraits drawn by program, of people in plain clothes that say nothing about their work, in exact counterfactual "
    "sets: the members of a set share clothes, scene, pose and hair colour, and differ in skin tone and gender "
    "presentation. A model that takes them for one profession rather than another does so by whom they show."
)


def rows(sets: int, seed: int = RELEASE_SEED, subjects: Sequence[str] = tuple(SUBJECTS)) -> Iterator[dict[str, object]]:
    """Every member of `sets` counterfactual sets per subject, set after set, as `write_dataset` reads them."""
    for subject in subjects:
        for number in range(sets):
            scene = scene_of(seed, subject, number)
            set_id = f"{subject}-{number:04d}"
            for skin_tone, gender in GROUPS:
                yield {
                    "image": png(draw(scene, subject, skin_tone, gender)),
                    "path": f"{set_id}/{skin_tone}-{gender}.png",
                    "set_id": set_id,
                    "member": f"{skin_tone}-{gender}",
                    "subject": subject,
                    "caption": caption(subject, skin_tone=skin_tone, gender=gender),
                    "skin_tone": skin_tone,
                    "gender": gender,
                    "seed": seed,
                    "set_number": number,
                    **scene.columns(),
                }


def write_occupations(folder: Path, *, sets: int) -> Manifest:
    """Draw the dataset `occupations` into a new folder. Raises DatasetError when the folder is taken."""
    return _write(folder, NAME, ABOUT, sets, SUBJECTS)


def write_people(folder: Path, *, sets: int) -> Manifest:
    """Draw the dataset `people`, in plain clothes, into a new folder. Raises DatasetError when the folder is taken."""
    return _write(folder, PEOPLE, ABOUT_PEOPLE, sets, [PERSON])


def _write(folder: Path, name: str, about: str, sets: int, subjects: Sequence[str]) -> Manifest:
    from fairgate.data import write_dataset

    return write_dataset(
        folder,
        rows(sets, subjects=subjects),
        name=name,
        version="v1",
        attributes=ATTRIBUTES,
        recipe={"name": "portraits", "sets_per_subject": sets, "seed": RELEASE_SEED, "pixels": UNITS},
        licence="Apache-2.0",
        counterfactual=True,
        notice=NOTICE,
        about=about,
    )
