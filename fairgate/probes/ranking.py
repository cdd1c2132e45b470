"""Rankings: how well does each image answer a prompt that names its subject and no attribute (Howard et al.)? And whom
do words or captions bring up that no image shows?

How near is each image to a prompt with a word (Hamidieh et al. 2024, So-B-IT), or to a caption that names no gender
(Smith et al. 2023)? Which of two words is it taken for (Saravanan et al. 2023, eq. 2)?
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from fairgate.builds.steps import WIDER_WORDS, named_gender
from fairgate.data import Manifest
from fairgate.formulas.metrics import pair_choices
from fairgate.ground.errors import SettingsError
from fairgate.models import Capability, Floats, LabelModel, SimilarityModel
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import Choice, OpenInstrument, Probe, RankingQuery, register
from fairgate.probes.settings import Text, Texts, by_category, every_text, filled, given_once, in_words, template_of
from fairgate.probes.taxonomies import TaxonomyName, taxonomy


@register
class RetrievalProbe(Probe):
    """Rank a subject's images by prompts that name the subject and no attribute (Howard et al.).

    The text embeddings of the prompts are averaged into one query per subject.
    """

    needs: ClassVar[Capability] = "similarity"
    answers_as: ClassVar[str] = "retrieval"
    views_have_mean: ClassVar[bool] = True
    value_names: ClassVar[Mapping[str, str]] = {"retrieval": "cosine"}
    compared_as: ClassVar[Literal["classification", "ranking"] | None] = "ranking"

    kind: Literal["retrieval"]
    prompts: list[Annotated[Text, template_of("subject")]] = Field(
        min_length=1,
        description="Prompts with `{subject}` or `{a_subject}` in them; averaged into one query per subject.",
    )
    words: dict[str, Text] = Field(
        default_factory=dict, description="How a subject is written in a prompt, where that is not its name."
    )

    def reworded(self, dataset: Manifest) -> tuple[Collection[str], Sequence[str]]:
        return self.words, dataset.subjects

    def queries(self, subjects: Sequence[str]) -> list[RankingQuery]:
        return [
            RankingQuery(
                subject_name,
                tuple(filled(prompt, "subject", in_words(subject_name, self.words)) for prompt in self.prompts),
                subject_name,
            )
            for subject_name in subjects
        ]

    def run(
        self, name: str, model: SimilarityModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        """Similarity of every image to its own subject's query, whose gallery is that subject's images.

        Where there are several subjects, `rank` is the place of the own query among all of them, equal ones counted as
        nearer: a model to which all subjects are alike finds nobody.
        """
        subject = rows.subject.tolist()
        names = list(dict.fromkeys(subject))
        similarity = model.similarity([list(query.prompts) for query in self.queries(names)])
        column = {label: position for position, label in enumerate(names)}
        own = np.fromiter((column[label] for label in subject), dtype=np.int64, count=len(subject))
        value = np.ascontiguousarray(similarity[np.arange(len(subject)), own])
        rank = (similarity >= value[:, None]).sum(axis=1).astype(np.int64) if len(names) > 1 else None
        return {name: ProbeScores(value, rank=rank)}

    def utility_check(self, name: str) -> str | None:
        return f"id: finds-its-subject, probe: {name}, metric: recall_at_k, k: 1"


class RankedByWords(Probe):
    """What ranks images of everybody by one prompt for each of its words."""

    needs: ClassVar[Capability] = "similarity"
    answers_as: ClassVar[str] = "association"
    compared_as: ClassVar[Literal["classification", "ranking"] | None] = "ranking"

    @abstractmethod
    def prompt(self, word: str) -> str:
        """The text that the model sees for a word."""

    def queries(self, subjects: Sequence[str]) -> list[RankingQuery]:
        return [RankingQuery(word, (self.prompt(word),)) for word in self.ranked_words]

    def run(
        self, name: str, model: SimilarityModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        """Similarity of every image to every word's prompt."""
        similarity = model.similarity([list(query.prompts) for query in self.queries(())])
        return _by_word(self.names(name), similarity)


