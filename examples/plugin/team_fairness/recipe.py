"""A recipe: `tinted`, sets of two plain pictures, a light and a dark one of the same hue. No model, milliseconds.

In `params.yaml`: `builds: {tinted: {licence: CC0-1.0, subjects: [doctor, nurse], sets: 20}}`. Then
`fairgate build tinted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from PIL import Image
from pydantic import Field

from fairgate.builds.recipes import Before, Part, Recipe, RecipeSettings
from fairgate.builds.steps import Drop, Meter, SetRows, Step, Trace

TONES = {"light": 1.0, "dark": 0.4}
LEAST_DIFFERENCE = 20.0  # gray levels, of 255


class TintedSettings(RecipeSettings):
    """What can be set in params.yaml."""

    subjects: tuple[str, ...] = Field(("doctor",), description="What a set depicts.")
    sets: int = Field(20, ge=1, description="Kept sets per subject.")


@dataclass(frozen=True)
class Paint:
    """Two members of one hue."""

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ("image", "tone", "difference")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Each set draws from a stream of its own, so that it is the same on every machine and in every order."""
        for rows in sets:
            hue = rows.stream("hue").uniform(0, 255, 3)
            shades = {tone: np.full((8, 8, 3), hue * factor, dtype=np.uint8) for tone, factor in TONES.items()}
            rows.columns["difference"] = float(shades["light"].mean() - shades["dark"].mean())
            for tone, pixels in shades.items():
                caption = f"a {tone} picture of a {rows.subject}"
                rows.rows.append({"member": tone, "caption": caption, "tone": tone, "image": Image.fromarray(pixels)})


@dataclass(frozen=True)
class TellApart:
    """Keep a set whose members differ visibly, and say of every other why not."""

    reads: ClassVar[tuple[str, ...]] = ("difference",)
    writes: ClassVar[tuple[str, ...]] = ()

    def judge(self, rows: SetRows) -> Drop | None:
        """None to keep it."""
        found = rows.columns["difference"]
        return Drop("too_alike", measured=found, limit=LEAST_DIFFERENCE) if found < LEAST_DIFFERENCE else None


class Sets(Part):
    """The only part: endless starting sets, until enough are kept."""

    name = "sets"
    ignores = ("sets", "subjects")  # another number of sets makes no shard stale

    settings: TintedSettings

    def shards(self, subject: str, before: Before) -> Iterator[list[SetRows]]:
        """Each shard is made whole or not at all."""
        first = 0
        while True:
            numbers = range(first, first + self.settings.shard_sets)
            yield [SetRows(f"{subject}-{n}", subject, ("tinted", subject, n), self.settings.seed) for n in numbers]
            first += self.settings.shard_sets

    def steps(self, subject: str, device: str, context: Any) -> Sequence[Step]:
        """In order; models would be opened here, on `device`."""
        return [Paint(), TellApart()]

    def target_sets(self, subject: str) -> int:
        """How many kept sets are enough: whole shards are made until there are as many."""
        return self.settings.sets

    def choose(self, subject: str, traces: Sequence[Trace]) -> list[str]:
        """The first ones, as many of every subject."""
        return [trace.set_id for trace in traces if trace.kept][: self.settings.sets]


class Tinted(Recipe):
    """After nobody's paper."""

    name = "tinted"
    paper = "no paper: an example"
    Settings = TintedSettings
    counterfactual = True  # every set has the same members
    settings: TintedSettings

    def parts(self) -> Sequence[Part]:
        """One."""
        return [Sets(self.settings)]

    def subjects(self) -> list[str]:
        """A build of each can run on its own."""
        return list(self.settings.subjects)

    def attributes(self) -> Mapping[str, Sequence[str]]:
        """What the members differ in."""
        return {"tone": tuple(TONES)}

    def models(self) -> Mapping[str, str]:
        """None."""
        return {}
