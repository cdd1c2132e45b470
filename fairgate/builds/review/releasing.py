"""From a finished and reviewed build to a release: enough people, balanced, no picture twice, then frozen whole."""

from __future__ import annotations

import math
import shlex
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from fairgate import data
from fairgate.builds.review.card_sections import balance_section, review_section, unreviewed_section, yield_section
from fairgate.builds.review.mark_statistics import Figures, ZeroShot, figures_of
from fairgate.builds.review.marks import Record, holds_marks, read_records
from fairgate.builds.review.sample import DEFAULT, draw_sample
from fairgate.data import (
    CROSS,
    MANIFEST_FILE,
    ROOT,
    Dataset,
    Manifest,
    Problem,
    check_name,
    open_dataset,
    read_dataset,
    releases_folder,
)
from fairgate.ground.errors import DatasetError, SettingsError, did_you_mean, harmless
from fairgate.ground.local_paths import require_local

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
    given = require_local(build, "BUILD", DatasetError)
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
    dataset = find_build(str(root / named)).dataset if "/" in named else open_dataset(named, releases_folder(root))
    dataset.require_intact()
    return dataset


def review_command(build: str, *options: str, reviews: Path = REVIEWS) -> str:
    """The `fairgate review` that goes on with a build, as a shell takes it."""
    folder = [] if reviews == REVIEWS else ["--reviews", str(reviews)]
    return shlex.join(["fairgate", "review", build, *options, *folder])


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The smallest and largest count of one comparison; `ratio` is smallest / largest, 1 where all are equal."""

    among: str
    smallest: str
    few: int
    largest: str
    many: int

    @property
    def ratio(self) -> float:
        """Between 0 (something has no image) and 1."""
        return self.few / self.many if self.many else 1.0

    @property
    def tolerance(self) -> float:
        """The smallest tolerance that lets this pass, in whole hundredths."""
        return -(-100 * (self.many - self.few) // self.many) / 100 if self.many else 0.0

    def within(self, tolerance: float) -> bool:
        """Whether the smallest count falls short of the largest by that share at most, 0.3 being three tenths."""
        return self.many - self.few <= Decimal(str(tolerance)) * self.many


def most_unequal(manifest: Manifest) -> Imbalance:
    """The comparison with the smallest ratio: subjects, groups, groups of each subject, full intersections.

    What has no image counts as 0 within a subject or an intersection, unless the dataset is not counterfactual: there
    nobody promised it, and a subject can be one of a group alone ("an Asian man").
    """
    imbalances = []
    for among, counts in _compared(manifest):
        smallest, largest = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        imbalances.append(Imbalance(among, smallest, counts[smallest], largest, counts[largest]))
    return min(imbalances, key=lambda imbalance: imbalance.ratio)


def _compared(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, int]]]:
    counts = manifest.counts
    yield "subjects", counts.subjects
    for attribute, groups in counts.groups.items():
        yield f"groups of {attribute}", groups
    for subject, attributes in counts.subject_groups.items():
        for attribute, groups in attributes.items():
            promised = groups if manifest.counterfactual else {name: count for name, count in groups.items() if count}
            yield f"groups of {attribute} for subject '{subject}'", promised
    for crossed, cells in counts.intersections.items():
        possible = math.prod(len(manifest.attributes[name]) for name in crossed.split(CROSS))
        absent = {"an absent intersection": 0} if manifest.counterfactual and len(cells) < possible else {}
        yield f"intersections of {crossed}", {**cells, **absent}


class Doubles:
    """Finds pictures with equal pixels, as the callback of `Dataset.verify(watch)`. 16 bytes a picture."""

    def __init__(self) -> None:
        self._rows = array("q")
        self._names = array("Q")

    def watch(self, row: int, pixels: str) -> None:
        """Add a picture, by the first 64 bits of its pixels' SHA-256."""
        self._rows.append(row)
        self._names.append(int(pixels[:16], 16))

    def pairs(self) -> list[tuple[int, int]]:
        """(row, later row) of every picture that was there before, in stored order."""
        rows = np.asarray(self._rows)
        order = np.argsort(rows)
        rows, names = rows[order], np.asarray(self._names)[order]
        _, first, group = np.unique(names, return_index=True, return_inverse=True)
        heads = rows[first[group]]
        return sorted((int(head), int(row)) for head, row in zip(heads, rows, strict=True) if head != row)


def problems_with_doubles(dataset: Dataset) -> list[Problem]:
    """Everything that `Dataset.verify` finds, and the first pictures that are there twice."""
    doubles = Doubles()
    problems = dataset.verify(doubles.watch)
    if problems:
        return problems
    index, pairs = dataset.index, doubles.pairs()
    return [
        Problem(
            "doubled_image",
            f"set '{index.set_id[row]}', member '{index.member[row]}' shows the same picture as set "
            f"'{index.set_id[before]}', member '{index.member[before]}'.",
            f"{dataset.folder}, rows {before} and {row}",
            "build again without it (another seed, or a recipe step that drops doubles): "
            "a picture that is there twice counts twice in every figure",
        )
        for before, row in pairs
    ]


TOLERANCE: Final = 0.1
"""A smallest group may have a tenth fewer images than the largest one."""


@dataclass(frozen=True)
class Released:
    """The released dataset, and its review (`figures` None: unreviewed, with a reason)."""

    dataset: Dataset
    records: tuple[Record, ...]
    figures: Figures | None