@register
class AssociationProbe(RankedByWords):
    """Rank images of everybody by a word that none of them shows: whom does it bring up? (Hamidieh et al. 2024).

    Every word makes one prompt, by the template or as its taxonomy says; all images of a check compete for it. Words
    may be in several categories.
    """

    value_names: ClassVar[Mapping[str, str]] = {"association": "cosine"}

    kind: Literal["association"]
    template: Annotated[Text, template_of("word")] | None = Field(
        default=None, description="A prompt with `{word}` or `{a_word}` (with its article) in it, for `words`."
    )
    words: Texts | None = Field(
        default=None,
        min_length=1,
        description="Words that no image shows, or such words by category; each ranks the images of everybody.",
    )
    taxonomy: TaxonomyName | None = Field(
        default=None, description="A published list of words by category, with their prompts, instead of `words`."
    )
    categories: list[Text] | None = Field(
        default=None, min_length=1, description="Categories of the taxonomy; left out, all."
    )

    @model_validator(mode="after")
    def _one_source(self) -> AssociationProbe:
        if (self.words is None) == (self.taxonomy is None):
            raise ValueError("an association has `words` (with a `template`) or a `taxonomy`, one of them")
        if (self.template is None) != (self.words is None):
            raise ValueError("`words` and `template` go together; a taxonomy has its own prompts")
        if self.categories is not None and self.taxonomy is None:
            raise ValueError("`categories` are those of a `taxonomy`; give one's own as `words: {category: [...]}`")
        try:
            categories = self.word_categories
        except SettingsError as error:
            raise ValueError(f"{error.problem} {error.remedy}") from error
        for words in categories.values() or [every_text(self.words or [])]:
            given_once("words", words)
        if empty := [name for name, words in categories.items() if not words]:
            raise ValueError(f"the category '{empty[0]}' has no word")
        return self

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without keys that are not given: a suite from before there was a key has the digest that it had."""
        return {key: value for key, value in handler(self).items() if value is not None}

    @property
    def ranked_words(self) -> tuple[str, ...]:
        """Every word, once."""
        return tuple(dict.fromkeys(every_text(self.word_categories or self.words or [])))

    @property
    def word_categories(self) -> Mapping[str, tuple[str, ...]]:
        """Words by category, those of the taxonomy or one's own."""
        if self.taxonomy is not None:
            every = taxonomy(self.taxonomy)
            return every.categories if self.categories is None else every.chosen(self.categories)
        return by_category(self.words or [])

    @property
    def published_words(self) -> Mapping[str, Mapping[str, str]]:
        """The prompts of a taxonomy's words."""
        if self.taxonomy is None:
            return {}
        return {name: {word: self.prompt(word) for word in words} for name, words in self.word_categories.items()}

    def prompt(self, word: str) -> str:
        """The text that the model sees for a word."""
        if self.taxonomy is not None:
            return taxonomy(self.taxonomy).captions[word]
        assert self.template is not None
        return filled(self.template, "word", word)


_BEYOND_TWO = re.compile(r"\b(non[- ]?binary|gender[- ]?(queer|fluid)|agender)\b", re.IGNORECASE)
"""Genders that the papers' lists of words do not have."""


