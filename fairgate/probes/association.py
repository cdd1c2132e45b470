"""Association: how near is each image to a prompt that says a word of anybody? (Hamidieh et al. 2024, So-B-IT)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from fairgate.ground.errors import SettingsError
from fairgate.models import Capability, SimilarityModel
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import OpenInstrument, Probe, RankingQuery, register
from fairgate.probes.settings import Text, checked_template, filled
from fairgate.probes.taxonomies import TaxonomyName, taxonomy


@register
class AssociationProbe(Probe):
    """Rank images of everybody by a word that none of them shows: whom does it bring up? (Hamidieh et al. 2024).

    Every word makes one prompt, by the template or as its taxonomy says; all images of a check compete for it. Words
    may be in several categories.
    """

    needs: ClassVar[Capability] = "similarity"
    answers_as: ClassVar[str] = "association"
    value_names: ClassVar[Mapping[str, str]] = {"association": "cosine"}
    compared_as: ClassVar[Literal["classification", "ranking"] | None] = "ranking"

    kind: Literal["association"]
    template: Text | None = Field(
        default=None, description="A prompt with `{word}` or `{a_word}` (with its article) in it, for `words`."
    )
    words: list[Text] | dict[Text, list[Text]] | None = Field(
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

    @field_validator("template")
    @classmethod
    def _template(cls, value: str | None) -> str | None:
        return None if value is None else checked_template(value, "word")

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
        lists: Iterable[Sequence[str]] = [self.words] if isinstance(self.words, list) else categories.values()
        for words in lists:
            if len(set(words)) < len(words):
                raise ValueError(f"words are given twice: {sorted({x for x in words if words.count(x) > 1})}")
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
        if isinstance(self.words, list):
            return tuple(self.words)
        return tuple(dict.fromkeys(word for words in self.word_categories.values() for word in words))

    @property
    def word_categories(self) -> Mapping[str, tuple[str, ...]]:
        """Words by category, those of the taxonomy or one's own."""
        if self.taxonomy is not None:
            every = taxonomy(self.taxonomy)
            return every.categories if self.categories is None else every.chosen(self.categories)
        return {name: tuple(words) for name, words in self.words.items()} if isinstance(self.words, dict) else {}

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

    def queries(self, subjects: Sequence[str]) -> list[RankingQuery]:
        """One per word."""
        return [RankingQuery(word, (self.prompt(word),)) for word in self.ranked_words]

    def run(
        self, name: str, model: SimilarityModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        """Similarity of every image to every word's prompt."""
        similarity = model.similarity([list(query.prompts) for query in self.queries(())])
        columns = zip(self.names(name), similarity.T, strict=True)
        return {word: ProbeScores(np.ascontiguousarray(column)) for word, column in columns}
