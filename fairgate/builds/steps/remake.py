"""Making one image again, alone, from the columns of its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL.Image import Image

from fairgate.builds.steps.person_photographs import BOX, pasted
from fairgate.builds.steps.pictures import HOW, SEED, mask, sampling
from fairgate.ground.errors import RecipeError
from fairgate.models.generation import Editor, Inpainter, Painter


def repaint(row: Mapping[str, Any], painter: Painter, *, prefix: str = "") -> Image:
    """The picture that `Paint` made, of caption, seed and sampling; `prefix` "base_" for the base of a variant."""
    caption, seed, how = (_column(row, f"{prefix}{column}") for column in ("caption", SEED, HOW))
    return painter.paint([caption], [int(seed)], sampling(how))[0]


def revary(row: Mapping[str, Any], painter: Painter, inpainter: Inpainter) -> Image:
    """The member that `Vary` made: its base painted again, and the masked person repainted.

    Equal to the stored image on the machine that made it; elsewhere, or made in a batch of another size, to about one
    level of grey: sums are rounded in another order.
    """
    base = repaint(row, painter, prefix="base_")
    where, how = mask(_column(row, "mask")), sampling(_column(row, HOW))
    return inpainter.inpaint([base], [where], [_column(row, "caption")], [int(_column(row, SEED))], how)[0]


def reedit(row: Mapping[str, Any], photograph: Image, editor: Editor) -> Image:
    """The member that `EditUntilAccepted` took: its photograph's person edited again, and pasted back."""
    left, top, right, bottom = (int(_column(row, column)) for column in BOX)
    how = sampling(_column(row, HOW))
    crop = photograph.convert("RGB").crop((left, top, right, bottom))
    [edit] = editor.edit(crop, [_column(row, "instruction")], [int(_column(row, SEED))], [how])
    return pasted(photograph.convert("RGB"), edit, (left, top, right, bottom))


def _column(row: Mapping[str, Any], name: str) -> Any:
    if row.get(name) is None:
        raise RecipeError(
            f"the row has no '{name}', so its image cannot be made again.",
            where=f"set '{row.get('set_id')}', member '{row.get('member')}'",
            remedy="take a row of a dataset that fairgate built, with all of its columns",
        )
    return row[name]