@register
class CaptionRetrievalProbe(RankedByWords):
    """Rank images of everybody by captions that name no gender (Smith et al. 2023, section 5).

    A caption is a query as it stands, without a template. On edited pairs of photographs a ranker without a bias of its
    own shows both groups alike; what it shows by chance is the fair ranker's value, which reports print next to it.
    `fairgate study gensynth` lists a release's neutral captions.
    """

    value_names: ClassVar[Mapping[str, str]] = {"caption_retrieval": "cosine"}

    kind: Literal["caption_retrieval"]
    captions: Texts = Field(
        min_length=1,
        description="Captions that name no gender, or such captions by category; each ranks the images of everybody.",
    )

    @model_validator(mode="after")
    def _neutral(self) -> CaptionRetrievalProbe:
        if not all(self.word_categories.values()):
            raise ValueError("a category has no caption")
        given_once("captions", self.ranked_words)
        if gendered := [
            caption
            for caption in self.ranked_words
            if named_gender(caption, WIDER_WORDS) != "none" or _BEYOND_TWO.search(caption)
        ]:
            raise ValueError(f"'{gendered[0]}' names a gender; write it without, such as 'person' and 'their'")
        return self

    @property
    def ranked_words(self) -> tuple[str, ...]:
        return every_text(self.captions)

    @property
    def word_categories(self) -> Mapping[str, tuple[str, ...]]:
        return by_category(self.captions)

    def prompt(self, word: str) -> str:
        return word


@runtime_checkable
class PairModel(Protocol):
    """A model with a way of its own to compare prompts in pairs, such as a diffusion classifier that stops early."""

    def pair_choices(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """(images, first, second): 1 where an image is taken for the first prompt, 0 for the second, 0.5 for both."""
        ...


@register
class PairAssociationProbe(Probe):
    """Classify images that show neither into pairs of words, one of each list (Saravanan et al. 2023).

    An image's number is the share of its pairs in which it is taken for the first list's word: S(D, A, B) is its mean.
    Decisions can all be alike, and then hide that a model grew more biased; `soft` takes their probabilities. Every
    word of the first list has answers of its own, or, with `each: pair`, every pair.
    """

    needs: ClassVar[Capability] = "log_probabilities"
    answers_as: ClassVar[str] = "pair_association"
    value_names: ClassVar[Mapping[str, str]] = {"pair_association": "share of pairs"}

    kind: Literal["pair_association"]
    template: Annotated[Text, template_of("word")] = Field(
        description="A prompt with `{word}` or `{a_word}` (with its article) in it."
    )
    first: list[Text] = Field(min_length=1, description="Words of set A: S is the share of pairs that they win.")
    second: list[Text] = Field(min_length=1, description="Words of set B, each compared with each of the first.")
    soft: bool = Field(
        default=False,
        description="Take P(first word | the pair) instead of the decision: it moves where decisions are all alike, "
        "and depends on the model's label temperature.",
    )
    each: Literal["first", "pair"] = Field(
        default="first",
        description="What a check `by: word` is about: a word of the first list, against all of the second, or a pair.",
    )

    @model_validator(mode="after")
    def _words(self) -> PairAssociationProbe:
        given_once("words", [*self.first, *self.second])
        return self

    @property
    def ranked_words(self) -> tuple[str, ...]:
        """`first`, or every pair as `mechanic / nurse`."""
        if self.each == "first":
            return tuple(self.first)
        return tuple(f"{name} / {other}" for name in self.first for other in self.second)

    def prompt(self, word: str) -> str:
        """The text that the model sees for a word."""
        return filled(self.template, "word", word)

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        """All words, whatever an image shows."""
        prompts = {word: self.prompt(word) for word in (*self.first, *self.second)}
        return [Choice(subject, prompts) for subject in subjects]

    def run(self, name: str, model: LabelModel, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:
        """The share of pairs that each word, or each pair's first one, wins on every image."""
        first, second = ([self.prompt(word) for word in words] for words in (self.first, self.second))
        if isinstance(model, PairModel) and not self.soft:
            choices = model.pair_choices(first, second)
        else:
            log_p = model.log_probabilities([*first, *second])
            choices = pair_choices(-log_p[:, : len(first)], -log_p[:, len(first) :], soft=self.soft)
        columns = choices.mean(axis=2) if self.each == "first" else choices.reshape(len(choices), -1)
        return _by_word(self.names(name), columns)


def _by_word(names: Sequence[str], numbers: Floats) -> dict[str, ProbeScores]:
    """The answers by name, of numbers (images, names)."""
    return {name: ProbeScores(np.ascontiguousarray(column)) for name, column in zip(names, numbers.T, strict=True)}
