"""The data of the study `gensynth`, and what neutral captions bring up on them: by models, and by rankers that have no
bias of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fairgate.data import Dataset
from fairgate.ground.errors import DatasetError
from fairgate.ground.randomness import stream
from fairgate.models import SimilarityModel
from fairgate.records import Estimate, StudyCell, StudyFigure, StudyTable
from fairgate.studies.papers.caption_context import balanced
from fairgate.studies.papers.caption_search import (
    BIAS_AT,
    SKEW_AT,
    CaptionGallery,
    Matrix,
    Rank,
    Shown,
    by_chance,
    by_model,
    by_words,
    shown,
)
from fairgate.studies.papers.captioned import Captioned, Rows
from fairgate.studies.papers.contract import StudyPlace, mean_estimate, series_of

BALANCED_DRAWS = 5
"""Balanced parts of the originals, as published."""
RANDOM, WORDS = "random", "TF-IDF"
CONTROLS = (RANDOM, WORDS)
COMPARED = ("matched", "matched, balanced", "GenSynth")
"""Data on which the paper compares models: its COCO_g, COCO_g balanced, and GenSynth."""
BIASES, SKEWS = [f"Bias@{k}" for k in BIAS_AT], [f"MaxSkew@{k}" for k in SKEW_AT]


@dataclass(frozen=True)
class GenSynthInputs:
    """What the study takes: releases, models by name, and how they are opened.

    `gallery` holds the distractors of R@K, `utility` labelled pictures for zero-shot accuracy; `prompts` name the two
    groups.
    """

    original: Captioned
    genswap: Captioned
    gensynth: Captioned
    unfiltered: Captioned | None
    gallery: Captioned
    utility: Dataset | None
    models: Mapping[str, str]
    prompts: tuple[str, str]
    seed: int
    place: StudyPlace
    _opened: dict[tuple[str, str], SimilarityModel] = field(default_factory=dict)

    def close(self, name: str, source: Any) -> None:
        """Drop a model's embeddings of these pictures."""
        self._opened.pop((name, source.fingerprint), None)

    @cached_property
    def edited(self) -> list[Captioned]:
        """Releases with edits."""
        return [release for release in (self.genswap, self.unfiltered, self.gensynth) if release is not None]

    def open(self, name: str, source: Any, keep: bool = True) -> SimilarityModel:
        """A model on these pictures, in memory until another model is opened, if it is to be kept: they share the
        network and embeddings of texts. Raises ModelError for one that cannot compare pictures with texts."""
        key = (name, source.fingerprint)
        if any(known != name for known, _ in self._opened):
            self._opened.clear()
        if key in self._opened:
            return self._opened[key]
        model: SimilarityModel = self.place.opened(name, self.models[name], source, "similarity")
        if self._opened and hasattr(model, "share"):
            model.share(next(iter(self._opened.values())))
        if keep:
            self._opened[key] = model
        return model


@dataclass(frozen=True)
class Arm:
    """Data on which models are compared: rows of a release, once or in balanced draws of them."""

    name: str
    release: Captioned
    draws: tuple[Rows, ...]


def arms_of(inputs: GenSynthInputs) -> list[Arm]:
    """The paper's: originals, those of the edited photographs, balanced parts of both, and the edited releases."""
    first = inputs.original
    every = np.arange(len(first.dataset))
    same = first.rows_of(inputs.gensynth.set_id)
    if not len(same):
        raise DatasetError(
            "none of the edited photographs is among the originals.",
            where=f"{first.dataset.manifest.ref}, {inputs.gensynth.dataset.manifest.ref}",
            remedy="build both from the same photographs: set ids are those of the photographs",
        )
    arms = []
    for name, rows in (("original", every), ("matched", same)):
        labels = first.codes[rows].astype(str).tolist()
        parts = [balanced(labels, stream(inputs.seed, "balanced", name, draw)) for draw in range(BALANCED_DRAWS)]
        arms += [Arm(name, first, (rows,)), Arm(f"{name}, balanced", first, tuple(rows[part] for part in parts))]
    edited = (inputs.genswap, inputs.gensynth)
    return arms + [Arm(release.name, release, (np.arange(len(release.dataset)),)) for release in edited]


Measured = dict[str, list[Shown]]
"""Ranker -> what it brought up, by draw."""


def _galleries(inputs: GenSynthInputs, arm: Arm) -> list[CaptionGallery]:
    return [CaptionGallery.of(arm.release, rows, inputs.seed + draw) for draw, rows in enumerate(arm.draws)]


def controls(inputs: GenSynthInputs, arm: Arm) -> Measured:
    """What rankers without a bias of their own bring up."""
    ranks: dict[str, Callable[[CaptionGallery, int], Rank]] = {RANDOM: by_chance, WORDS: by_words}
    galleries = list(enumerate(_galleries(inputs, arm)))
    return {
        name: [shown(make(gallery, inputs.seed + draw), gallery) for draw, gallery in galleries]
        for name, make in ranks.items()
    }


def searched(inputs: GenSynthInputs, arm: Arm, name: str) -> list[Shown]:
    """What a model brings up, by draw."""
    model = inputs.open(name, arm.release.dataset)
    return [shown(by_model(model, gallery), gallery) for gallery in _galleries(inputs, arm)]


