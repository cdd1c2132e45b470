"""Where commands write: a place that cannot be written is told, not traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fairgate.errors import SettingsError

if TYPE_CHECKING:
    from PIL.Image import Image


@contextmanager
def writing(what: str, out: Path) -> Iterator[None]:
    """Raises SettingsError where the block cannot write `what` to `--out`."""
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"{what} cannot be written ({error.strerror or error}).",
            where=f"--out {out}",
            remedy="name a place in a folder that can be written, and has room",
        ) from error


def write_png(out: Path, draw: Callable[[], Image]) -> Image:
    """Draw a picture and write it. Raises SettingsError for a name that is no PNG file's, before it is drawn, and where
    it cannot be written."""
    if out.suffix.lower() != ".png":
        raise SettingsError(
            "the picture cannot be written: it is a PNG.", where=f"--out {out}", remedy="name a file that ends in .png"
        )
    picture = draw()
    with writing("the picture", out):
        picture.save(out, "PNG")
    return picture
