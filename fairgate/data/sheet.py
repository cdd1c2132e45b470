"""A contact sheet of a dataset: a few sets of every subject, for a person to look at before it is released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fairgate.data.dataset import Dataset
from fairgate.ground.pixels import UnreadableImage, decode

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 32
CELL: Final = 128
"""Pixels of a picture's longer side."""
_MARGIN, _LABEL = 6, 190


def shown_sets(dataset: Dataset, per_subject: int) -> list[tuple[str, str]]:
    """(subject, set_id) of the sets that a sheet shows: of every subject, evenly spread over its sets as stored."""
    sets: dict[str, dict[str, None]] = {}
    for subject, set_id in zip(dataset.index.subject, dataset.index.set_id, strict=True):
        sets.setdefault(str(subject), {})[str(set_id)] = None
    shown = []
    for subject, known in sets.items():
        ids = list(known)
        places = np.unique(np.linspace(0, len(ids) - 1, min(per_subject, len(ids))).astype(int))
        shown += [(subject, ids[place]) for place in places]
    return shown[:MOST_ROWS]


def contact_sheet(dataset: Dataset, per_subject: int = 3) -> Image:
    """A row per set, its members in stored order; at most 200 rows and 32 members. DatasetError for labels only.

    A picture that cannot be decoded is a red cell: a sheet is looked at to find such things.
    """
    shown = shown_sets(dataset, per_subject)
    images = dataset.images_of([set_id for _, set_id in shown])
    return picture_rows([(f"{subject}\n{set_id}", [data for _, data in images[set_id]]) for subject, set_id in shown])


def picture_rows(rows: Sequence[tuple[str, Sequence[bytes]]]) -> Image:
    """A sheet with a row of encoded pictures under each label, of up to three lines; at most 200 rows of 32 pictures.

    A picture that cannot be decoded is a red cell.
    """
    import PIL.Image
    import PIL.ImageDraw

    shown = rows[:MOST_ROWS]
    columns = min(MOST_COLUMNS, max((len(pictures) for _, pictures in shown), default=0))
    pitch = CELL + _MARGIN
    size = (_LABEL + columns * pitch + _MARGIN, len(shown) * pitch + _MARGIN)
    sheet = PIL.Image.new("RGB", size, "white")
    pen = PIL.ImageDraw.Draw(sheet)
    for row, (label, pictures) in enumerate(shown):
        top = _MARGIN + row * pitch
        plain = label.replace(" × ", ", ").encode("ascii", "replace").decode()
        lines = [line[:28] for line in plain.split("\n")[:3]]
        pen.text((_MARGIN, top), "\n".join(lines), fill="black")
        for column, data in enumerate(pictures[:columns]):
            sheet.paste(_cell(data), (_LABEL + column * pitch, top))
    return sheet


def _cell(data: bytes) -> Image:
    import PIL.Image

    try:
        picture = decode(data)
    except UnreadableImage:
        return PIL.Image.new("RGB", (CELL, CELL), "red")
    picture = picture.convert("RGB")
    if (times := CELL // max(picture.size)) > 1:  # tiny models paint tiny pictures: shown in blocks, as they are
        return picture.resize((picture.width * times, picture.height * times), PIL.Image.Resampling.NEAREST)
    picture.thumbnail((CELL, CELL))
    return picture
