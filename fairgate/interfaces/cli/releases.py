"""How commands open a release that is named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairgate.data import Dataset


def release_of(named: str, root: Path) -> Dataset:
    """A release by its name, or what a folder (with a slash in its name) holds. Raises DatasetError, also where the
    content is not what the manifest says."""
    from fairgate.builds.review import find_build
    from fairgate.data import open_dataset

    found = find_build(str(root / named)).dataset if "/" in named else open_dataset(named, root / "datasets")
    found.require_intact()
    return found
