"""Zero-shot classification: which of these labels is it? (Lui et al. 2023, "Fairness Task")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from fairgate.data import Manifest, TextColumn, TextRows, arrow_texts, code_type, on_disk
from fairgate.ground.errors import SuiteError, listed, nearest, suggestion
from fairgate.models import Capability, LabelModel
from fairgate.probes.answers import Contest, ProbeScores, Rows, text_codes
from fairgate.probes.contract import Choice, OpenInstrument, Probe, dataset_has, register
from fairgate.probes.settings import Prose, Text, filled, given_once, in_words, plain, template_of

_AT_ONCE = 1 << 16
"""Images that are classified at once: the processor's cache holds their numbers."""


@register
class ZeroShotProbe(Probe):
    """Classify each image: softmax over the labels at the model's own scale (Lui et al. 2023).

    `labels` is one list, or a list per subject; `truth` is the subject or the name of an attribute; `words` says how a
    subject or a group is written in a prompt where that differs from its name. `positive` is one label that no image
    is right or wrong about (`trustworthy person` of two): its probability is then measured instead of the truth's, an
    implicit association.
    """

    needs: ClassVar[Capability] = "log_probabilities"
    answers_as: ClassVar[str] = "zero_shot_classification"
    views_have_mean: ClassVar[bool] = True
    value_names: ClassVar[Mapping[str, str]] = {
        "zero_shot_classification": "P(true)",
        "implicit_association": "P(positive)",
    }
    compared_as: ClassVar[Literal["classification", "ranking"] | None] = "classification"

    kind: Literal["zero_shot_classification"]
    template: Annotated[Text, template_of("label")] = Field(
        description="A prompt with `{label}` or `{a_label}` (with its article) in it."
    )
    labels: list[Prose] | dict[str, list[Prose]] = Field(
        description="Labels that compete: one list for all images, or a list per subject."
    )
    truth: str = Field(
        default="subject", description="What names an image's true label: `subject`, or an attribute of the dataset."
    )
    positive: Text | None = Field(
        default=None, description="A label whose probability is measured where no label is right or wrong."
    )
    words: dict[str, Text] = Field(
        default_factory=dict,
        description="How a subject or group is written among the labels, where that is not its name.",
    )
    ranks: bool = Field(
        default=False,
        exclude_if=lambda ranks: not ranks,  # a suite without it keeps its digest
        description="Record the place of the true label among all labels by probability, for `accuracy_at_k`.",
    )

    @model_validator(mode="after")
    def _positive(self) -> ZeroShotProbe:
        if self.positive is None:
            return self
        if "truth" in self.model_fields_set or self.words or self.ranks:
            raise ValueError(
                "`positive` takes the place of `truth`, `words` and `ranks`: no image is right or wrong about it"
            )
        for labels in self._lists():
            if self.positive not in labels:
                raise ValueError(f"the positive label '{self.positive}' is not among the labels: {listed(labels)}")
        return self

    @field_validator("labels")
    @classmethod
    def _labels(cls, value: list[str] | dict[str, list[str]]) -> list[str] | dict[str, list[str]]:
        for labels in [value] if isinstance(value, list) else value.values():
            if len(labels) < 2:
                raise ValueError("a classification needs at least two labels")
            for label in labels:
                plain(label)
            given_once("labels", labels)
        return value

    @property
    def digest_kind(self) -> str:
        """Without a right label it is another question."""
        return self.kind if self.positive is None else "implicit_association"

    @property
    def truth_of(self) -> str | None:
        """None where `positive` is measured."""
        return self.truth if self.positive is None else None

    @property
    def positive_label(self) -> str | None:
        return self.positive

    def prompt(self, label: str) -> str:
        return filled(self.template, "label", label)

    def labels_of(self, subject: str) -> list[str]:
        """The labels that compete for an image of a subject."""
        return self.labels if isinstance(self.labels, list) else self.labels[subject]

    def word(self, name: str) -> str:
        return in_words(name, self.words)

    def reworded(self, dataset: Manifest) -> tuple[Collection[str], Sequence[str]]:
        return self.words, dataset.subjects if self.truth == "subject" else dataset.attributes[self.truth]

    def _lists(self) -> list[list[str]]:
        return [self.labels] if isinstance(self.labels, list) else list(self.labels.values())

    def require(self, name: str, dataset: Manifest, at: Callable[[str], str]) -> None:
        """Every image must find its truth among the labels that compete for it."""
        if isinstance(self.labels, dict):
            missing = [subject for subject in dataset.subjects if subject not in self.labels]
            unknown = [subject for subject in self.labels if subject not in dataset.subjects]
            if missing or unknown:
                differing = [f"without labels: {listed(missing)}"] if missing else []
                differing += [f"not in the dataset: {listed(unknown)}"] if unknown else []
                raise SuiteError(
                    f"probe '{name}' has labels for {listed(list(self.labels))}; dataset "
                    f"'{dataset.name}/{dataset.version}' shows {listed(list(dataset.subjects))}.",
                    where=at("labels"),
                    remedy=suggestion(
                        "".join(unknown[:1]),
                        dataset.subjects,
                        f"give one list of labels per subject of the dataset; {'; '.join(differing)}",
                    ),
                )
        if self.positive is not None:
            return
        if self.truth != "subject":
            dataset_has(self.truth, f"probe '{name}' takes as truth", dataset, at("truth"))
        for subject in dataset.subjects:
            truths = [subject] if self.truth == "subject" else list(dataset.attributes[self.truth])
            labels = self.labels_of(subject)
            lost = [self.word(truth) for truth in truths if self.word(truth) not in labels]
            if lost:
                typed = nearest(lost[0], labels)  # the suite's, which may be mistyped: the dataset's name is right
                change = "add the label" if typed is None else f"write '{lost[0]}' instead of '{typed}', or add it"
                raise SuiteError(
                    f"probe '{name}' can never be right for '{subject}': the true label '{lost[0]}' is not among its "
                    f"labels ({listed(labels)}).",
                    where=at("labels"),
                    remedy=f"{change}, or say in `words` how the truth is written",
                )

    def classes(self, dataset: Manifest) -> tuple[str, ...]:
        """All labels, if an attribute is the truth."""
        attribute = self.truth_of not in (None, "subject")
        return tuple(dict.fromkeys(label for labels in self._lists() for label in labels)) if attribute else ()

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        return [
            Choice(subject, {label: self.prompt(label) for label in self.labels_of(subject)}) for subject in subjects
        ]

    def truths(self, rows: Rows) -> TextColumn:
        """The true label, as it is written, or the positive one."""
        if (positive := self.positive) is not None:
            return TextColumn.of(rows.subject).renamed(lambda _: positive)
        return TextColumn.of(rows.subject if self.truth == "subject" else rows.attributes[self.truth]).renamed(
            self.word
        )

    def run(self, name: str, model: LabelModel, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:
        """P(true label) of every image, or P(positive label)."""
        scores = classify(model, rows.subject, self.truths(rows), self.labels_of, self.prompt)
        if self.ranks:
            scores = replace(scores, rank=ranks_of(scores.contests, len(scores.value)))
        return {name: scores if self.positive is None else replace(scores, correct=None)}

    def blind_labels(self, dataset: Manifest | None) -> int:
        """Of labels that are true for some image of several, the fewest."""
        alone = dataset is not None and len(dataset.subjects) == 1
        if self.truth == "subject" and (isinstance(self.labels, dict) or alone):
            return 1
        return min(map(len, self._lists()))

    def utility_check(self, name: str) -> str | None:
        """Accuracy, where all subjects share their labels."""
        shared = self.positive is None and (isinstance(self.labels, list) or self.truth != "subject")
        return f"id: still-useful, probe: {name}, metric: accuracy" if shared else None

    def with_subjects_of(self, other: Probe) -> Probe:
        """With the other's labels of subjects that it lacks, where both have labels by subject."""
        if not (isinstance(other, ZeroShotProbe) and isinstance(self.labels, dict) and isinstance(other.labels, dict)):
            return self
        labels = {subject: self.labels.get(subject, added) for subject, added in other.labels.items()}
        words = {subject: word for subject, word in other.words.items() if subject not in self.labels}
        return self.model_copy(update={"labels": labels, "words": {**words, **self.words}})


def classify(
    scorer: LabelModel,
    subject: TextRows,
    truth: TextRows,
    labels_of: Callable[[str], Sequence[str]],
    prompt: Callable[[str], str],
) -> ProbeScores:
    """P(true label), predicted label and correctness of every image.

    `subject` and `truth` are (images,) strings; `labels_of(subject)` are the labels that compete for its images, and
    `prompt(label)` the text that the model sees. Every true label must be among its subject's labels. A label that is
    no more probable than another is no answer: an image whose best labels tie is not correct.
    """
    value = np.empty(len(subject))
    correct = np.empty(len(subject), dtype=bool)
    names, code_of_row = text_codes(subject)
    labels_by_code = [tuple(labels_of(name)) for name in names.tolist()]
    every = {label: place for place, label in enumerate(dict.fromkeys(chain.from_iterable(labels_by_code)))}
    predicted = np.empty(len(subject), dtype=code_type(len(every)))
    truth = TextColumn.of(truth)
    contests = list[Contest]()
    for labels in dict.fromkeys(labels_by_code):
        answers = scorer.log_probabilities([prompt(label) for label in labels])
        column, place = {label: at for at, label in enumerate(labels)}, np.array([every[label] for label in labels])
        for code in (code for code, own in enumerate(labels_by_code) if own == labels):
            rows = _all_rows(len(subject)) if len(names) == 1 else np.flatnonzero(code_of_row == code).astype(np.int32)
            true = truth.take(rows).places(column).astype(code_type(len(labels)), copy=False)
            if len(rows) == len(subject):
                log_p = answers
            else:
                log_p = answers[rows] if answers.flags.c_contiguous else np.take(answers.T, rows, axis=1).T
            contests.append(Contest(str(names[code]), rows, log_p, true))
            for start in range(0, len(rows), _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                part, own = log_p[some], true[some]
                value[rows[some]] = np.exp(part[np.arange(len(part)), own])
                best = part.argmax(axis=1)
                predicted[rows[some]] = place[best]
                alone = (part == part.max(axis=1, keepdims=True)).sum(axis=1) == 1
                correct[rows[some]] = (place[best] == place[own]) & alone
    return ProbeScores(value, TextColumn(arrow_texts(every), predicted), correct, contests=tuple(contests))


@lru_cache(maxsize=1)
def _all_rows(rows: int) -> NDArray[np.int32]:
    """0..rows-1: one array for all probes."""
    return on_disk(np.arange(rows, dtype=np.int32))


def ranks_of(contests: Sequence[Contest], images: int) -> NDArray[np.int64]:
    """The place of every image's measured label among those that compete for it, (images,): 1 is the most probable, and
    labels that are as probable count as more so. Every image is in one contest."""
    rank = np.zeros(images, dtype=np.int64)
    for contest in contests:
        own = contest.log_p[np.arange(len(contest.true)), contest.true]
        rank[contest.rows] = (contest.log_p >= own[:, None]).sum(axis=1)
    return rank
