"""The last word on a build: it is frozen when it is whole, balanced, without doubles, and people looked at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from fairgate import data
from fairgate.data import Dataset
from fairgate.data.manifest import check_name
from fairgate.data.releases import ROOT
from fairgate.errors import DatasetError, SettingsError, harmless
from fairgate.review.balance import Imbalance, most_unequal
from fairgate.review.builds import REVIEWS, Build, review_command
from fairgate.review.doubles import problems_with_doubles
from fairgate.review.figures import Figures, figures_of
from fairgate.review.records import Record, holds_marks, read_records
from fairgate.review.sample import DEFAULT, draw_sample
from fairgate.review.section import balance_section, review_section, unreviewed_section
from fairgate.review.yields import yield_section
from fairgate.review.zero_shot import ZeroShot

TOLERANCE: Final = 0.1
"""A smallest group may have a tenth fewer images than the largest one."""


@dataclass(frozen=True)
class Wishes:
    """What a release asks for. `least` images must have been marked (all, where the dataset has fewer); `unreviewed` is
    the reason why none needs to be. `zero_shot` is a model whose groups the card holds against the people's."""

    tolerance: float = TOLERANCE
    least: int = DEFAULT
    unreviewed: str | None = None
    zero_shot: ZeroShot | None = None


@dataclass(frozen=True)
class Released:
    """What was frozen, and the review that it stands on (None: unreviewed, with a reason)."""

    dataset: Dataset
    records: tuple[Record, ...]
    figures: Figures | None


def release(
    build: Build,
    name: str | None = None,
    root: Path = ROOT,
    *,
    wishes: Wishes | None = None,
    reviews: Path = REVIEWS,
) -> Released:
    """Freeze a build as the next version of `root/name` (the dataset's own name, if left out).

    Raises DatasetError where the build was limited, is unbalanced, was not reviewed or changed since, holds a picture
    twice, has problems, or is released already; each says what to do.
    """
    wishes = wishes or Wishes()
    name = name or build.dataset.name
    check_name(name)
    _require_whole(build)
    balance = _require_balance(build, wishes.tolerance)
    sections = [balance_section(balance.ratio, wishes.tolerance)]
    records: Sequence[Record] = ()
    figures = None
    if wishes.unreviewed is not None:
        if not wishes.unreviewed.strip():
            raise SettingsError("a release without review needs a reason.", where="--unreviewed", remedy="say why")
        _require_no_review(build, reviews)
        lineage = {"review": harmless(f"none: {' '.join(wishes.unreviewed.split())}")}
        sections.append(unreviewed_section(build.dataset, wishes.unreviewed))
    else:
        records, figures = reviewed(build, reviews, wishes.zero_shot)
        _require_review(build, records, figures, wishes.least, reviews)
        lineage = {f"review by {record.rater}": record.sha256 for record in records}
        sections.append(review_section(build.dataset, records, figures))
    if (yields := yield_section(build.folder, build.dataset.manifest)) is not None:
        sections.append(yields.text)
        lineage["yield"] = yields.sha256
    frozen = data.release(
        build.dataset.folder, name, root, lineage=lineage, sections=sections, problems_of=problems_with_doubles
    )
    return Released(frozen, tuple(records), figures)


def reviewed(build: Build, reviews: Path = REVIEWS, zero_shot: ZeroShot | None = None) -> tuple[list[Record], Figures]:
    """Every record of exactly this content, and their figures over the largest sample that a rater was shown."""
    dataset = build.dataset
    records = read_records(build.records(reviews), dataset.manifest)
    shown = max((line.images for record in records for line in record.opened), default=1)
    label = partial(zero_shot.labels, dataset) if zero_shot is not None else None
    return records, figures_of(dataset, records, draw_sample(dataset, shown).items, label)


def _require_whole(build: Build) -> None:
    limit = build.dataset.manifest.recipe.get("limit")
    if limit is not None:
        raise DatasetError(
            f"the build was limited (--limit {limit}): it is a trial.",
            where=str(build.folder),
            remedy="build it without --limit, review that, and release it",
        )


def _require_balance(build: Build, tolerance: float) -> Imbalance:
    if not 0 <= tolerance <= 1:
        raise SettingsError(f"{tolerance} is no tolerance.", where="--tolerance", remedy="give a share between 0 and 1")
    found = most_unequal(build.dataset.manifest)
    if not found.within(tolerance):
        raise DatasetError(
            f"the dataset is unbalanced: among {found.among}, '{found.smallest}' has {found.few:,} images and "
            f"'{found.largest}' {found.many:,}.",
            where=str(build.dataset.folder),
            remedy=f"build more of '{found.smallest}', or keep fewer of the others; to release it as it is, say so "
            f"with --tolerance {found.tolerance:.2f} (the card tells it)",
        )
    return found


def _require_no_review(build: Build, reviews: Path) -> None:
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


def _require_review(build: Build, records: Sequence[Record], figures: Figures, least: int, reviews: Path) -> None:
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
