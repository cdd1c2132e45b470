"""Which images a person looks at, the same for every rater, as many of each subject and group as can be; their rows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairgate.builds.steps import picture, png
from fairgate.data import Dataset, Manifest
from fairgate.ground.errors import DatasetError
from fairgate.ground.randomness import stream

if TYPE_CHECKING:
    from PIL.Image import Image


SCENE_EVERY: Final = 10
"""After so many images, a whole set is shown."""
DEFAULT: Final = 100


@dataclass(frozen=True, slots=True)
class ImageItem:
    """One image of the sample, by its row in the dataset; `recorded` is its group of every attribute."""

    row: int
    set_id: str
    member: str
    subject: str
    caption: str
    recorded: dict[str, str]


@dataclass(frozen=True, slots=True)
class SetItem:
    """A whole set; `rows` of its members are shuffled, so that a position is not informative of a group."""

    set_id: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a rater is shown, in order. `images` and `sets` of a smaller sample are part of every larger one."""

    items: tuple[ImageItem | SetItem, ...]

    @property
    def images(self) -> list[ImageItem]:
        """The single images."""
        return [item for item in self.items if isinstance(item, ImageItem)]

    @property
    def sets(self) -> list[SetItem]:
        """The whole sets."""
        return [item for item in self.items if isinstance(item, SetItem)]


def draw_sample(dataset: Dataset, size: int = DEFAULT) -> Sample:
    """`size` images of a dataset (all of them, where it has fewer), and one whole set after every tenth.

    Subjects and full intersections of groups take turns, so that any two differ by one image where none runs out. What
    is drawn depends on content alone: two raters see the same. Of a set, one image is taken if possible.
    """
    index = dataset.index
    names = (dataset.manifest.fingerprint, "review")
    shown = [
        taken[place]
        for number, taken in enumerate(_rounds(dataset, names, size))
        for place in stream(0, *names, "order", number, len(taken)).permutation(len(taken))
    ]
    images = [
        ImageItem(
            row=row,
            set_id=index.set_id[row],
            member=index.member[row],
            subject=index.subject[row],
            caption=index.caption[row],
            recorded={attribute: values[row] for attribute, values in index.attributes.items()},
        )
        for row in shown
    ]
    sets = _sets(dataset, names, len(images) // SCENE_EVERY)
    items: list[ImageItem | SetItem] = []
    for number, image in enumerate(images, start=1):
        items.append(image)
        if number % SCENE_EVERY == 0 and (whole_set := next(sets, None)) is not None:
            items.append(whole_set)
    return Sample(tuple(items))


def has_sets(manifest: Manifest) -> bool:
    """Whether there are whole sets to be shown: they are counterfactual, and more than single images."""
    return manifest.counterfactual and (manifest.members_per_set or 1) > 1


def _rounds(dataset: Dataset, names: tuple[str, str], size: int) -> Iterator[list[int]]:
    """Rows, round after round over all cells of subject and intersection, `size` in all."""
    index = dataset.index
    subjects = list(dataset.manifest.subjects)
    groups, group_names = index.codes(list(index.attributes)) if index.attributes else (np.zeros(len(index), int), [""])
    place = {subject: number for number, subject in enumerate(subjects)}
    cells = np.array([place[subject] for subject in index.subject], dtype=np.intp) * len(group_names) + groups
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], np.arange(len(subjects) * len(group_names) + 1))
    waiting: dict[int, list[int]] = {}
    used: set[str] = set()
    left, number = min(size, len(index)), 0
    while left:
        taken: list[int] = []
        for subject, group in _turns(stream(0, *names, "turns", number), len(subjects), len(group_names)):
            cell = subject * len(group_names) + group
            if cell not in waiting:
                rows = order[starts[cell] : starts[cell + 1]]
                mixed = stream(0, *names, "images", subjects[subject], group_names[group]).permutation(len(rows))
                waiting[cell] = [int(row) for row in rows[mixed]][::-1]
            if waiting[cell] and len(taken) < left:
                left_here = waiting[cell]
                places = range(len(left_here) - 1, -1, -1)
                unseen = (place for place in places if index.set_id[left_here[place]] not in used)
                taken.append(left_here.pop(next(unseen, -1)))  # of a seen set, where every set was
                used.add(index.set_id[taken[-1]])
        yield taken
        left, number = left - len(taken), number + 1


def _turns(rng: np.random.Generator, subjects: int, groups: int) -> Iterator[tuple[int, int]]:
    """Every pair of a subject and a group once; subjects take turns, and groups do, at every step of the way."""
    subject_order, group_order = rng.permutation(subjects), rng.permutation(groups)
    together = math.lcm(subjects, groups)
    for turn in range(subjects * groups):
        group = (turn + turn // together) % groups
        yield int(subject_order[turn % subjects]), int(group_order[group])


def _sets(dataset: Dataset, names: tuple[str, str], size: int) -> Iterator[SetItem]:
    """Whole sets, subjects taking turns. None where sets are single images, or not counterfactual."""
    if not has_sets(dataset.manifest):
        return
    index, members = dataset.index, dataset.manifest.members_per_set or 1
    by_subject: dict[str, list[int]] = {}
    for number in stream(0, *names, "sets").permutation(dataset.manifest.n_sets):
        first = int(number) * members  # every set has them all, and they are stored one after the other
        by_subject.setdefault(index.subject[first], []).append(first)
    columns = [by_subject[subject] for subject in sorted(by_subject)]
    longest = max(map(len, columns))
    in_turn = [column[depth] for depth in range(longest) for column in columns if depth < len(column)]
    for first in in_turn[:size]:
        mixed = stream(0, *names, "members", index.set_id[first]).permutation(members)
        yield SetItem(index.set_id[first], tuple(first + int(place) for place in mixed))


def read_rows(dataset: Dataset, rows: Iterable[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Row number -> column -> value. Raises DatasetError where a shard is missing, unreadable or too short."""
    wanted, values, end = sorted(set(rows)), dict[int, dict[str, Any]](), 0
    for shard in dataset.manifest.shards:
        start, end = end, end + shard.rows
        inside = wanted[bisect_left(wanted, start) : bisect_left(wanted, end)]
        if not inside:
            continue
        parquet = dataset.parquet(shard)
        sizes = (parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups))
        for group, (first, after) in enumerate(pairwise(accumulate(sizes, initial=start))):
            here = [row for row in inside if first <= row < after]
            if here:
                table = dataset.read_group(parquet, shard, group, columns=list(columns))
                values |= {row: table.slice(row - first, 1).to_pylist()[0] for row in here}
        if inside[-1] not in values:
            raise dataset.unreadable(shard, ValueError("rows are missing"))
    return values


def read_picture(dataset: Dataset, row: int) -> Image:
    """The picture of a row, RGB. Raises DatasetError where it is not there or does not decode."""
    stored = read_rows(dataset, [row], ["image.bytes"])[row].get("image")
    where, remedy = f"{dataset.folder}, row {row}", "make the build again, or `dvc pull` it"
    if not isinstance(stored, dict) or not isinstance(stored.get("bytes"), bytes):
        raise DatasetError("the picture is not there.", where=where, remedy=remedy)
    try:
        return picture(stored["bytes"])
    except DatasetError as error:
        raise DatasetError(f"the picture cannot be read: {error.problem}", where=where, remedy=remedy) from error


def read_png(dataset: Dataset, row: int) -> bytes:
    """The same as a PNG of its pixels alone: whatever else its file says (a prompt, a camera) stays out."""
    return png(read_picture(dataset, row))
