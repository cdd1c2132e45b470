"""What one published dataset is: its terms and origin, its parts, and how downloaded files become rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairgate.data import MEMBER
from fairgate.data.published.source_files import SourceFiles
from fairgate.ground.errors import DatasetError, suggestion
from fairgate.ground.plugins import Registry


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files of a dataset repository of the Hugging Face hub. `commit` is a full one, or None where none is known: then
    that of the first download is recorded."""

    repository: str
    patterns: tuple[str, ...]
    commit: str | None = None

    @property
    def address(self) -> str:
        """Where a person finds it."""
        return f"https://huggingface.co/datasets/{self.repository}"


@dataclass(frozen=True, slots=True)
class WebFiles:
    """Files at plain addresses, by the names that they are saved under; each has at most `most` bytes, and is held in
    memory while it comes. `address` is where a person finds them."""

    address: str
    urls: Mapping[str, str]
    most: int


@dataclass(frozen=True, slots=True)
class ByHand:
    """What a program cannot or may not fetch. `how` tells a person how to get it."""

    address: str
    how: str


Source = HubFiles | WebFiles | ByHand


@dataclass(frozen=True, slots=True)
class PublishedPart:
    """One release that can be made of a dataset: a split, or sets of one shape. `attributes` are declared groups in
    their order; `size` is that of its download, as its source says."""

    about: str
    size: str
    source: Source
    attributes: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A member of a set; by default a photograph of a person without a caption, in a set of its own. `image` is its
    file, or reads its encoded bytes; None: labels only."""

    set_id: str
    path: str
    groups: Mapping[str, str]
    image: Path | Callable[[], bytes] | None
    subject: str = "person"
    member: str = MEMBER
    caption: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """Rows of a part, those of a set one after another, and what was left out, by reason. `files` are the tables and
    archives that they are from, `loose` single pictures; `facts` is what the manifest should say of how they were
    read."""

    rows: Sequence[PublishedRow]
    left_out: Mapping[str, int]
    files: Sequence[Path]
    facts: Mapping[str, object] = field(default_factory=dict)
    loose: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """A dataset that somebody published. The first of its parts is the default one.

    `terms` is shown wherever the data are shown; `notes` are traps that the importer knows. `layout` tells somebody in
    whose folder nothing is found what has to be in it.

    A package registers one with the entry point group `fairgate.datasets`, under its name.
    """

    name: str
    title: str
    licence: str
    citation: str
    parts: Mapping[str, PublishedPart]
    read: Callable[[SourceFiles, str], Reading]
    counterfactual: bool
    layout: str = "give the folder that the download is in"
    notes: tuple[str, ...] = ()
    terms: str | None = None

    def part(self, name: str | None) -> tuple[str, PublishedPart]:
        """A part by name, the default one for None. Raises DatasetError for one that there is not."""
        wanted = name or next(iter(self.parts))
        if wanted not in self.parts:
            raise DatasetError(
                f"'{self.name}' has no part '{wanted}'.",
                where="--part",
                remedy=suggestion(wanted, self.parts, f"parts: {', '.join(self.parts)}"),
            )
        return wanted, self.parts[wanted]

    def release_name(self, part: str) -> str:
        """The name of a part's release, where nobody gives one: the dataset's, and the part's where it is no default.

        Letters, digits, `-` and `_` alone.
        """
        first = next(iter(self.parts))
        return self.name if part == first else f"{self.name}_{part.replace('.', '')}".replace("-", "_")


def _checked(_: str, thing: Any) -> Published:
    if not isinstance(thing, Published):
        raise TypeError("it is no fairgate.data.published.Published")
    if not thing.parts:
        raise TypeError("it has no part")
    return thing


REGISTERED: Registry[Published] = Registry("dataset", _checked, lambda dataset: dataset.name)


def register(dataset: Published) -> Published:
    """Make a dataset known by its name. Raises FairgateError for a name that is taken."""
    REGISTERED.register(dataset.name, dataset, module=dataset.read.__module__)
    return dataset
