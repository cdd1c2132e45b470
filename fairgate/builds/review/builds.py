"""Paths of a finished build and of its review records."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairgate.data import MANIFEST_FILE, Dataset, open_dataset, read_dataset
from fairgate.ground.errors import DatasetError, did_you_mean

BUILDS: Final = Path("build")
REVIEWS: Final = Path("reviews")
"""Outside of `build/`, which DVC empties: marks are people's work, and are committed."""
_SHORT: Final = 12


@dataclass(frozen=True)
class FinishedBuild:
    """A built dataset: `dataset`, and the `folder` that holds its yields (or the dataset itself where it has none)."""

    folder: Path
    dataset: Dataset

    def records(self, root: Path = REVIEWS) -> Path:
        """The folder of the records that were made of exactly this content."""
        return root / self.dataset.name / self.dataset.manifest.fingerprint[:_SHORT]


def find_build(build: str, root: Path = BUILDS) -> FinishedBuild:
    """The build of a name (`build/NAME/dataset`), or in a folder. Raises DatasetError where there is none."""
    given = Path(build)
    for folder in (given, root / build):
        for inside in (folder / "dataset", folder):
            if (inside / MANIFEST_FILE).is_file():
                return FinishedBuild(folder, read_dataset(inside))
    name = given.name if given.parent.name == root.name else build  # `build/NAME` is a folder of a build's name
    known = sorted(path.parent.parent.name for path in root.glob(f"*/dataset/{MANIFEST_FILE}"))
    make = [] if "/" in name else [f"make it with `fairgate build {name}`,"]
    raise DatasetError(
        f"there is no finished build '{build}'.",
        where=f"{root / name / 'dataset'} or {given}" if "/" not in name else str(given),
        remedy=" ".join(filter(None, [did_you_mean(name, known), *make]))
        + (" or " if make else "")
        + "name a folder that holds a manifest.json",
    )


def release_or_build(named: str, root: Path) -> Dataset:
    """A release of the repository by its name, or what a folder (with a slash in its name) holds. Raises DatasetError,
    also if the content is not that of the manifest."""
    dataset = find_build(str(root / named)).dataset if "/" in named else open_dataset(named, root / "datasets")
    dataset.require_intact()
    return dataset


def review_command(build: str, *options: str, reviews: Path = REVIEWS) -> str:
    """The `fairgate review` that goes on with a build, as a shell takes it."""
    folder = [] if reviews == REVIEWS else ["--reviews", str(reviews)]
    return shlex.join(["fairgate", "review", build, *options, *folder])
