"""Perceiving: whether a face reader sees in a member what its prompt asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fairgate.errors import RecipeError
from fairgate.generation import Face, FaceReader
from fairgate.steps.batches import Batches
from fairgate.steps.contract import Drop, Meter, Row, SetRows
from fairgate.steps.pictures import picture
from fairgate.steps.spending import spending


@dataclass(frozen=True, slots=True)
class Trait:
    """One attribute that is read off a face: column `attribute` of a member says which group was asked for.

    `reads_as` maps our groups to the reader's words where they differ ("Caucasian": "White"). Unless `must_match`, what
    is perceived is only noted.
    """

    attribute: str
    reads_as: Mapping[str, str]
    must_match: bool = True

    def word(self, group: str) -> str:
        """The reader's word for one of our groups."""
        return self.reads_as.get(group, group)

    def group(self, word: str) -> str:
        """Our group for a word of the reader; its own word where none of ours is meant."""
        return next((group for group, read in self.reads_as.items() if read == word), word)


@dataclass(frozen=True, slots=True)
class Perceive:
    """Reads the face of every member that has not been read, and drops a set at its first member that is not as asked.

    Writes `perceived_ATTRIBUTE` and `p_ATTRIBUTE` (the probability of the group that was asked for). Drops `no_face`,
    `several_faces`, and `perceived_otherwise` with that probability; each names the member, and the others of its wave
    that are not as asked either.
    """

    reader: FaceReader
    traits: tuple[Trait, ...]
    batch: int = 8
    _batches: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("member", "image")
    writes: ClassVar[tuple[str, ...]] = ()

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Read and judge, `batch` pictures at a time."""
        column = f"perceived_{self.traits[0].attribute}"
        waiting = [(rows, row) for rows in sets for row in rows.rows if column not in row]
        with spending(self.reader, meter):
            read = self._batches(self._read, [row for _, row in waiting], self.batch, meter)
        for (rows, row), faces in zip(waiting, read, strict=True):
            drop = self._judge(row, faces)
            if drop is not None:
                first = rows.drop
                rows.drop = drop if first is None else replace(first, also=(*first.also, str(row["member"])))

    def _read(self, rows: Sequence[Row]) -> list[list[Face]]:
        return self.reader.read([picture(row["image"]) for row in rows])

    def _judge(self, row: Row, faces: Sequence[Face]) -> Drop | None:
        member = str(row["member"])
        if len(faces) != 1:
            return Drop("several_faces" if faces else "no_face", float(len(faces)), 1.0, member)
        drop = None
        for trait in self.traits:
            asked = str(row[trait.attribute])
            groups = self._groups(faces[0], trait, trait.word(asked))
            perceived = trait.group(faces[0].perceived(trait.attribute))
            row[f"perceived_{trait.attribute}"] = perceived
            row[f"p_{trait.attribute}"] = float(groups[trait.word(asked)])
            if trait.must_match and perceived != asked and drop is None:
                drop = Drop("perceived_otherwise", measured=row[f"p_{trait.attribute}"], member=member)
        return drop

    def _groups(self, face: Face, trait: Trait, word: str) -> Mapping[str, float]:
        groups = face.probabilities.get(trait.attribute, {})
        if word not in groups:
            known = f"its groups: {', '.join(groups)}" if groups else f"it reads: {', '.join(face.probabilities)}"
            raise RecipeError(
                f"the face reader has no group '{word}' of '{trait.attribute}'.",
                where=self.reader.uri,
                remedy=f"say what it calls the group (`reads_as`); {known}",
            )
        return groups
