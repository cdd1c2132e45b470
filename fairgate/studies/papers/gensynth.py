"""The tables and figures of Smith et al. 2023 ("Balancing the Picture"): how much of a model's bias is the dataset's?

Neutral captions search photographs as they are, with swapped faces, and edited to show either gender on one background.
Rankers that have no bias of their own (scores at random, words of captions) are next to every model on every data.

Departures. The paper does not say whether neutral captions search their own photograph, too: here they do; nor how its
TF-IDF compares a caption with an image of five captions: here with all of them. Intervals resample photographs, or
captions where there are fewer, under one gallery. The classifiers are logistic regressions on embeddings and words,
judged in five folds where the paper judges on COCO val, and clusters are of words (`caption_context`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairgate.data import Dataset
from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.models import EmbeddingCache, indistinct
from fairgate.probes import with_article
from fairgate.records import Estimate, StudyCell, StudyModel, StudyTable
from fairgate.studies.papers.caption_context import predictable_auc, tf_idf
from fairgate.studies.papers.caption_search import RECALL_AT, Matrix, recall
from fairgate.studies.papers.captioned import Captioned, PersonInBlack
from fairgate.studies.papers.contents import StudyContents
from fairgate.studies.papers.gensynth_arms import (
    GenSynthInputs,
    arms_of,
    bias_tables,
    estimate,
    excess_table,
    measured,
    skew_figures,
)
from fairgate.studies.papers.neutral_clusters import cluster_figures, cluster_tables
from fairgate.studies.papers.real_neighbours import decile_table, pair_sheets

PAPER = "Smith et al., Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, 2023"

RECIPES = {
    "original": "photographs",
    "GenSwap": "genswap",
    "GenSynth": "gensynth",
    "GenSynth, unfiltered": "gensynth_unfiltered",
}
"""The recipe of the release that each name of the tables stands for."""


def gensynth_study(  # noqa: PLR0913 - a choice is a parameter
    *,
    original: Dataset,
    genswap: Dataset,
    gensynth: Dataset,
    models: Mapping[str, str],
    unfiltered: Dataset | None = None,
    gallery: Dataset | None = None,
    utility: Dataset | None = None,
    prompts: tuple[str, str] = ("a photo of a man", "a photo of a woman"),
    template: str = "a photo of {a_subject}",
    clusters: int = 20,
    seed: int = 0,
    device: str = "auto",
    cache: EmbeddingCache | None = None,
    root: Path = Path(),
) -> StudyContents:
    """Every table and figure. `gallery` holds the distractors of R@K, any pictures; without it, they are the originals.

    Raises DatasetError for releases without captions, boxes or two genders, ModelError for a model that cannot compare
    pictures with texts.
    """
    first = Captioned("original", original)
    inputs = GenSynthInputs(
        first,
        Captioned("GenSwap", genswap),
        Captioned("GenSynth", gensynth),
        None if unfiltered is None else Captioned("GenSynth, unfiltered", unfiltered),
        first if gallery is None else Captioned("gallery", gallery),
        utility,
        dict(models),
        prompts,
        template,
        clusters,
        seed,
        device,
        root,
        cache,
    )
    for one in (first, *inputs.edited):
        one.require(RECIPES[one.name])
    used = [original, genswap, gensynth, *(one for one in (unfiltered, gallery, utility) if one is not None)]
    arms = arms_of(inputs)
    found = [measured(inputs, arm) for arm in arms]
    useful = _utility(inputs)
    described = [_described(inputs, name) for name in inputs.models]
    sheets = pair_sheets(first, inputs.genswap, inputs.gensynth, inputs.unfiltered or inputs.gensynth, seed)
    return StudyContents(
        title="How much of a model's bias is the dataset's?",
        paper=PAPER,
        models=described,
        datasets=used,
        settings={
            "prompts": list(prompts),
            "template": template,
            "clusters": str(clusters),
            "seed": str(seed),
            "distractors": inputs.gallery.dataset.manifest.ref,
        },
        tables=[
            *bias_tables(inputs, arms, found, useful),
            excess_table(inputs, arms, found),
            _dataset_table(inputs),
            _context_table(inputs),
            *cluster_tables(first, clusters, seed),
            decile_table(inputs.unfiltered or inputs.gensynth, _taken(inputs, inputs.unfiltered or inputs.gensynth)),
            _captions_table(inputs.gensynth),
        ],
        figures=[*cluster_figures(first, clusters, seed), *skew_figures(inputs, arms, found)],
        pictures=[sheet for sheet, _ in sheets],
        drawn={sheet.name: data for sheet, data in sheets},
        notes=_notes(inputs),
    )


def _taken(inputs: GenSynthInputs, release: Captioned) -> Matrix | str:
    """Whether the first model takes each picture for the group that it is of, (rows,), or why it cannot say."""
    return _seen_as(inputs, next(iter(inputs.models)), release)


def _seen_as(inputs: GenSynthInputs, name: str, release: Captioned) -> Matrix | str:
    """A mitigation can take the prompts of groups out whole: then there is no answer, and the reason is shown."""
    try:
        cosines = inputs.open(name, release.dataset).similarity([[prompt] for prompt in inputs.prompts])
    except ModelError as error:
        return error.problem
    return np.asarray(cosines.argmax(axis=1) == release.codes, dtype=np.float64)


def _dataset_table(inputs: GenSynthInputs) -> StudyTable:
    """Table 2: are edits seen as what they should be, and are they still found by their captions?"""
    rows: list[list[StudyCell]] = []
    for release in (inputs.original, *inputs.edited):
        photographs = len(release.own)
        for name in inputs.models:
            seen = _seen_as(inputs, name, release)
            model, others = inputs.open(name, release.dataset), inputs.open(name, inputs.gallery.dataset)
            hits = recall(model, release, others, inputs.gallery)
            cells = [_by_photograph(inputs, release, hits[k], f"{name} R@{k}") for k in RECALL_AT]
            zero_shot = (
                Estimate(value=None, why="no answer")
                if isinstance(seen, str)
                else _by_photograph(inputs, release, seen, f"{name} zero-shot")
            )
            pictures = f"{photographs:,} x {len(release.dataset) // photographs}"
            rows.append([release.name, name, pictures, zero_shot, *cells])
    return StudyTable(
        name="datasets",
        title="Are edits seen as whom they should show, and found by their captions?",
        source="table 2",
        columns=["data", "model", "pictures", "gender seen", *(f"R@{k}" for k in RECALL_AT)],
        rows=rows,
        note="R@K: captions of the picture's gender, among the distractors and the picture itself; distractors of the "
        "same photograph are left out, and limits resample photographs among these distractors. "
        "Pictures: photographs, and pictures of each.",
    )


def _by_photograph(inputs: GenSynthInputs, release: Captioned, values: Matrix, what: str) -> Estimate:
    means = np.bincount(release.owner, values) / np.bincount(release.owner)
    return estimate(means, inputs, release.name, what)


def _context_table(inputs: GenSynthInputs) -> StudyTable:
    """Section 3.3's classifiers, on the originals and on edits, and with the person in sight."""
    rows: list[list[StudyCell]] = []
    for release in (inputs.original, *inputs.edited):
        words, _ = tf_idf([" ".join(texts) for texts in release.columns["neutral_captions"]])
        vectors = {
            "neutral captions": words,
            "pictures, the person in black": _embedded(inputs, PersonInBlack(release)),
            "pictures as they are": _embedded(inputs, release.dataset),
        }
        rng = [stream(inputs.seed, "context", release.name, what) for what in vectors]
        first = release.codes == 0
        rows.append(
            [
                release.name,
                *(
                    Estimate(value=predictable_auc(one, first, each, release.owner), n=len(first))
                    for one, each in zip(vectors.values(), rng, strict=True)
                ),
            ]
        )
    return StudyTable(
        name="context",
        title="How well is the gender of a picture predicted from what does not show it? (AUC, 0.5 is guessing)",
        source="section 3.3; table 2, spurious background",
        columns=["data", "neutral captions", "the person in black", "pictures as they are"],
        rows=rows,
        note="Logistic regressions on words, and on the first model's embeddings; pictures of one photograph "
        "are in one fold of five. The gender is the caption's, or the edit's. n counts pictures.",
    )


