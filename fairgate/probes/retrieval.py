"""Retrieval: how well does each image answer a prompt that names its subject and no attribute? (Howard et al.)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fairgate.models import Capability, SimilarityModel
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import DatasetFacts, OpenInstrument, Probe, RankingQuery, register
from fairgate.probes.settings import Text, filled, in_words, template_of


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

    def reworded(self, dataset: DatasetFacts) -> tuple[Collection[str], Sequence[str]]:
        """By subject."""
        return self.words, dataset.subjects

    def queries(self, subjects: Sequence[str]) -> list[RankingQuery]:
        """One per subject."""
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
        """Recall."""
        return f"id: finds-its-subject, probe: {name}, metric: recall_at_k, k: 1"