def release(
    build: FinishedBuild,
    name: str | None = None,
    root: Path = ROOT,
    *,
    tolerance: float = TOLERANCE,
    least: int = DEFAULT,
    unreviewed: str | None = None,
    zero_shot: ZeroShot | None = None,
    reviews: Path = REVIEWS,
) -> Released:
    """Freeze a build as the next version of `root/name` (the dataset's own name, if left out).

    `least` images must have been marked (all, where the dataset has fewer), unless `unreviewed` gives a reason why none
    needs to be. `zero_shot` is a model whose groups the card compares with the people's.
    Raises DatasetError where the build was limited, is unbalanced, was not reviewed or changed since, holds a picture
    twice, has problems, or is released already; each says what to do.
    """
    name = name or build.dataset.name
    check_name(name)
    if (limit := build.dataset.manifest.recipe.get("limit")) is not None:
        raise DatasetError(
            f"the build was limited (--limit {limit}): it is a trial.",
            where=str(build.folder),
            remedy="build it without --limit, review that, and release it",
        )
    balance = _require_balance(build, tolerance)
    sections = [balance_section(balance.ratio, tolerance)]
    records: Sequence[Record] = ()
    figures = None
    if unreviewed is not None:
        if not unreviewed.strip():
            raise SettingsError("a release without review needs a reason.", where="--unreviewed", remedy="say why")
        _require_no_review(build, reviews)
        lineage = {"review": harmless(f"none: {' '.join(unreviewed.split())}")}
        sections.append(unreviewed_section(build.dataset, unreviewed))
    else:
        records, figures = reviewed(build, reviews, zero_shot)
        _require_review(build, records, figures, least, reviews)
        lineage = {f"review by {record.rater}": record.sha256 for record in records}
        sections.append(review_section(build.dataset, records, figures))
    if (yields := yield_section(build.folder, build.dataset.manifest)) is not None:
        sections.append(yields[0])
        lineage["yield"] = yields[1]
    frozen = data.release(
        build.dataset.folder, name, root, lineage=lineage, sections=sections, problems_of=problems_with_doubles
    )
    return Released(frozen, tuple(records), figures)


def reviewed(
    build: FinishedBuild, reviews: Path = REVIEWS, zero_shot: ZeroShot | None = None
) -> tuple[list[Record], Figures]:
    """Every record of exactly this content, and their figures over the largest sample that a rater was shown."""
    dataset = build.dataset
    records = read_records(build.records(reviews), dataset.manifest)
    shown = max((line.images for record in records for line in record.opened), default=1)
    label = partial(zero_shot.labels, dataset) if zero_shot is not None else None
    return records, figures_of(dataset, records, draw_sample(dataset, shown), label)


def _require_balance(build: FinishedBuild, tolerance: float) -> Imbalance:
    if not 0 <= tolerance <= 1:
        raise SettingsError(f"{tolerance} is no tolerance.", where="--tolerance", remedy="give a share between 0 and 1")
    worst = most_unequal(build.dataset.manifest)
    if not worst.within(tolerance):
        raise DatasetError(
            f"the dataset is unbalanced: among {worst.among}, '{worst.smallest}' has {worst.few:,} images and "
            f"'{worst.largest}' {worst.many:,}.",
            where=str(build.dataset.folder),
            remedy=f"build more of '{worst.smallest}', or keep fewer of the others; to release it as it is, say so "
            f"with --tolerance {worst.tolerance:.2f} (the card says so)",
        )
    return worst


def _require_no_review(build: FinishedBuild, reviews: Path) -> None:
    """What people said of this content cannot be left out of its card."""
    records, figures = reviewed(build, reviews)
    if not records:
        return
    raise DatasetError(
        f"the build was reviewed by {', '.join(record.rater for record in records)} ({figures.images:,} images).",
        where=str(build.records(reviews)),
        remedy="leave --unreviewed out"
        + (f", and say --least {figures.images} if that is enough" if figures.images < DEFAULT else "")
        + f"; or go on with `{review_command(str(build.folder), '--rater', records[0].rater, reviews=reviews)}`",
    )


def _require_review(
    build: FinishedBuild, records: Sequence[Record], figures: Figures, least: int, reviews: Path
) -> None:
    wanted = min(least, len(build.dataset))
    command = partial(review_command, str(build.folder), reviews=reviews)
    if records and figures.images >= wanted:
        return
    earlier = build.records(reviews).parent
    others = sorted({path.parent.name for path in earlier.glob("*/*.jsonl") if holds_marks(path)})
    if records:
        more = ["--sample", str(wanted)] if wanted > DEFAULT else []
        raise DatasetError(
            f"people marked {figures.images:,} images of the build, and a release needs {wanted:,}.",
            where=str(build.records(reviews)),
            remedy=f"go on with `{command('--rater', records[0].rater, *more)}`",
        )
    if others:
        raise DatasetError(
            f"the build changed since it was reviewed: it is {build.dataset.manifest.fingerprint[:12]}, and people "
            f"looked at {', '.join(others)}.",
            where=str(earlier),
            remedy=f"review what is there now: `{command()}`",
        )
    raise DatasetError(
        "nobody reviewed the build.",
        where=str(build.records(reviews)),
        remedy=f'look at it: `{command()}`; or release it unreviewed, with a reason: --unreviewed "..."',
    )