def estimate(values: Matrix, inputs: GenSynthInputs, *names: str) -> Estimate:
    return mean_estimate(values, stream(inputs.seed, "interval", " ".join(names)))


def _cell(inputs: GenSynthInputs, what: str, name: str, runs: Sequence[Mapping[str, Matrix]]) -> Estimate:
    """A metric of a ranker on an arm: with its interval, or the mean of draws with their standard deviation."""
    if any(name not in run for run in runs):
        return Estimate(value=None, why="too few pictures")
    if len(runs) == 1:
        return estimate(runs[0][name], inputs, what, name)
    means = np.array([run[name].mean() for run in runs])
    middle, far = float(means.mean()), float(means.std(ddof=1))
    return Estimate(value=middle, lo=middle - far, hi=middle + far, n=len(runs))


_LIMITS = (
    "Limits are 95% intervals over photographs, or over different captions where these are fewer, under one gallery: "
    "other pictures to search would show other numbers, by more than the limits say. Of balanced parts they are one "
    f"standard deviation of {BALANCED_DRAWS} draws to either side, as published."
)


def bias_tables(
    inputs: GenSynthInputs, arms: Sequence[Arm], results: Sequence[Measured], useful: Mapping[str, StudyCell]
) -> list[StudyTable]:
    """Bias@K, and MaxSkew@K next to what each model is good for."""
    skew: list[list[StudyCell]] = []
    bias: list[list[StudyCell]] = []
    for arm, measured in zip(arms, results, strict=True):
        for ranker, runs in measured.items():
            what = f"{arm.name} {ranker}"
            bias.append([arm.name, ranker, *(_cell(inputs, what, name, runs) for name in BIASES)])
            skews = (_cell(inputs, what, name, runs) for name in SKEWS)
            skew.append([arm.name, ranker, *skews, useful.get(ranker, "")])
    about = f"random and TF-IDF have no bias of their own: what they show is the data's. {_MATCHED} {_LIMITS}"
    return [
        StudyTable(
            name="max-skew",
            title="Neutral captions as queries: how far is the most favoured gender favoured?",
            source="tables 1, 3, 8 and 9",
            columns=["data", "ranker", *SKEWS, "zero-shot accuracy"],
            rows=skew,
            note=about,
        ),
        StudyTable(
            name="models",
            title="MaxSkew@K of models on originals of the edits, balanced parts of them, and GenSynth",
            source="tables 3, 8 and 9",
            columns=["data", "model", *SKEWS, "zero-shot accuracy"],
            rows=[row for row in skew if row[0] in COMPARED and row[1] in inputs.models],
            note=f"{_MATCHED} {_LIMITS}",
        ),
        StudyTable(
            name="bias",
            title="Neutral captions as queries: which gender is shown more often?",
            source="table 1",
            columns=["data", "ranker", *BIASES],
            rows=bias,
            note=f"Above 0, more of the first group are shown. {about}",
        ),
    ]


_MATCHED = "Matched are the originals of the edited photographs."


def excess_table(inputs: GenSynthInputs, arms: Sequence[Arm], results: Sequence[Measured]) -> StudyTable:
    """A model less each control, caption by caption, and the control's part of the model's number."""
    rows: list[list[StudyCell]] = []
    for arm, measured in zip(arms, results, strict=True):
        for ranker in inputs.models:
            for control in CONTROLS:
                pairs = list(zip(measured[ranker], measured[control], strict=True))
                less = [{name: of[name] - than[name] for name in of} for of, than in pairs]
                cells = (_cell(inputs, f"{arm.name} {ranker} less {control}", name, less) for name in SKEWS)
                rows.append([arm.name, ranker, control, *cells, *(_part(pairs, name) for name in SKEWS)])
    return StudyTable(
        name="excess",
        title="What is left of a model's MaxSkew once a control's is taken away",
        source="section 3.4",
        columns=["data", "model", "less", *SKEWS, *(f"control's part @{k}" for k in SKEW_AT)],
        rows=rows,
        note="A control's part of 1: a ranker without a bias of its own shows as much on these data. "
        f"{_MATCHED} {_LIMITS}",
    )


def _part(pairs: Sequence[tuple[Shown, Shown]], name: str) -> Estimate:
    if any(name not in of for of, _ in pairs):
        return Estimate(value=None, why="too few pictures")
    of, than = (float(np.mean([picture[name].mean() for picture in ones])) for ones in zip(*pairs, strict=True))
    return Estimate(value=than / of) if of > 0 else Estimate(value=None, why="the model shows none")


def skew_figures(inputs: GenSynthInputs, arms: Sequence[Arm], results: Sequence[Measured]) -> list[StudyFigure]:
    figures = []
    for k in SKEW_AT:
        series = []
        for ranker in (*CONTROLS, *inputs.models):
            skews = [
                _cell(inputs, f"{arm.name} {ranker}", f"MaxSkew@{k}", of[ranker])
                for arm, of in zip(arms, results, strict=True)
            ]
            series.append(series_of(ranker, [arm.name for arm in arms], skews))
        figures.append(
            StudyFigure(
                name=f"max-skew-{k}",
                title=f"MaxSkew@{k} of models and of rankers without a bias of their own",
                source="tables 1, 3 and 8",
                kind="bars",
                x_label="data",
                y_label=f"MaxSkew@{k} (natural logarithm)",
                series=series,
                note=_LIMITS,
            )
        )
    return figures
