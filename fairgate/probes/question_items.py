"""One question as it is put to one image: its options, which of them is right, and which a stereotype's.

Such items can be in a dataset's captions, as those of BBQ are each image's own (Parrish et al. 2022).
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from fairgate.data import TextRows
from fairgate.ground.errors import DatasetError
from fairgate.ground.validation_words import fault_words
from fairgate.probes.answer_matcher import ABSTAINED, UNREADABLE, AnswerMatcher, misread
from fairgate.probes.answers import Rows
from fairgate.probes.settings import SuiteSection, Text

NOT_ASKED = "not_asked"
T = TypeVar("T")


def _free(name: str) -> str:
    if name in ("abstain", ABSTAINED, UNREADABLE, NOT_ASKED):
        raise ValueError(f"no option can be called '{name}': whether a model abstained is counted apart")
    return name


OptionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]{0,31}$"), AfterValidator(_free)]


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """`right` is an option, ABSTAINED, or None where nothing is; `stereotype`: the options that a stereotype names."""

    prompt: str
    matcher: AnswerMatcher
    right: str | None = None
    stereotype: frozenset[str] = field(default=frozenset())

    @property
    def options(self) -> frozenset[str]:
        """The options that name something: without those that abstain."""
        return frozenset(self.matcher.options) - self.matcher.abstentions

    def leaning(self, answer: str) -> float:
        """1 for a stereotype's option, -1 for another one, 0 for none; NaN where the stereotype divides no options."""
        if not self.stereotype or self.stereotype >= self.options:
            return float("nan")
        return float(answer in self.stereotype) - float(answer in self.options - self.stereotype)


class CaptionItem(SuiteSection):
    """The JSON of a caption. `abstain` names the option that says that the question cannot be answered."""

    question: Annotated[str, StringConstraints(min_length=1, max_length=8_000)]
    options: dict[OptionName, list[Annotated[Text, StringConstraints(max_length=500)]]] = Field(
        min_length=2, max_length=20
    )
    abstain: str | None = None
    right: str | None = None
    stereotype: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names(self) -> CaptionItem:
        named = [*self.stereotype, *(option for option in (self.abstain, self.right) if option is not None)]
        if unknown := [option for option in named if option not in self.options]:
            raise ValueError(f"'{unknown[0]}' is no option: {', '.join(self.options)}")
        if self.abstain in self.stereotype:
            raise ValueError("a stereotype names the option that abstains")
        return self


class CaptionedRows(Rows, Protocol):
    """The dataset's columns with its captions; `fairgate.data.Dataset.index` is one."""

    @property
    def caption(self) -> TextRows: ...


def lettered(question: str, options: Sequence[str]) -> str:
    """A question with its options behind it, as A., B., ..."""
    listed = zip(string.ascii_uppercase, options, strict=False)
    return "\n".join([question, *(f"{letter}. {option}" for letter, option in listed)])


def written(name: str, phrases: Sequence[str]) -> str:
    """How an option is written: as its first phrase, else as its name."""
    return phrases[0] if phrases else name.replace("_", " ")


def values_of(attribute: str, rows: Rows) -> TextRows:
    """An attribute, `subject` or `set_id` of every image, (images,)."""
    own = {"subject": rows.subject, "set_id": rows.set_id}
    return own[attribute] if attribute in own else rows.attributes[attribute]


def right_answers(
    right: str | dict[str, dict[str, str]] | None, rows: Rows, asked: NDArray[np.bool_]
) -> set[str | None]:
    """What a question's `right` says of the images `asked`, (images,): None of those that it does not know."""
    if not isinstance(right, dict):
        return set() if right is None else {right}
    ((attribute, answers),) = right.items()
    return {answers.get(value) for value in set(values_of(attribute, rows)[asked].tolist())}


def items_of(rows: CaptionedRows, abstain: Sequence[str], letters: bool) -> list[Item]:
    """The items in the captions of all images. Raises DatasetError for a caption that is none."""
    return _read(rows, lambda caption: _item(caption, tuple(abstain), letters))


def commonest_right(rows: CaptionedRows, asked: NDArray[np.bool_], letters: bool) -> float | None:
    """Of the images `asked` (images,) whose captions have a right answer, the share that the commonest one is right
    about: an abstention, or an option by its letter, or as it is written. None where no caption has one."""

    def answer(caption: CaptionItem) -> str | None:
        if caption.right is None:
            return None
        if caption.right == caption.abstain:
            return ABSTAINED
        return (
            str(list(caption.options).index(caption.right))
            if letters
            else written(caption.right, caption.options[caption.right])
        )

    answers = [
        right for right, here in zip(_read(rows, answer), asked.tolist(), strict=True) if here and right is not None
    ]
    return max(Counter(answers).values()) / len(answers) if answers else None


def _read(rows: CaptionedRows, make: Callable[[CaptionItem], T]) -> list[T]:
    """Something that is made of every image's caption. Raises DatasetError for a caption that is no item."""
    known: dict[str, T] = {}
    for row, caption in enumerate(rows.caption.tolist()):
        if caption in known:
            continue
        try:
            known[caption] = make(CaptionItem.model_validate_json(caption))
        except ValueError as error:
            first = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else None
            problem = str(error) if first is None else f"{'.'.join(map(str, first['loc']))}: {fault_words(first)}"
            raise DatasetError(
                f"the caption is no question with options ({problem}).",
                where=f"set '{rows.set_id[row]}', member '{rows.member[row]}'",
                remedy='write JSON: {"question": "Who?", "options": {"doctor": [], "nurse": []}, "right": "nurse"}',
            ) from error
    return [known[caption] for caption in rows.caption.tolist()]


def _item(caption: CaptionItem, abstain: tuple[str, ...], letters: bool) -> Item:
    given_up = frozenset() if caption.abstain is None else frozenset({caption.abstain})
    matcher = AnswerMatcher(caption.options, given_up, abstain, letters)
    if (phrase := misread(matcher)) is not None:
        raise ValueError(f"the phrase '{phrase}' is read as '{matcher.read(phrase + '.')}'")
    shown = [written(name, phrases) for name, phrases in caption.options.items()]
    prompt = lettered(caption.question, shown) if letters else caption.question
    right = ABSTAINED if caption.right is not None and caption.right == caption.abstain else caption.right
    return Item(prompt, matcher, right, frozenset(caption.stereotype))
