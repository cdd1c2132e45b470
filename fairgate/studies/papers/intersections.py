"""Intersectional skew of searches, as in Howard et al. 2023: MaxSkew@K over subjects for each pair of attributes, the
skew of one attribute within each group of the other, and whom a search shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, takewhile
from typing import ClassVar

import numpy as np
from pydantic import Field

from fairgate.data import Dataset
from fairgate.ground.errors import DatasetError, SettingsError, did_you_mean
from fairgate.metrics import Crossing
from fairgate.probes import filled, with_article
from fairgate.records import FigureSeries, StudyCell, StudyFigure, StudyModel, StudyTable
from fairgate.studies.papers.attribute_pairs import ALPHA, SEED, AttributePair
from fairgate.studies.papers.contract import Models, Study, StudyContents, StudyPlace, register, required_template

MOST = 32
"""Different neutral captions of a subject that are averaged: templates make a few, free text one per set."""
NOUN = "person"
"""What a caption is of that names nobody but by groups: "a friendly Muslim female", of the subject friendly."""


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
    k: int | None = Field(None, ge=1, description="Where to cut; default: a place per crossed group.")
    show: tuple[str, ...] = Field((), description="Subject of which to show shares; repeat. Default: the most skewed.")
    draws: int = Field(1000, ge=100, description="Resamples of the sets.")

    def run(self, place: StudyPlace) -> StudyContents:
        """Every model's searches of every release, over each pair of its attributes.

        Raises SettingsError, DatasetError or ModelError for what cannot be opened, searched or crossed.
        """
        data = [place.release(name) for name in self.data]
        pairs: list[AttributePair] = []
        models: dict[str, StudyModel] = {}
        for release in data:
            queries, answers = self._queries(release), {}
            place_of = {subject: at for at, subject in enumerate(queries)}
            own = np.array([place_of[str(subject)] for subject in release.index.subject])
            for name, uri in self.model.items():
                scorer = place.opened(name, uri, release, "similarity")
                similarity = scorer.similarity(list(queries.values()))
                models[name] = StudyModel(name=name, uri=uri, fingerprint=scorer.fingerprint)
                answers[name] = similarity[np.arange(len(own)), own]  # each image's with its own subject's query
            pairs += [AttributePair(release, pair, answers, self.k, self.draws) for pair in _pairs(release)]
        tables, figures = [_releases(pairs)], []
        for pair in pairs:
            shown = self._shown(pair)
            tables += [pair.distribution(), pair.by_subject(), *pair.within_tables(), *pair.share_tables(shown)]
            figures += [*pair.within_figures(), *pair.share_figures(shown)]
        return StudyContents(
            models=list(models.values()),
            datasets=data,
            settings={
                "queries": list(self.prompt) or f"the release's captions without groups (noun: {NOUN})",
                "k": "one place per crossed group" if self.k is None else self.k,
                "draws": self.draws,
                "seed": SEED,
            },
            tables=tables,
            figures=[*_boxes(pairs), *figures],
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
            return neutral_captions(data)
        prompts = [required_template(prompt, "subject", "--prompt") for prompt in self.prompt]
        words = {subject: subject.replace("_", " ") for subject in data.manifest.subjects}
        return {subject: [filled(prompt, "subject", word) for prompt in prompts] for subject, word in words.items()}

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


def _boxes(pairs: Sequence[AttributePair]) -> Iterator[StudyFigure]:
    """Figures 2 (left) and 5: a box per model and pair, over subjects."""
    models = list(dict.fromkeys(model for pair in pairs for model in pair.answers))
    series = []
    for model in models:
        at = [(pair.title, of[model].value) for pair in pairs for of in pair.skews.values()]
        series.append(FigureSeries(name=model, x=[title for title, _ in at], y=[value for _, value in at]))
    ks = "/".join(dict.fromkeys(str(pair.k) for pair in pairs))
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


def _releases(pairs: Sequence[AttributePair]) -> StudyTable:
    """The counterpart of table 5: what was searched."""
    rows: list[list[StudyCell]] = []
    for pair in pairs:
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


def _pairs(data: Dataset) -> list[Crossing]:
    """The pairs of attributes of which every subject shows every crossing."""
    index = data.index
    crossed: list[Crossing] = []
    for pair in combinations(data.manifest.attributes, 2):
        codes, names = index.codes(pair)
        shown = {(str(subject), int(code)) for subject, code in zip(index.subject, codes, strict=True)}
        if len(shown) == len(data.manifest.subjects) * len(names):
            crossed.append(pair)
    if not crossed:
        raise DatasetError(
            "no two attributes of the release are crossed in every subject.",
            where=data.manifest.ref,
            remedy="take one whose sets hold each combination of two attributes, as `social_counterfactuals` makes",
        )
    return crossed


def neutral_caption(captions: Sequence[str]) -> str:
    """What the captions of a set's members have in common, before and after the words for groups.

    >>> neutral_caption(["A photo of an Indian male pilot", "A photo of a Middle Eastern male pilot"])
    'A photo of a male pilot'
    >>> neutral_caption(["A photo of a White male nurse", "A photo of an Asian female nurse"])
    'A photo of a nurse'
    >>> neutral_caption(["a photo of a light-skinned male chef", "a photo of a dark-skinned female chef"])
    'a photo of a chef'
    >>> neutral_caption(["a friendly Muslim female", "a friendly Hindu male"])
    'a friendly person'
    """
    words = [caption.split() for caption in dict.fromkeys(captions)]
    if len(words) == 1:
        return " ".join(words[0])
    before = _in_common([[_ARTICLE if word in ("a", "an") else word for word in caption] for caption in words])
    after = _in_common([caption_words[::-1] for caption_words in words])[::-1]
    room = min(map(len, words)) - len(before)
    after = after[-room:] if 0 < room < len(after) else after if room > 0 else []
    named = " ".join(after or [NOUN])
    if before and before[-1] == _ARTICLE:  # which article it is depends on the word that follows
        return " ".join([*words[0][: len(before) - 1], with_article(named)])
    return " ".join([*words[0][: len(before)], named])


_ARTICLE = "\0"
"""Both articles, as one word."""


def _in_common(words: Sequence[Sequence[str]]) -> list[str]:
    """The words that all begin with."""
    same = takewhile(lambda at: len(set(at)) == 1, zip(*words, strict=False))
    return [at[0] for at in same]


def neutral_captions(data: Dataset) -> Mapping[str, list[str]]:
    """By subject, the different neutral captions of its sets. DatasetError where a subject has none, or too many."""
    index = data.index
    order = np.argsort(index.set_id, kind="stable")
    starts = np.flatnonzero(np.r_[True, index.set_id[order][1:] != index.set_id[order][:-1]])
    by_subject: dict[str, dict[str, None]] = {subject: {} for subject in data.manifest.subjects}
    for rows in np.split(order, starts[1:]):
        caption = neutral_caption([str(index.caption[row]) for row in rows])
        if caption:
            by_subject[str(index.subject[rows[0]])][caption] = None
    for subject, captions in by_subject.items():
        if not 1 <= len(captions) <= MOST:
            raise DatasetError(
                f"the captions of '{subject}' are {len(captions)} different ones without their words for groups, "
                f"where 1 to {MOST} are averaged.",
                where=data.manifest.ref,
                remedy="name the queries: --prompt 'a photo of {a_subject}', once for each",
            )
    return {subject: list(captions) for subject, captions in by_subject.items()}
