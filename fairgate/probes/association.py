"""Association: how near is each image to a prompt that says a word of anybody? (Hamidieh et al. 2024, So-B-IT)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from fairgate.models import Capability, SimilarityModel
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import Probe, RankingQuery, register
from fairgate.probes.settings import Text, checked_template, filled


@register
class AssociationProbe(Probe):
    """Rank images of everybody by a word that none of them shows: whom does it bring up? (Hamidieh et al. 2024).

    Every word makes one prompt by the template; all images of a check compete for it.
    """

    needs: ClassVar[Capability] = "similarity"
    answers_as: ClassVar[str] = "association"
    value_names: ClassVar[Mapping[str, str]] = {"association": "cosine"}
    compared_as: ClassVar[Literal["classification", "ranking"] | None] = "ranking"

    kind: Literal["association"]
    template: Text = Field(description="A prompt with `{word}` or `{a_word}` (with its article) in it.")
    words: list[Text] = Field(
        min_length=1, description="Words that no image shows; each ranks the images of everybody."
    )

    @field_validator("template")
    @classmethod
    def _template(cls, value: str) -> str:
        return checked_template(value, "word")

    @field_validator("words")
    @classmethod
    def _words(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError(f"words are given twice: {sorted({x for x in value if value.count(x) > 1})}")
        return value

    @property
    def ranked_words(self) -> tuple[str, ...]:
        """`words`."""
        return tuple(self.words)

    def queries(self, subjects: Sequence[str]) -> list[RankingQuery]:
        """One per word."""
        return [RankingQuery(word, (filled(self.template, "word", word),)) for word in self.words]

    def run(self, name: str, model: SimilarityModel, rows: Rows) -> dict[str, ProbeScores]:
        """Similarity of every image to every word's prompt."""
        similarity = model.similarity([list(query.prompts) for query in self.queries(())])
        columns = zip(self.names(name), similarity.T, strict=True)
        return {word: ProbeScores(np.ascontiguousarray(column)) for word, column in columns}
