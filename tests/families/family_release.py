"""The repository in which the cells of docs/reference/families.md are run: eight drawn pictures, and tables on them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from family_probes import SUBJECTS
from model_world import encoded, picture

from fairgate.data import write_dataset

GENDERS = ("male", "female")
SETS = 2  # of each subject
BOX = {"box_left": 4, "box_top": 4, "box_right": 60, "box_bottom": 50}


def write_release(root: Path) -> None:
    """Two subjects, two counterfactual sets of each, two members of a set."""
    write_dataset(
        root / "datasets" / "faces" / "v1",
        list(_rows()),
        name="faces",
        version="v1",
        attributes={"gender": list(GENDERS)},
        recipe={"name": "drawn"},
        licence="CC0-1.0",
        counterfactual=True,
    )
    (root / "fairness_suites").mkdir()


def members() -> list[tuple[str, str, str]]:
    """Set, member and subject of every picture, in stored order."""
    return [
        (f"{subject}-{number}", gender, subject) for subject in SUBJECTS for number in range(SETS) for gender in GENDERS
    ]


def _rows() -> Iterable[dict[str, Any]]:
    for seed, (set_id, gender, subject) in enumerate(members()):
        named = {"set_id": set_id, "member": gender, "subject": subject, "gender": gender}
        image = encoded(picture(seed, (64, 56)))
        yield {"image": image, "path": f"{set_id}-{gender}.png", "caption": f"a photo of a {subject}", **named, **BOX}


def write_table(path: Path, columns: Sequence[str], cells: Callable[[int, str], Sequence[object]]) -> None:
    """A CSV with a row per picture: its names, and what `cells(row, subject)` gives."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["set_id", "member", *columns])
        for row, (set_id, member, subject) in enumerate(members()):
            writer.writerow([set_id, member, *cells(row, subject)])


def numbers(row: int, width: int) -> list[float]:
    """Of a row, from -1 to 1."""
    return np.random.default_rng(row).uniform(-1, 1, width).round(6).tolist()
