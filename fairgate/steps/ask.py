"""Asking about pictures: visual questions, their answers as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fairgate.generation import VQAModel
from fairgate.steps.batches import Batches
from fairgate.steps.contract import Meter, SetRows
from fairgate.steps.pictures import picture
from fairgate.steps.spending import spending


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what is noted of it.

    `column` takes the probability of `answer` among all of the model's answers or, where `against` names another
    one, its share of the two (0 where the model gives neither any).
    """

    column: str
    text: str
    answer: str
    against: str | None = None

    def answers(self) -> list[str]:
        """The answers whose probability is needed."""
        return [self.answer] if self.against is None else [self.answer, self.against]

    def value(self, found: dict[str, float]) -> float:
        """The column's value, 0 to 1, from the probability of each answer."""
        whole = 1.0 if self.against is None else found[self.answer] + found[self.against]
        return found[self.answer] / whole if whole > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """Puts several questions about the picture of each set, all in one batch: a picture is prepared once.

    `batch` counts pictures. Each question's column is a number of the set, so that sets can be ranked by it.
    """

    asker: VQAModel
    questions: tuple[Question, ...]
    batch: int = 8
    _batches: Batches = field(default_factory=Batches, init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("image",)
    writes: ClassVar[tuple[str, ...]] = ()

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Fill every question's column."""
        with spending(self.asker, meter):
            asked = self._batches(self._ask, sets, self.batch, meter)
        for rows, found in zip(sets, asked, strict=True):
            rows.columns.update(found)

    def _ask(self, sets: Sequence[SetRows]) -> list[dict[str, float]]:
        answers = list(dict.fromkeys(answer for question in self.questions for answer in question.answers()))
        images = [picture(rows.rows[0]["image"]) for rows in sets]
        asked = self.asker.ask(images, [question.text for question in self.questions], answers)
        return [
            {
                question.column: question.value(dict(zip(answers, map(float, shares), strict=True)))
                for question, shares in zip(self.questions, about, strict=True)
            }
            for about in asked
        ]
