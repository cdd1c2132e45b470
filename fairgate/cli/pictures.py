"""Pictures that commands write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fairgate.errors import SettingsError

if TYPE_CHECKING:
    from PIL.Image import Image


def write_png(out: Path, draw: Callable[[], Image]) -> Image:
    """Draw a picture and write it. Raises SettingsError for a name that is no PNG file's, before it is drawn, and where
    it cannot be written."""
    if out.suffix.lower() != ".png":
        raise SettingsError(
            "the picture cannot be written: it is a PNG.", where=f"--out {out}", remedy="name a file that ends in .png"
        )
    picture = draw()
    try:
        picture.save(out, "PNG")
    except OSError as error:
        raise SettingsError(
            f"the picture cannot be written ({error.strerror or error}).",
            where=f"--out {out}",
            remedy="name a file in a folder that is there and can be written",
        ) from error
    return picture
