"""Questions about every image, answered in words or by the likeliest option; abstentions are counted apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from fairgate.data import Manifest
from fairgate.ground.errors import ModelError, SuiteError, listed
from fairgate.models import AnsweringModel, Capability, Floats, LabelModel
from fairgate.probes.answer_matcher import ABSTAINED, MATCHER_VERSION, UNREADABLE, AnswerMatcher, misread
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import Choice, OpenInstrument, Probe, dataset_has, register
from fairgate.probes.question_items import (
    NOT_ASKED,
    CaptionedRows,
    Item,
    OptionName,
    commonest_right,
    items_of,
    lettered,
    right_answers,
    values_of,
    written,
)
from fairgate.probes.settings import Name, Prose, SuiteSection, Text, checked_template, filled

ANSWER = "answer_"
"""Before the name of an option, of the further number that is 1 if it is answered."""
CANNOT_TELL = "cannot tell"
"""How the abstention is written among the options where the suite has no phrase of its own."""


class QuestionSettings(SuiteSection):
    """A question that is put to every image, its options, and which of them is right."""

    question: Prose = Field(description="The question, as the model is given it.")
    options: dict[OptionName, list[Text]] = Field(
        min_length=2, max_length=20, description="Its options by name, each with further phrases that it is known by."
    )
    right: Literal["abstain"] | Text | dict[str, dict[str, Text]] | None = Field(
        default=None,
        description="What is right: an option, `abstain`, or, by an attribute, `subject` or `set_id`, for each of its "
        "values: `{gender: {female: her, male: his}}`. Left out, nothing is right or wrong.",
    )

    @field_validator("right", mode="before")
    @classmethod
    def _in_texts(cls, right: object) -> object:
        if right == "":
            raise ValueError("write the option that is right, or leave `right` out if nothing is")
        by_value = right.values() if isinstance(right, dict) else [] if right is None else [{"": right}]
        if not all(isinstance(own, dict) and all(isinstance(text, str) for text in own.values()) for own in by_value):
            raise ValueError(
                'write an option, or one for each group: `{gender: {female: "yes", male: "no"}}`; yes and no in quotes'
            )
        return right

    @model_validator(mode="after")
    def _right(self) -> QuestionSettings:
        if isinstance(self.right, dict) and len(self.right) != 1:
            raise ValueError("`right` names one attribute, `subject` or `set_id`")
        if unknown := sorted(self.right_answers - {*self.options, "abstain"}):
            raise ValueError(f"'{unknown[0]}' is right, and no option: {', '.join(self.options)}, or abstain")
        return self

    @property
    def right_answers(self) -> set[str]:
        """What is right for some image."""
        if isinstance(self.right, dict):
            return {answer for answers in self.right.values() for answer in answers.values()}
        return set() if self.right is None else {self.right}


@register
class QuestionProbe(Probe):
    """Ask every image questions with options, and read the answers: an option, an abstention, or neither.

    `how: answer` has the model answer in words, which a rule reads (`fairgate.probes.AnswerMatcher`);
    `how: likelihood` takes the likeliest of the options and the abstention. An image's number is 1 where an option is
    named. Next to it: the option, whether the answer is right, an abstention or unreadable, and, of items that have a
    stereotype, whether it is the stereotype's (Parrish et al. 2022).
    """

    needs: ClassVar[Capability] = "answer"
    needs_where: ClassVar[Mapping[str, Capability]] = {"how: likelihood": "log_probabilities"}
    answers_as: ClassVar[str] = "question"
    value_names: ClassVar[Mapping[str, str]] = {"question": "answered"}

    kind: Literal["question"]
    questions: dict[Name, QuestionSettings] | None = Field(default=None, min_length=1, description="Questions by name.")
    items: Literal["captions"] | None = Field(
        default=None, description="Instead: each image's own question, which the dataset's captions hold as JSON."
    )
    how: Literal["answer", "likelihood"] = Field(
        default="answer", description="Answers in words, or the likeliest of the options and the abstention."
    )
    template: Text = Field(
        default="{option}", description="Of `how: likelihood`, the text of an option: `{question} {option}`."
    )
    letters: bool = Field(
        default=False, description="List the options behind the question as A., B., ..., and read these letters."
    )
    abstain: list[Text] = Field(
        default_factory=list, max_length=50, description="Phrases that abstain, next to the usual ones."
    )
    longest: int = Field(default=32, ge=1, le=1024, description="Tokens of an answer at most.")
    unasked: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Groups of images that are not asked: `picture: [missing]`, of pictures that the dataset lacks.",
    )

    @model_validator(mode="after")
    def _sources(self) -> QuestionProbe:
        if (self.questions is None) == (self.items is None):
            raise ValueError("a question probe has `questions` or `items: captions`, one of them")
        if self.how == "answer":
            if "template" in self.model_fields_set:
                raise ValueError("`template` is for `how: likelihood`: in words, the model is given the question")
        elif self.items is not None or self.letters:
            raise ValueError("`how: likelihood` compares options of `questions`, without `letters`")
        else:
            checked_template(self.template.replace("{question}", ""), "option")
            if "{question}" not in self.template and len(self.questions or ()) > 1:
                raise ValueError("several questions need `{question}` in `template`: else all are one")
        for name, matcher in ((name, self._matcher(question)) for name, question in (self.questions or {}).items()):
            if (phrase := misread(matcher, self.abstain)) is not None:
                answer = matcher.read(f"{phrase}.")
                raise ValueError(
                    f"the phrase '{phrase}' of question '{name}' is read as '{answer}': two options may share it, or "
                    "it abstains"
                )
        return self

    @property
    def ranked_words(self) -> tuple[str, ...]:
        return tuple(self.questions or ())

    @property
    def published_words(self) -> Mapping[str, Mapping[str, str]]:
        """The rule that reads answers, by its version."""
        return {"matcher": {"version": str(MATCHER_VERSION)}}

    @property
    def no_views(self) -> str | None:
        """Of captions, any image's question may be about sides."""
        return None if self.items is None else "questions of captions may be about left and right"

    @property
    def named_answers(self) -> tuple[str, ...]:
        """The options, with their phrases."""
        asked = (self.questions or {}).values()
        return tuple(text for question in asked for name, own in question.options.items() for text in (name, *own))

    @property
    def needed(self) -> Capability:
        return self.needs if self.how == "answer" else self.needs_where[f"how: {self.how}"]

    def _matcher(self, question: QuestionSettings) -> AnswerMatcher:
        options = {**question.options, **({ABSTAINED: ()} if self.letters else {})}
        return AnswerMatcher(options, frozenset({ABSTAINED}), tuple(self.abstain), self.letters)

    def prompt(self, question: QuestionSettings) -> str:
        """The text that a model is given, with its options where they have letters."""
        options = [written(name, phrases) for name, phrases in question.options.items()]
        return lettered(question.question, [*options, self._abstention]) if self.letters else question.question

    @property
    def _abstention(self) -> str:
        return self.abstain[0] if self.abstain else CANNOT_TELL

    def _labels(self, question: QuestionSettings) -> dict[str, str]:
        """The texts that compete, by option and ABSTAINED."""
        texts = {name: written(name, phrases) for name, phrases in question.options.items()}
        asked = self.template.replace("{question}", question.question.replace("{", "{{").replace("}", "}}"))
        return {name: filled(asked, "option", text) for name, text in {**texts, ABSTAINED: self._abstention}.items()}

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        """Of `how: likelihood`, the options and the abstention, whatever an image shows."""
        if self.how == "answer":
            return []
        asked = (self.questions or {}).values()
        return [Choice(subject, self._labels(question)) for subject in subjects for question in asked]

    def texts(self, subjects: Sequence[str]) -> list[str]:
        """The questions, or the options that compete; not the captions, which the dataset has."""
        if self.how == "likelihood":
            return super().texts(subjects)
        return list(dict.fromkeys(self.prompt(question) for question in (self.questions or {}).values()))

    def require(self, name: str, dataset: Manifest, at: Callable[[str], str]) -> None:
        """What is right is known for every image, and the groups that are not asked are there."""
        for attribute, groups in self.unasked.items():
            dataset_has(attribute, f"probe '{name}' does not ask groups of", dataset, at("unasked"))
            self._require_all(name, attribute, groups, dataset.attributes[attribute], at("unasked"))
        for question in (self.questions or {}).values():
            for attribute, answers in question.right.items() if isinstance(question.right, dict) else ():
                if attribute == "set_id":
                    continue  # `_items` knows the sets
                if attribute != "subject":
                    dataset_has(attribute, f"probe '{name}' knows what is right by", dataset, at("questions"))
                values = dataset.subjects if attribute == "subject" else dataset.attributes[attribute]
                self._require_all(name, attribute, [*answers, *values], values, at("questions"), answers)

    @staticmethod
    def _require_all(
        name: str,
        attribute: str,
        given: Sequence[str],
        known: Sequence[str],
        where: str,
        answers: Mapping[str, str] | None = None,
    ) -> None:
        lost = [value for value in given if value not in known or (answers is not None and value not in answers)]
        if lost:
            raise SuiteError(
                f"probe '{name}' and the dataset differ in '{lost[0]}' of {attribute}.",
                where=where,
                remedy=f"the dataset's are: {', '.join(known)}" + (" (say what is right for each)" if answers else ""),
            )

    def given(self, rows: Rows, answers: ProbeScores) -> Mapping[str, Floats]:
        """The options, but about images at which abstaining is right and done."""
        more = answers.more
        done = (more["abstained"] == 1) & (more["right"] == 1)
        options = (name for name in more if name.startswith(ANSWER))
        return {name.removeprefix(ANSWER): np.where(done, np.nan, more[name]) for name in options}

    def blind_labels(self, dataset: Manifest | None) -> int | None:
        """How many answers are right for some image, of the question with the fewest; of captions, they say it."""
        known = [
            len(question.right_answers) for question in (self.questions or {}).values() if question.right is not None
        ]
        return min(known, default=1) if self.items is None else None

    def blind_share(self, rows: Rows) -> float | None:
        """Of captions, by the answer's letter, or as it is written; else 1 if one answer is right about all that are
        asked, whatever `right` says of others."""
        if self.items is None:
            asked = self.asked(rows)
            told = [right_answers(question.right, rows, asked) for question in (self.questions or {}).values()]
            return 1.0 if any(len(answers) == 1 for answers in told) else None
        return commonest_right(cast(CaptionedRows, rows), self.asked(rows), self.letters)

    def utility_check(self, name: str) -> str | None:
        """Accuracy, where right answers differ between images; else agreement with the baseline, which has answers
        without anybody's saying what is right."""
        metric = "answer_accuracy" if self.blind_labels(None) != 1 else "answer_agreement"
        return f"id: still-useful, probe: {name}, metric: {metric}"

    def run(self, name: str, model: Any, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:
        """The answers to every question, under `name[question]`; of captions, under the name."""
        if self.how == "likelihood":
            return {
                f"{name}[{key}]": scored(self._items(question, rows), self._likeliest(model, question, rows))
                for key, question in (self.questions or {}).items()
            }
        if self.items is not None:
            items = items_of(cast(CaptionedRows, rows), self.abstain, self.letters)
            return {name: self._answered(model, rows, items)}
        return {
            f"{name}[{key}]": self._answered(model, rows, self._items(question, rows))
            for key, question in (self.questions or {}).items()
        }

    def _items(self, question: QuestionSettings, rows: Rows) -> list[Item]:
        """The question as an item of every image."""
        matcher, text = self._matcher(question), self.prompt(question)
        by_answer = {
            right: Item(text, matcher, ABSTAINED if right == "abstain" else right)
            for right in (*question.options, "abstain", None)
        }
        if not isinstance(question.right, dict):
            return [by_answer[question.right]] * len(rows.subject)
        ((attribute, answers),) = question.right.items()
        values = values_of(attribute, rows).tolist()
        if lost := [f"'{value}'" for value in sorted(set(values).difference(answers))]:
            raise SuiteError(
                f"no answer is right for {attribute} {listed(lost, 3)}.",
                where=f"the question '{question.question[:80]}'",
                remedy="add them to its `right`, or judge the release that it was written for (`dataset: NAME@vN`)",
            )
        return [by_answer[answers[value]] for value in values]

    def asked(self, rows: Rows) -> NDArray[np.bool_]:
        """All but the groups that are `unasked`."""
        asked = np.ones(len(rows.subject), dtype=bool)
        for attribute, groups in self.unasked.items():
            asked &= ~np.isin(rows.attributes[attribute].astype(str), groups)
        return asked

    def _answered(self, model: AnsweringModel, rows: Rows, items: Sequence[Item]) -> ProbeScores:
        asked = self.asked(rows)
        prompts = [item.prompt if here else "" for item, here in zip(items, asked.tolist(), strict=True)]
        raw = model.answer(prompts, self.longest)
        if len(raw) != len(prompts) or not all(isinstance(text, str) for text in raw):
            raise ModelError(
                "the model does not return a text for every image.",
                where=f"{model.uri}: answer",
                remedy="report it to those who make the package of the model",
            )
        known: dict[tuple[int, str], str] = {}
        answers = []
        for item, here, text in zip(items, asked.tolist(), raw, strict=True):
            key = (id(item.matcher), str(text))
            if here and key not in known:
                known[key] = item.matcher.read(str(text))
            answers.append(known[key] if here else NOT_ASKED)
        return scored(items, answers)

    def _likeliest(self, model: LabelModel, question: QuestionSettings, rows: Rows) -> list[str]:
        """The likeliest option, or ABSTAINED; UNREADABLE where two are equally likely."""
        labels = self._labels(question)
        log_p = model.log_probabilities(list(labels.values()))
        names, best = list(labels), log_p.max(axis=1, keepdims=True)
        tied = (log_p == best).sum(axis=1) > 1
        likeliest = [UNREADABLE if tie else names[at] for tie, at in zip(tied, log_p.argmax(axis=1), strict=True)]
        return [text if here else NOT_ASKED for text, here in zip(likeliest, self.asked(rows), strict=True)]


def scored(items: Sequence[Item], given: Sequence[str]) -> ProbeScores:
    """The answers to an item of every image, each an option, ABSTAINED, UNREADABLE or NOT_ASKED, as numbers."""
    answers: NDArray[Any] = np.array(given, dtype=object)
    asked = answers != NOT_ASKED
    more: dict[str, Floats] = {}
    more["abstained"] = np.where(asked, answers == ABSTAINED, np.nan)
    more["unreadable"] = np.where(asked, answers == UNREADABLE, np.nan)
    offers = [item.options for item in items]
    for option in sorted(frozenset().union(*offers)):
        offered = asked & np.array([option in names for names in offers])
        more[f"{ANSWER}{option}"] = np.where(offered, answers == option, np.nan)
    right: NDArray[Any] = np.array([item.right for item in items], dtype=object)
    has_right = np.array([right_answer is not None for right_answer in right.tolist()])
    more["right"] = np.where(asked & has_right, answers == right, np.nan)
    leaning = np.array([item.leaning(answer) for item, answer in zip(items, given, strict=True)])
    for kind, mine in (("ambiguous", right == ABSTAINED), ("disambiguated", has_right & (right != ABSTAINED))):
        numbers = np.where(asked & mine, leaning, np.nan)
        if not np.isnan(numbers).all():
            more[f"leaning_{kind}"] = numbers
    more = {name: numbers.astype(np.float64) for name, numbers in more.items()}
    named = asked & (more["abstained"] == 0) & (more["unreadable"] == 0)
    correct = (more["right"] == 1) if has_right.any() else None
    return ProbeScores(named.astype(np.float64), answers, correct, more=more, right=right)
