"""Captions that name no gender as queries: whom does each bring up, of everybody? (Smith et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fairgate.builds.steps import WIDER_WORDS, named_gender
from fairgate.models import Capability, SimilarityModel
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import OpenInstrument, Probe, RankingQuery, register
from fairgate.probes.settings import Text


@register
class CaptionRetrievalProbe(Probe):
    """Rank images of everybody by captions that name no gender (Smith et al. 2023, section 5).

    A caption is a query as it stands, without a template. On edited pairs of photographs a ranker without a bias of its
    own shows both groups alike; what it shows by chance is the fair ranker's value, which reports print next to it.
    `fairgate study gensynth` lists a release's neutral captions.
    """

    needs: ClassVar[Capability] = "similarity"
    answers_as: ClassVar[str] = "association"
    value_names: ClassVar[Mapping[str, str]] = {"caption_retrieval": "cosine"}
    compared_as: ClassVar[Literal["classification", "ranking"] | None] = "ranking"

    kind: Literal["caption_retrieval"]
    captions: list[Text] | dict[Text, list[Text]] = Field(
        min_length=1,
        description="Captions that name no gender, or such captions by category; each ranks the images of everybody.",
    )

    @model_validator(mode="after")
    def _neutral(self) -> CaptionRetrievalProbe:
        lists = [self.captions] if isinstance(self.captions, list) else list(self.captions.values())
        if not all(lists):
            raise ValueError("a category has no caption")
        every = [caption for captions in lists for caption in captions]
        if twice := sorted({caption for caption in every if every.count(caption) > 1}):
            raise ValueError(f"captions are given twice: {twice}")
        if gendered := [caption for caption in every if named_gender(caption, WIDER_WORDS) != "none"]:
            raise ValueError(f"'{gendered[0]}' names a gender; write it without, such as 'person' and 'their'")
        return self

    @property
    def ranked_words(self) -> tuple[str, ...]:
        """Every caption."""
        if isinstance(self.captions, list):
            return tuple(self.captions)
        return tuple(caption for captions in self.captions.values() for caption in captions)

    @property
    def word_categories(self) -> Mapping[str, tuple[str, ...]]:
        """Captions by category, where they have any."""
        if isinstance(self.captions, list):
            return {}
        return {name: tuple(captions) for name, captions in self.captions.items()}

    def queries(self, subjects: Sequence[str]) -> list[RankingQuery]:
        """One per caption."""
        return [RankingQuery(caption, (caption,)) for caption in self.ranked_words]

    def run(
        self, name: str, model: SimilarityModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        """Similarity of every image to every caption."""
        columns = zip(self.names(name), model.similarity([[text] for text in self.ranked_words]).T, strict=True)
        return {caption: ProbeScores(np.ascontiguousarray(column)) for caption, column in columns}
