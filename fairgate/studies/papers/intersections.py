"""Intersectional skew of searches, as in Howard et al. 2023: MaxSkew@K over subjects for each pair of attributes, the
skew of one attribute within each group of the other, and whom a search shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import ClassVar

import numpy as np
from pydantic import Field

from fairgate.data import Dataset
from fairgate.ground.errors import DatasetError, SettingsError, did_you_mean
from fairgate.metrics import Crossing, Floats
from fairgate.records import FigureSeries, StudyCell, StudyFigure, StudyModel, StudyTable
from fairgate.studies.papers.attribute_pairs import ALPHA, SEED, AttributePair
from fairgate.studies.papers.contract import Models, Study, StudyContents, StudyPlace, prompt_of, register
from fairgate.studies.papers.neutral_captions import NOUN, neutral_captions


@register
class IntersectionsStudy(Study):
    """MaxSkew@K of neutral searches over pairs of attributes (Howard et al. 2023: figures 2, 3 and 5)."""

    name: ClassVar[str] = "intersections"
    title: ClassVar[str] = "Intersectional skew of searches"
    paper: ClassVar[str] = (
        "Howard et al., Probing Intersectional Biases in Vision-Language Models with Counterfactual Examples, 2023"
    )

    model: Models = Field(description="A model, URI or NAME=URI; repeat for each.")
    data: tuple[str, ...] = Field(description="Release, NAME or NAME@VERSION; repeat for further pairs.")
    prompt: tuple[str, ...] = Field(
        (),
        description="Query with {subject} or {a_subject}; repeat. Default: the release's captions, no groups.",
    )
    noun: str = Field(NOUN, description="Of whom captions are that name nobody but by groups.")
    k: int | None = Field(None, ge=1, description="Where to cut; default: a place per crossed group.")
    show: tuple[str, ...] = Field((), description="Subject of which to show shares; repeat. Default: the most skewed.")
    draws: int = Field(1000, ge=100, description="Resamples of the sets.")

    def run(self, place: StudyPlace) -> StudyContents:
        """Every model's searches of every release, over each pair of its attributes.

        Raises SettingsError, DatasetError or ModelError for what cannot be opened, searched or crossed.
        """
        data = [place.release(name) for name in self.data]
        found: list[AttributePair] = []
        known: dict[str, StudyModel] = {}
        for release in data:
            queries = self._queries(release)
            answers = {}
            for name, uri in self.model.items():
                scorer = place.opened(name, uri, release, "similarity")
                similarity = scorer.similarity(list(queries.values()))
                known[name] = StudyModel(name=name, uri=uri, fingerprint=scorer.fingerprint)
                answers[name] = _own(release, similarity, list(queries))
            found += [AttributePair(release, pair, answers, self.k, self.draws) for pair in _pairs(release)]
        tables, figures = [_releases(found)], []
        for pair in found:
            shown = self._shown(pair)
            tables += [pair.distribution(), pair.by_subject(), *pair.within_tables(), *pair.share_tables(shown)]
            figures += [*pair.within_figures(), *pair.share_figures(shown)]
        return StudyContents(
            models=list(known.values()),
            datasets=data,
            settings={
                "queries": list(self.prompt) or f"the release's captions without groups (noun: {self.noun})",
                "k": "one place per crossed group" if self.k is None else self.k,
                "draws": self.draws,
                "seed": SEED,
            },
            tables=tables,
            figures=[*_boxes(found), *figures],
            notes=[
                "MaxSkew@K of a finite K lies above 0 for a perfectly fair ranker too: its median and 95% point are "
                "in every table of MaxSkew.",
                "Text embeddings are scaled to length 1 before they are averaged and after; the authors' code averages "
                "them as they are.",
                f"Intervals are {1 - ALPHA:.0%} bootstraps of counterfactual sets within each subject.",
            ],
        )

    def _queries(self, data: Dataset) -> Mapping[str, list[str]]:
        if not self.prompt:
            return neutral_captions(data, self.noun)
        if bad := next((prompt for prompt in self.prompt if not re.search(r"\{(a_)?subject\}", prompt)), None):
            raise SettingsError(
                f"the prompt '{bad}' names no subject.",
                where="--prompt",
                remedy="put {subject} or {a_subject} in it: 'a photo of {a_subject}'",
            )
        words = {subject: subject.replace("_", " ") for subject in data.manifest.subjects}
        return {
            subject: [prompt_of(prompt, "subject", word) for prompt in self.prompt] for subject, word in words.items()
        }

    def _shown(self, pair: AttributePair) -> list[str]:
        subjects = list(pair.data.manifest.subjects)
        for subject in self.show:
            if subject not in subjects:
                raise SettingsError(
                    f"release '{pair.data.manifest.ref}' has no subject '{subject}'.",
                    where="--show",
                    remedy=did_you_mean(subject, subjects) or f"subjects: {', '.join(subjects)}",
                )
        first = next(iter(pair.answers))
        return list(self.show) or [max(subjects, key=lambda subject: pair.skews[subject][first].value or 0.0)]


def _boxes(found: Sequence[AttributePair]) -> Iterator[StudyFigure]:
    """Figures 2 (left) and 5: a box per model and pair, over subjects."""
    models = list(dict.fromkeys(model for pair in found for model in pair.answers))
    series = []
    for model in models:
        at = [(pair.title, of[model].value) for pair in found for of in pair.skews.values()]
        series.append(FigureSeries(name=model, x=[title for title, _ in at], y=[value for _, value in at]))
    ks = "/".join(dict.fromkeys(str(pair.k) for pair in found))
    yield StudyFigure(
        name="max-skew-figure",
        title="MaxSkew@K over subjects, by pair of attributes",
        source="figures 2 (left) and 5",
        kind="boxes",
        x_label="release and pair of attributes",
        y_label=f"MaxSkew@{ks} (nats)",
        series=series,
        note="Box: quartiles and median over subjects; whiskers: the least and the most; points: subjects.",
    )


def _releases(found: Sequence[AttributePair]) -> StudyTable:
    """The counterpart of table 5: what was searched."""
    rows: list[list[StudyCell]] = []
    for pair in found:
        manifest, index = pair.data.manifest, pair.data.index
        sizes = np.unique(index.set_id, return_counts=True)[1]
        several = str(sizes[0]) if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
        rows.append([pair.title, len(manifest.subjects), manifest.n_sets, several, len(index)])
    return StudyTable(
        name="releases",
        title="What was searched",
        source="table 5",
        columns=["release and pair", "subjects", "sets", "images per set", "images"],
        rows=rows,
    )


def _own(data: Dataset, similarity: Floats, subjects: list[str]) -> Floats:
    """Each image's similarity to its own subject's query, (images,)."""
    place = {subject: at for at, subject in enumerate(subjects)}
    column = np.array([place[str(subject)] for subject in data.index.subject])
    own: Floats = similarity[np.arange(len(column)), column]
    return own


def _pairs(data: Dataset) -> list[Crossing]:
    """The pairs of attributes of which every subject shows every crossing."""
    index = data.index
    found: list[Crossing] = []
    for pair in combinations(data.manifest.attributes, 2):
        codes, names = index.codes(pair)
        shown = {(str(subject), int(code)) for subject, code in zip(index.subject, codes, strict=True)}
        if len(shown) == len(data.manifest.subjects) * len(names):
            found.append(pair)
    if not found:
        raise DatasetError(
            "no two attributes of the release are crossed in every subject.",
            where=data.manifest.ref,
            remedy="take one whose sets hold each combination of two attributes, as `social_counterfactuals` makes",
        )
    return found