def _embedded(inputs: GenSynthInputs, source: Any) -> Matrix:
    name = next(iter(inputs.models))
    model: Any = inputs.open(name, source)
    if not hasattr(model, "image_embeddings"):
        raise ModelError(
            "it has no embeddings of pictures, from which a classifier could predict.",
            where=inputs.models[name],
            remedy="name a checkpoint with two towers first (open_clip:, hf:)",
        )
    return np.asarray(model.image_embeddings(), dtype=np.float64)


def _utility(inputs: GenSynthInputs) -> dict[str, StudyCell]:
    """Zero-shot accuracy of every model over the subjects of the labelled release."""
    if inputs.utility is None:
        return {}
    index = inputs.utility.index
    subjects = list(dict.fromkeys(index.subject.tolist()))
    words = [one.replace("_", " ") for one in subjects]
    texts = [inputs.template.replace("{a_subject}", with_article(one)).replace("{subject}", one) for one in words]
    truth = np.array([subjects.index(one) for one in index.subject.tolist()])
    sets = np.unique(index.set_id, return_inverse=True)[1]
    found: dict[str, StudyCell] = {}
    for name in inputs.models:
        right = inputs.open(name, inputs.utility).similarity([[text] for text in texts]).argmax(axis=1) == truth
        found[name] = estimate(np.bincount(sets, right) / np.bincount(sets), inputs, "utility", name)
    return found


def _captions_table(release: Captioned) -> StudyTable:
    """The neutral captions, to be named in a suite."""
    every = [text for row in release.own for text in release.columns["neutral_captions"][row]]
    texts, counts = np.unique(np.array(every, dtype=object), return_counts=True)
    order = np.lexsort((texts, -counts))
    return StudyTable(
        name="captions",
        title="Neutral captions, and of how many photographs",
        source="section 3.2; table 5",
        columns=["caption", "captions"],
        rows=[[str(texts[place]), int(counts[place])] for place in order],
    )


def _described(inputs: GenSynthInputs, name: str) -> StudyModel:
    model = inputs.open(name, inputs.gensynth.dataset)
    return StudyModel(name=name, uri=model.uri, fingerprint=model.fingerprint)


def _notes(inputs: GenSynthInputs) -> list[str]:
    notes = []
    for name in inputs.models:
        model: Any = inputs.open(name, inputs.gensynth.dataset)
        if getattr(model, "note", None):
            notes.append(f"{name}: {model.note}")
        if isinstance(seen := _seen_as(inputs, name, inputs.gensynth), str):
            notes.append(f"{name} gives no answer about gender: {seen}")
        every = sorted(
            {text for row in inputs.gensynth.own for text in inputs.gensynth.columns["neutral_captions"][row]}
        )
        alike = {place for pair in indistinct(model, [[text] for text in every]) for place in pair}
        if alike:
            notes.append(f"{name} reads {len(alike)} of {len(every)} neutral captions as one with another of them")
    if inputs.gallery is inputs.original:
        notes.append("R@K: the originals are the distractors; `--gallery` names others")
    return notes
