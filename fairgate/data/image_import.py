"""Releases that no recipe made: of photographs with labels, of labels alone, and of prompts without pictures."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from fairgate.data.defaults import ROOT
from fairgate.data.grouping import ColumnGrouping, GroupSize, group_sizes
from fairgate.data.import_rows import ImportColumns, ImportedRows, open_table
from fairgate.data.manifest import Manifest, check_name
from fairgate.data.releases import refuse_existing, write_dataset
from fairgate.data.rows import MEMBER
from fairgate.data.shard_writer import UnreadableRow
from fairgate.ground.errors import DatasetError, disk_errors
from fairgate.ground.hashing import require_regular

Progress = Callable[[int, int], None]


def plan_import(
    labels: Path | str | Any, images_dir: Path | None, columns: ImportColumns, grouping: ColumnGrouping | None = None
) -> ImportPlan:
    """Read a table of labels once, and check everything but the pictures; nothing is written.

    `labels` is a file (`open_table` says which) or a frame of pandas; without `images_dir`, labels alone are imported,
    or the pictures that the table brings. Images are looked for under `images_dir` by path; if not one of the paths is
    found that way, by file name alone, and the recipe in the manifest says which. Bytes are stored untouched, the
    image's `path` as the table spells it (a table of scores is joined on that). `grouping` makes groups of numbers or
    of other names, and what was recorded is stored as `label_NAME`. Raises DatasetError naming file and line.
    """
    table = open_table(labels)
    rows = ImportedRows(table, columns, grouping or ColumnGrouping(), pictures=images_dir is None)
    lineage = table.lineage()
    for line in table.lines(False):
        rows.add(line)
    rows.settle()
    found_by = None if images_dir is None else _look_up(images_dir, rows)
    return ImportPlan(rows, images_dir, found_by, lineage)


@dataclass(frozen=True)
class ImportPlan:
    """A table whose labels are checked: how large its groups will be, and `write` to make a release of it."""

    rows: ImportedRows
    images_dir: Path | None
    images_found_by: str | None
    lineage: Mapping[str, str]

    @property
    def has_images(self) -> bool:
        """Whether pictures are imported, or labels alone."""
        return self.images_dir is not None or self.rows.pictures

    @property
    def notes(self) -> dict[str, str]:
        """How the table is read, where that is not plain from its header."""
        named = {} if self.rows.named_by is None else {"images_named_by": self.rows.named_by}
        return {**self.rows.table.notes, **named}

    def group_sizes(self) -> list[GroupSize]:
        """The number of sets of every group and crossing."""
        return group_sizes(self.rows.index())

    def write(
        self,
        name: str,
        *,
        root: Path = ROOT,
        version: str = "v1",
        licence: str = "unknown",
        progress: Progress | None = None,
    ) -> Manifest:
        """Write `root/name/version`. Raises DatasetError, also for a picture that does not decode."""
        check_name(name, version)
        target = root / name / version
        refuse_existing(target)
        columns = self.rows.given
        recipe = {
            "kind": "import",
            "labels": self.rows.table.name,
            "image_column": self.rows.image_column,
            "subject_column": columns.subject_column,
            "images_found_by": self.images_found_by,
            **({"set_column": columns.sets, "member_column": columns.members} if columns.sets else {}),
            **({"cluster_column": columns.cluster} if columns.cluster else {}),
            **self.rows.grouping.recorded(),
            **self.notes,
        }
        about = "Imported photographs with their labels." if self.has_images else "Imported labels, without images."
        try:
            return write_dataset(
                target,
                self._written(progress),
                name=name,
                version=version,
                attributes=self.rows.groups,
                recipe=recipe,
                licence=licence,
                counterfactual=self.rows.counterfactual,
                lineage=self.lineage,
                about=about,
            )
        except UnreadableRow as error:
            raise self._unreadable(error) from error

    def _written(self, progress: Progress | None) -> Iterator[dict[str, object]]:
        """One row per line, its picture read when its turn comes."""
        total = len(self.rows)
        for place, line in enumerate(islice(self.rows.table.lines(self.rows.pictures), total)):
            row, where = self.rows.row(place, line), self.rows.table.place(line.number)
            if self.rows.pictures:
                if line.picture is None:
                    raise DatasetError(
                        "the row has no picture.",
                        where=where,
                        remedy="take the row out, or give the pictures as a folder (`--images`)",
                    )
                row["image"] = line.picture
            elif self.images_dir is not None:
                file = self._file_of(str(row["path"]))
                require_regular(file, DatasetError)
                remedy = "make the file readable, or take the line out of the labels"
                with disk_errors(DatasetError, "the image file cannot be read", f"{file} ({where})", remedy):
                    row["image"] = file.read_bytes()
            yield row
            if progress is not None:
                progress(place + 1, total)

    def _file_of(self, path: str) -> Path:
        return (self.images_dir or Path()) / (PurePosixPath(path).name if self.images_found_by == "file name" else path)

    def _unreadable(self, error: UnreadableRow) -> DatasetError:
        place = self.rows.places[error.set_id, error.member]
        where = self.rows.table.place(self.rows.lines[place])
        if self.images_dir is not None:
            where = f"{self._file_of(self.rows.paths[place] or '')} ({where})"
        return DatasetError(
            error.problem,
            where=where,
            remedy="replace the file with a whole image, or take the line out of the labels",
        )


def _look_up(images_dir: Path, rows: ImportedRows) -> str:
    """How the images are found under `images_dir`: by "path" or by "file name". Raises DatasetError if neither."""
    if not images_dir.is_dir():
        raise DatasetError(
            "the images folder does not exist.", where=str(images_dir), remedy="give the folder that holds the images"
        )
    paths = [str(path) for path in rows.paths]
    absent = [path for path in paths if not (images_dir / path).is_file()]
    if not absent:
        return "path"
    names = {PurePosixPath(path).name for path in paths}
    if len(absent) == len(paths) == len(names) and all((images_dir / name).is_file() for name in names):
        return "file name"
    raise DatasetError(
        f"{len(absent):,} of {len(paths):,} images are not in the folder; the first is '{absent[0]}'.",
        where=f"{images_dir / absent[0]} ({rows.table.place(rows.lines[paths.index(absent[0])])})",
        remedy="give the folder that the labels' paths start from, or take lines without an image out",
    )


MOST_SEEDS: Final = 1_000_000


def _seeds_of(prompts: Mapping[str, str], seeds: int | Mapping[str, int], target: Path) -> dict[str, int]:
    """How many seeds each subject has. Raises DatasetError for prompts or seeds that make no release."""
    of = dict.fromkeys(prompts, seeds) if isinstance(seeds, int) else {word: seeds[word] for word in prompts}
    odd = [count for count in of.values() if not 1 <= count <= MOST_SEEDS]
    if not prompts or odd:
        first = [*odd, seeds if isinstance(seeds, int) else 0][0]
        raise DatasetError(
            f"{len(prompts)} prompts with {first:,} seeds make no release.",
            where=str(target),
            remedy=f"give at least one word (`--word doctor`), and 1 to {MOST_SEEDS:,} seeds",
        )
    if blank := [subject for subject, prompt in prompts.items() if not subject.strip() or not prompt.strip()]:
        raise DatasetError(f"the word {blank[0]!r} or its prompt is blank.", where=str(target), remedy="give it a text")
    shown: dict[str, str] = {}
    for subject, prompt in prompts.items():
        plain = " ".join(unicodedata.normalize("NFC", prompt).split())
        if (other := shown.setdefault(plain, subject)) != subject:
            raise DatasetError(
                f"'{other}' and '{subject}' have the same prompt, '{plain}'.",
                where=str(target),
                remedy="give each word once",
            )
    return of


def write_prompts(
    prompts: Mapping[str, str],
    seeds: int | Mapping[str, int],
    name: str,
    *,
    root: Path = ROOT,
    version: str = "v1",
    licence: str = "unknown",
) -> Manifest:
    """Make `root/name/version` of `prompts`, by what each is about (its subject): `seeds` rows for every one, or as
    many as `seeds` has for each.

    A row is a set of its own, `SUBJECT-SEED` with the member `only`, its caption the prompt. It records no attribute:
    who is painted is perceived later. Raises DatasetError for no prompt or seed, and for subjects or prompts alike.
    """
    check_name(name, version)
    target = root / name / version
    refuse_existing(target)
    of = _seeds_of(prompts, seeds, target)

    def rows() -> Iterator[dict[str, object]]:
        for subject, prompt in prompts.items():
            for seed in range(of[subject]):
                yield {
                    "set_id": f"{subject}-{seed}",
                    "member": MEMBER,
                    "subject": subject,
                    "caption": prompt,
                    "seed": str(seed),
                }

    return write_dataset(
        target,
        rows(),
        name=name,
        version=version,
        attributes={},
        recipe={"kind": "prompts", "prompts": dict(prompts), "seeds": seeds if isinstance(seeds, int) else of},
        licence=licence,
        counterfactual=False,
        about="Prompts for models that make pictures, each with as many seeds. There are no pictures.",
    )
