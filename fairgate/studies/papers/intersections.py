"""Intersectional skew of searches, as in Howard et al. 2023: MaxSkew@K over subjects for each pair of attributes, the
skew of one attribute within each group of the other, and whom a search shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import cast

import numpy as np

from fairgate.data import Dataset, open_dataset
from fairgate.ground.errors import DatasetError, SettingsError, did_you_mean
from fairgate.metrics import Crossing, Floats
from fairgate.models import EmbeddingCache, SimilarityModel, open_scorer, require_capability
from fairgate.probes import with_article
from fairgate.records import FigureSeries, StudyCell, StudyFigure, StudyModel, StudyTable
from fairgate.studies.papers.attribute_pairs import ALPHA, AttributePair, IntersectionOptions
from fairgate.studies.papers.contents import StudyContents
from fairgate.studies.papers.neutral_captions import neutral_captions

PAPER = "Howard et al., Probing Intersectional Biases in Vision-Language Models with Counterfactual Examples, 2023"


def intersections_study(
    models: Mapping[str, str],
    releases: Sequence[str],
    settings: IntersectionOptions,
    *,
    device: str = "auto",
    cache: EmbeddingCache | None = None,
    root: Path = Path(),
) -> StudyContents:
    """Every model's searches of every release, over each pair of its attributes.

    Raises SettingsError, DatasetError or ModelError for what cannot be opened, searched or crossed.
    """
    data = [open_dataset(name, root / "datasets") for name in releases]
    found: list[AttributePair] = []
    known: dict[str, StudyModel] = {}
    for one in data:
        one.require_intact()
        queries = _queries(one, settings)
        answers = {}
        for name, uri in models.items():
            scorer = open_scorer(uri, one, device=device, cache=cache, base=root)
            require_capability(scorer, "similarity", f"fairgate study intersections --model {uri}")
            similarity = cast(SimilarityModel, scorer).similarity(list(queries.values()))
            known[name] = StudyModel(name=name, uri=uri, fingerprint=scorer.fingerprint)
            answers[name] = _own(one, similarity, list(queries))
        found += [AttributePair(one, pair, answers, settings) for pair in _pairs(one)]
    tables, figures = [_releases(found)], []
    for pair in found:
        shown = _shown(pair, settings)
        tables += [pair.distribution(), pair.by_subject(), *pair.within_tables(), *pair.share_tables(shown)]
        figures += [*pair.within_figures(), *pair.share_figures(shown)]
    return StudyContents(
        title="Intersectional skew of searches",
        paper=PAPER,
        models=list(known.values()),
        datasets=data,
        settings={
            "queries": list(settings.prompts) or f"the release's captions without groups (noun: {settings.noun})",
            "k": "one place per crossed group" if settings.k is None else settings.k,
            "draws": settings.draws,
            "seed": settings.seed,
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


def _queries(data: Dataset, settings: IntersectionOptions) -> Mapping[str, list[str]]:
    if not settings.prompts:
        return neutral_captions(data, settings.noun)
    if bad := next((one for one in settings.prompts if not re.search(r"\{(a_)?subject\}", one)), None):
        raise SettingsError(
            f"the prompt '{bad}' names no subject.",
            where="--prompt",
            remedy="put {subject} or {a_subject} in it: 'a photo of {a_subject}'",
        )
    said = {one: one.replace("_", " ") for one in data.manifest.subjects}
    return {
        one: [p.replace("{a_subject}", with_article(word)).replace("{subject}", word) for p in settings.prompts]
        for one, word in said.items()
    }


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


def _shown(pair: AttributePair, settings: IntersectionOptions) -> list[str]:
    subjects = list(pair.data.manifest.subjects)
    for one in settings.shown:
        if one not in subjects:
            raise SettingsError(
                f"release '{pair.data.manifest.ref}' has no subject '{one}'.",
                where="--show",
                remedy=did_you_mean(one, subjects) or f"subjects: {', '.join(subjects)}",
            )
    first = next(iter(pair.answers))
    return list(settings.shown) or [max(subjects, key=lambda one: pair.skews[one][first].value or 0.0)]
