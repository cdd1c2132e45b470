"""What models see in a picture: perceived attributes, the mask of its one person, answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fairgate.builds.steps.contract import Batches, Drop, Maker, Meter, Row, SetRows
from fairgate.builds.steps.pictures import mask_png, picture, spending
from fairgate.ground.errors import RecipeError
from fairgate.models.generation import Box, Detector, Face, FaceReader, Mask, Segmenter, VQAModel


@dataclass(frozen=True, slots=True)
class Trait:
    """One attribute that is read off a face: column `attribute` of a member holds the prompted group.

    `reads_as` maps our groups to the reader's words where they differ ("Caucasian": "White"). Without `must_match`, the
    perceived group is recorded and drops nothing.
    """

    attribute: str
    reads_as: Mapping[str, str]
    must_match: bool = True

    def word(self, group: str) -> str:
        return self.reads_as.get(group, group)

    def group(self, word: str) -> str:
        """Our group for a word of the reader; the word itself where it is none of ours."""
        return next((group for group, read in self.reads_as.items() if read == word), word)


@dataclass(frozen=True, slots=True)
class Perceive(Maker):
    """Reads the face of every member that has not been read, and drops a set with a member of another perceived group.

    Writes `perceived_ATTRIBUTE` and `p_ATTRIBUTE` (the probability of the prompted group). Drops `no_face`,
    `several_faces`, and `perceived_otherwise` with that probability; each names the first member that failed, and the
    others of its wave.
    """

    reader: FaceReader
    traits: tuple[Trait, ...]
    batch: int = 8
    _batches: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("member", "image")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        column = f"perceived_{self.traits[0].attribute}"
        waiting = [(rows, row) for rows in sets for row in rows.rows if column not in row]
        with spending(self.reader, meter):
            read = self._batches(
                lambda some: self.reader.read([picture(row["image"]) for row in some]),
                [row for _, row in waiting],
                self.batch,
                meter,
            )
        for (rows, row), faces in zip(waiting, read, strict=True):
            drop = self._judge(row, faces)
            if drop is not None:
                first = rows.drop
                rows.drop = drop if first is None else replace(first, also=(*first.also, str(row["member"])))

    def _judge(self, row: Row, faces: Sequence[Face]) -> Drop | None:
        member = str(row["member"])
        if len(faces) != 1:
            return Drop("several_faces" if faces else "no_face", float(len(faces)), 1.0, member)
        drop, face = None, faces[0]
        for trait in self.traits:
            prompted = str(row[trait.attribute])
            word, groups = trait.word(prompted), face.probabilities.get(trait.attribute, {})
            if word not in groups:
                known = f"its groups: {', '.join(groups)}" if groups else f"it reads: {', '.join(face.probabilities)}"
                raise RecipeError(
                    f"the face reader has no group '{word}' of '{trait.attribute}'.",
                    where=self.reader.uri,
                    remedy=f"say what it calls the group (`reads_as`); {known}",
                )
            perceived = trait.group(face.perceived(trait.attribute))
            row[f"perceived_{trait.attribute}"] = perceived
            row[f"p_{trait.attribute}"] = float(groups[word])
            if trait.must_match and perceived != prompted and drop is None:
                drop = Drop("perceived_otherwise", measured=row[f"p_{trait.attribute}"], member=member)
        return drop


@dataclass(frozen=True, slots=True)
class MaskPerson(Maker):
    """Finds the person in the set's `base` picture.

    Writes the `mask` (a 1-bit PNG), the `mask_share` of the picture that it covers, and the detector's `person_score`.
    Drops `no_person` and `several_persons`: it is not defined which of them the caption would change.
    """

    detector: Detector
    segmenter: Segmenter
    text: str
    box_threshold: float
    text_threshold: float
    batch: int = 8
    _detecting: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)
    _segmenting: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("base",)
    writes: ClassVar[tuple[str, ...]] = ("mask", "mask_share", "person_score")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        with spending(self.detector, meter), spending(self.segmenter, meter):
            alone: list[tuple[SetRows, Box]] = []
            for rows, boxes in zip(sets, self._detecting(self._detect, sets, self.batch, meter), strict=True):
                if len(boxes) == 1:
                    alone.append((rows, boxes[0]))
                else:
                    reason = "several_persons" if boxes else "no_person"
                    rows.drop = Drop(reason, measured=float(len(boxes)), limit=1.0)
            masks = self._segmenting(self._segment, alone, self.batch, meter)
        for (rows, box), mask in zip(alone, masks, strict=True):
            rows.columns["mask"] = mask_png(mask)
            rows.columns["mask_share"] = float(np.mean(mask))
            rows.columns["person_score"] = float(box.score)

    def _detect(self, sets: Sequence[SetRows]) -> list[list[Box]]:
        images = [picture(rows.columns["base"]) for rows in sets]
        return self.detector.detect(
            images, self.text, box_threshold=self.box_threshold, text_threshold=self.text_threshold
        )

    def _segment(self, found: Sequence[tuple[SetRows, Box]]) -> list[Mask]:
        images = [picture(rows.columns["base"]) for rows, _ in found]
        return self.segmenter.segment(images, [box for _, box in found])


@dataclass(frozen=True, slots=True)
class VisualQuestion:
    """A question and the column of its answer.

    `column` is the probability of `answer` among all of the model's answers or, where `against` names another one, its
    share of the two (0 where the model gives both none).
    """

    column: str
    text: str
    answer: str
    against: str | None = None

    def answers(self) -> list[str]:
        return [self.answer] if self.against is None else [self.answer, self.against]

    def value(self, found: dict[str, float]) -> float:
        """The column's value, 0 to 1, from the probability of each answer."""
        whole = 1.0 if self.against is None else found[self.answer] + found[self.against]
        return found[self.answer] / whole if whole > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Ask(Maker):
    """Queries a visual-question model with several questions about the picture of each set, prepared once.

    `batch` counts pictures. Each question's column is a number of the set, so that sets can be ranked by it.
    """

    asker: VQAModel
    questions: tuple[VisualQuestion, ...]
    batch: int = 8
    _batches: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("image",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        with spending(self.asker, meter):
            values = self._batches(self._ask, sets, self.batch, meter)
        for rows, found in zip(sets, values, strict=True):
            rows.columns.update(found)

    def _ask(self, sets: Sequence[SetRows]) -> list[dict[str, float]]:
        answers = list(dict.fromkeys(answer for question in self.questions for answer in question.answers()))
        images = [picture(rows.rows[0]["image"]) for rows in sets]
        probabilities = self.asker.ask(images, [question.text for question in self.questions], answers)
        return [
            {
                question.column: question.value(dict(zip(answers, map(float, shares), strict=True)))
                for question, shares in zip(self.questions, of_image, strict=True)
            }
            for of_image in probabilities
        ]
