"""A contact sheet of a dataset: a few sets of every subject, for a person to look at before it is released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fairgate.data.dataset import Dataset
from fairgate.pixels import UnreadableImage, decode

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
    import PIL.Image
    import PIL.ImageDraw

    shown = shown_sets(dataset, per_subject)
    images = dataset.images_of([set_id for _, set_id in shown])
    columns = min(MOST_COLUMNS, max((len(members) for members in images.values()), default=0))
    pitch = CELL + _MARGIN
    size = (_LABEL + columns * pitch + _MARGIN, len(shown) * pitch + _MARGIN)
    sheet = PIL.Image.new("RGB", size, "white")
    pen = PIL.ImageDraw.Draw(sheet)
    for row, (subject, set_id) in enumerate(shown):
        top = _MARGIN + row * pitch
        label = "\n".join(text[:28].encode("ascii", "replace").decode() for text in (subject, set_id))
        pen.text((_MARGIN, top), label, fill="black")
        for column, (_, data) in enumerate(images[set_id][:columns]):
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
