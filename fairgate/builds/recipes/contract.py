"""The contract of a recipe: settings, and parts that turn starting sets into finished sets, shard by shard."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from pathlib import Path
from string import Formatter
from typing import Any, ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from fairgate.builds.steps import Row, SetRows, Step, Trace
from fairgate.ground.plugins import Registry
from fairgate.ground.randomness import stream


class RecipeSettings(BaseModel):
    """Settings of a recipe; defaults are the paper's. Everything that changes what is built is a setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    shard_sets: int = Field(8, ge=1, description="Starting sets of a shard, the piece of work that is never redone.")
    name: str = Field("", description="Name of the dataset that is built; the build's own name when empty.")
    licence: str = "unknown"
    notice: str | None = Field(None, description="Shown wherever the data are shown.")

    def of_subject(self, subject: str) -> Self:
        """These settings without those of other subjects alone. They are part of the plan: a change of any makes the
        subject's shards stale, and adding a subject leaves the others valid. Default: all of them."""
        return self


def in_shards(sets: Iterable[SetRows], settings: RecipeSettings) -> Iterator[list[SetRows]]:
    """Starting sets in shards, made lazily."""
    left = iter(sets)
    while shard := list(islice(left, settings.shard_sets)):
        yield shard


def single_pictures(
    recipe: str, subject: str, number: int, settings: RecipeSettings, row: Row, columns: Mapping[str, Any] | None = None
) -> Iterator[list[SetRows]]:
    """Starting sets of one member each, to be painted; every shard is full, so that the number can be raised."""
    full = ceil(number / settings.shard_sets) * settings.shard_sets
    starts = (
        SetRows(f"{subject}-{n:05d}", subject, (recipe, subject, n), settings.seed, [dict(row)], dict(columns or {}))
        for n in range(full)
    )
    return in_shards(starts, settings)


def drawn(set_ids: Sequence[str], recipe: str, subject: str, settings: RecipeSettings, purpose: str) -> list[str]:
    """The ids in random order."""
    order = stream(settings.seed, recipe, subject, purpose).permutation(len(set_ids))
    return [set_ids[place] for place in order]


def require_fields(setting: str, template: str, *fields: str) -> None:
    """Raises ValueError for a template that does not hold each of `fields` once, and nothing else to fill in.

    >>> require_fields("template", "A photo of a doctor", "phrase")
    Traceback (most recent call last):
    ValueError: `template` holds {phrase}, once, and no other field
    """
    try:
        parsed = [each for each in Formatter().parse(template) if each[1] is not None]
    except ValueError:  # a brace that is not closed
        parsed = []
    found = [name for _, name, spec, conversion in parsed if name and not spec and not conversion]
    if len(found) < len(parsed) or sorted(found) != sorted(fields):
        each = " and ".join(f"{{{field}}}" for field in fields)
        raise ValueError(f"`{setting}` holds {each}, once{' each' * (len(fields) > 1)}, and no other field")


@dataclass(frozen=True, slots=True)
class Work:
    """What a part of all subjects has a diffusion model do, at most: filters and `target_sets` end it earlier.

    `pictures` that the model of `role` makes (None: it depends on data that are not here), each in so many
    `evaluations` of its UNet.
    """

    part: str
    role: str
    pictures: int | None
    evaluations: int


class Before(Protocol):
    """The finished part before this one, of the same subject: its chosen sets, read on demand."""

    @property
    def set_ids(self) -> Sequence[str]:
        """What `choose` chose, in its order; empty for the first part."""

    def sets(self, set_ids: Sequence[str]) -> Iterator[SetRows]:
        """The stored sets with these ids, in this order; pictures as encoded bytes, arrays as numpy arrays."""


class Part(ABC):
    """One part of a recipe, a DVC stage: starting sets -> steps -> accepted sets -> a choice among them.

    A part holds no state but its recipe's settings, and can be pickled. Steps open their models when they are made.
    """

    settings: RecipeSettings
    name: ClassVar[str]
    ignores: tuple[str, ...] = ()
    """Settings and roles of models that do not change what a shard of this part holds: those that only `target_sets`,
    `choose` or a later part read. Another change of a setting or model makes all shards of a part stale. A batch size
    is not among them: sums over a batch of another size round otherwise, in the last bits."""

    def __init__(self, settings: RecipeSettings) -> None:
        self.settings = settings

    @abstractmethod
    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """The starting sets of every shard, in order, made lazily; the same on every machine and in every run.

        A shard is made whole or not at all, and nothing of it depends on other shards. May be endless where
        `target_sets` ends it.
        """

    @abstractmethod
    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        """The steps, in order, with their models opened on `device`. Called once per worker and subject."""

    def context(self, subject: str, before: Before) -> Any:
        """What every worker needs of the part before, such as a reference pool: small, and it can be pickled."""
        return None

    def target_sets(self, subject: str) -> int | None:
        """How many accepted sets end the part: it is the shortest run of shards, from the first, that holds as many.

        None, the default, for all shards.
        """
        return None

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        """Ids of the sets that go on, in order, from the traces of all sets, dropped or not. Default: all accepted."""
        return [trace.set_id for trace in traces if trace.kept]


class Recipe(ABC):
    """A published pipeline. `Settings` are its settings; `parts` run one after the other for each subject."""

    name: ClassVar[str]
    paper: ClassVar[str]
    Settings: ClassVar[type[RecipeSettings]]
    counterfactual: ClassVar[bool]
    """Whether every set has the same members."""

    def __init__(self, settings: RecipeSettings) -> None:
        self.settings = settings

    @abstractmethod
    def parts(self) -> Sequence[Part]:
        """The parts, in order."""

    @abstractmethod
    def subjects(self) -> list[str]:
        """What a build can be split by: each is built alone, whatever the others are."""

    @abstractmethod
    def attributes(self) -> Mapping[str, Sequence[str]]:
        """Attributes of the finished dataset, each with its groups in order."""

    @abstractmethod
    def models(self) -> Mapping[str, str]:
        """The models that the steps use, role -> URI. Their fingerprints go into the plan and the manifest."""

    def inputs(self) -> Mapping[str, Path]:
        """Files that are read (annotations, labels), name -> path. Their digests go into the plan and the manifest."""
        return {}

    def work(self) -> Sequence[Work]:
        """What diffusion models will have to do, at most; by default not known."""
        return ()

    def about(self) -> str:
        """A paragraph for the dataset card."""
        return f"Built by the recipe `{self.name}`, after {self.paper}."

    def finish(self, rows: SetRows) -> list[dict[str, Any]]:
        """The rows of the finished dataset for one chosen set of the last part.

        Default: every member's columns and the set's, with `set_id` and `subject`.
        """
        return [{**rows.columns, **row, "set_id": rows.set_id, "subject": rows.subject} for row in rows.rows]


def _checked(_: str, thing: Any) -> type[Recipe]:
    if not (isinstance(thing, type) and issubclass(thing, Recipe)):
        raise TypeError("it is no subclass of fairgate.Recipe")
    return thing


REGISTERED: Registry[type[Recipe]] = Registry("recipe", _checked, lambda recipe: recipe.name)
register = REGISTERED.add
