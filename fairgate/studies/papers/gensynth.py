"""The tables and figures of Smith et al. 2023 ("Balancing the Picture"): how much of a model's bias is the dataset's?

Neutral captions search photographs as they are, with swapped faces, and edited to show either gender on one background.
Rankers that have no bias of their own (scores at random, words of captions) are next to every model on every data.

Departures. The paper does not say whether neutral captions search their own photograph, too: here they do; nor how its
TF-IDF compares a caption with an image of five captions: here with all of them. Intervals resample photographs, or
captions where there are fewer, under one gallery. The classifiers are logistic regressions on embeddings and words,
judged in five folds where the paper judges on COCO val, and clusters are of words (`caption_context`).
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fairgate.builds import review
from fairgate.data import Dataset
from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.models import indistinct
from fairgate.probes import filled
from fairgate.records import Estimate, StudyCell, StudyModel, StudyTable
from fairgate.studies.papers import gensynth_arms
from fairgate.studies.papers.caption_context import cluster_figures, cluster_tables, predictable_auc, tf_idf
from fairgate.studies.papers.caption_search import RECALL_AT, Matrix, recall
from fairgate.studies.papers.captioned import Captioned, PersonInBlack, decile_table, pair_sheets
from fairgate.studies.papers.contract import (
    Study,
    StudyContents,
    StudyPlace,
    Typed,
    named_models,
    register,
    required_template,
)

RECIPES = {
    "original": "photographs",
    "GenSwap": "genswap",
    "GenSynth": "gensynth",
    "GenSynth, unfiltered": "gensynth_unfiltered",
}
"""The recipe of the release that each name of the tables stands for."""


Release = "a release's name, or a build (its folder)"


@register
class GenSynthStudy(Study):
    """Neutral captions as queries on photographs and on edits, next to rankers without a bias of their own.

    Tables 1 to 3, 6, 8 and 9 and figures 1, 3 and 4 of Smith et al. 2023, "Balancing the Picture".
    """

    name: ClassVar[str] = "gensynth"
    title: ClassVar[str] = "How much of a model's bias is the dataset's?"
    paper: ClassVar[str] = (
        "Smith et al., Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, 2023"
    )

    original: str = Field(description=f"Photographs as they are: {Release}, of recipe `photographs`.")
    genswap: str = Field(description=f"With swapped faces: {Release}, of recipe `genswap`.")
    gensynth: str = Field(description=f"Edited: {Release}, of recipe `gensynth`.")
    model: Annotated[dict[str, str], Typed(partial(named_models, taken=gensynth_arms.CONTROLS))] = Field(
        description="A checkpoint, URI or NAME=URI; repeat. The first one also judges the datasets."
    )
    unfiltered: str | None = Field(None, description="All edits: of recipe `gensynth_unfiltered`.")
    gallery: str | None = Field(None, description="Distractors of R@K, any pictures; else the originals.")
    utility: str | None = Field(None, description="Labelled pictures, for zero-shot accuracy over subjects.")
    template: str = Field(
        "a photo of {a_subject}", description="Prompt for a subject of `--utility`: `{subject}` or `{a_subject}`."
    )
    male: str = Field("a photo of a man", description="Prompt for the first group of `gender`.")
    female: str = Field("a photo of a woman", description="Prompt for the second.")
    clusters: int = Field(20, ge=1, description="Clusters of neutral captions.")
    seed: int = Field(0, description="Of all that is drawn.")

    def run(self, place: StudyPlace) -> StudyContents:
        """Every table and figure.

        Raises DatasetError for releases without captions, boxes or two genders, ModelError for a model that cannot
        compare pictures with texts.
        """
        required_template(self.template, "subject")
        inputs = self._inputs(place)
        first = inputs.original
        for release in (first, *inputs.edited):
            release.require(RECIPES[release.name])
        edits = inputs.unfiltered or inputs.gensynth
        opened = [first, inputs.genswap, inputs.gensynth, *([inputs.unfiltered] if inputs.unfiltered else [])]
        others = [*([] if inputs.gallery is first else [inputs.gallery.dataset]), inputs.utility]
        arms = gensynth_arms.arms_of(inputs)
        results = [gensynth_arms.measured(inputs, arm) for arm in arms]
        useful = _utility(inputs, self.template)
        described = [_described(inputs, name) for name in inputs.models]
        return StudyContents(
            models=described,
            datasets=[*(release.dataset for release in opened), *(other for other in others if other is not None)],
            settings={
                "prompts": list(inputs.prompts),
                "template": self.template,
                "clusters": str(self.clusters),
                "seed": str(self.seed),
                "distractors": inputs.gallery.dataset.manifest.ref,
            },
            tables=[
                *gensynth_arms.bias_tables(inputs, arms, results, useful),
                gensynth_arms.excess_table(inputs, arms, results),
                _dataset_table(inputs),
                _context_table(inputs),
                *cluster_tables(first, self.clusters, self.seed),
                decile_table(edits, _seen_as(inputs, next(iter(inputs.models)), edits)),
                _captions_table(inputs.gensynth),
            ],
            figures=[
                *cluster_figures(first, self.clusters, self.seed),
                *gensynth_arms.skew_figures(inputs, arms, results),
            ],
            sheets=pair_sheets(first, inputs.genswap, inputs.gensynth, edits, self.seed),
            notes=_notes(inputs),
        )

    def _inputs(self, place: StudyPlace) -> gensynth_arms.GenSynthInputs:
        def opened(named: str) -> Dataset:
            return review.release_or_build(named, place.root)

        first = Captioned("original", opened(self.original))
        return gensynth_arms.GenSynthInputs(
            original=first,
            genswap=Captioned("GenSwap", opened(self.genswap)),
            gensynth=Captioned("GenSynth", opened(self.gensynth)),
            unfiltered=Captioned("GenSynth, unfiltered", opened(self.unfiltered)) if self.unfiltered else None,
            gallery=Captioned("gallery", opened(self.gallery)) if self.gallery else first,
            utility=opened(self.utility) if self.utility else None,
            models=self.model,
            prompts=(self.male, self.female),
            seed=self.seed,
            place=place,
        )


def _seen_as(inputs: gensynth_arms.GenSynthInputs, name: str, release: Captioned) -> Matrix | str:
    """Whether a model takes each picture for the group that it is of, (rows,), or why it cannot tell: a mitigation can
    take the prompts of groups out whole."""
    try:
        cosines = inputs.open(name, release.dataset).similarity([[prompt] for prompt in inputs.prompts])
    except ModelError as error:
        return error.problem
    return np.asarray(cosines.argmax(axis=1) == release.codes, dtype=np.float64)


def _dataset_table(inputs: gensynth_arms.GenSynthInputs) -> StudyTable:
    """Table 2: are edits seen as what they should be, and are they still found by their captions?"""
    rows: list[list[StudyCell]] = []
    for release in (inputs.original, *inputs.edited):
        photographs = len(release.own)
        for name in inputs.models:
            seen = _seen_as(inputs, name, release)
            model, others = inputs.open(name, release.dataset), inputs.open(name, inputs.gallery.dataset)
            hits = recall(model, release, others, inputs.gallery)
            cells = [_by_photograph(inputs, release, hits[k], f"{name} R@{k}") for k in RECALL_AT]
            zero_shot = Estimate(value=None, why="no answer")
            if not isinstance(seen, str):
                zero_shot = _by_photograph(inputs, release, seen, f"{name} zero-shot")
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


def _by_photograph(inputs: gensynth_arms.GenSynthInputs, release: Captioned, values: Matrix, what: str) -> Estimate:
    means = np.bincount(release.owner, values) / np.bincount(release.owner)
    return gensynth_arms.estimate(means, inputs, release.name, what)


def _context_table(inputs: gensynth_arms.GenSynthInputs) -> StudyTable:
    """Section 3.3's classifiers, on the originals and on edits, and with the person in sight."""
    rows: list[list[StudyCell]] = []
    for release in (inputs.original, *inputs.edited):
        words, _ = tf_idf([" ".join(texts) for texts in release.columns["neutral_captions"]])
        vectors = {
            "neutral captions": words,
            "pictures, the person in black": _embedded(inputs, PersonInBlack(release)),
            "pictures as they are": _embedded(inputs, release.dataset),
        }
        first, row = release.codes == 0, list[StudyCell]([release.name])
        for what, seen in vectors.items():
            auc = predictable_auc(seen, first, stream(inputs.seed, "context", release.name, what), release.owner)
            row.append(Estimate(value=auc, n=len(first)))
        rows.append(row)
    return StudyTable(
        name="context",
        title="How well is the gender of a picture predicted from what does not show it? (AUC, 0.5 is guessing)",
        source="section 3.3; table 2, spurious background",
        columns=["data", "neutral captions", "the person in black", "pictures as they are"],
        rows=rows,
        note="Logistic regressions on words, and on the first model's embeddings; pictures of one photograph "
        "are in one fold of five. The gender is the caption's, or the edit's. n counts pictures.",
    )


def _embedded(inputs: gensynth_arms.GenSynthInputs, source: Any) -> Matrix:
    name = next(iter(inputs.models))
    model: Any = inputs.open(name, source)
    if not hasattr(model, "image_embeddings"):
        raise ModelError(
            "it has no embeddings of pictures, from which a classifier could predict.",
            where=inputs.models[name],
            remedy="name a checkpoint with two towers first (open_clip:, hf:)",
        )
    return np.asarray(model.image_embeddings(), dtype=np.float64)


def _utility(inputs: gensynth_arms.GenSynthInputs, template: str) -> dict[str, StudyCell]:
    """Zero-shot accuracy of every model over the subjects of the labelled release."""
    if inputs.utility is None:
        return {}
    index = inputs.utility.index
    subjects = list(dict.fromkeys(index.subject.tolist()))
    words = [subject.replace("_", " ") for subject in subjects]
    texts = [filled(template, "subject", word) for word in words]
    truth = np.array([subjects.index(subject) for subject in index.subject.tolist()])
    sets = np.unique(index.set_id, return_inverse=True)[1]
    accuracies: dict[str, StudyCell] = {}
    for name in inputs.models:
        right = inputs.open(name, inputs.utility).similarity([[text] for text in texts]).argmax(axis=1) == truth
        accuracies[name] = gensynth_arms.estimate(np.bincount(sets, right) / np.bincount(sets), inputs, "utility", name)
    return accuracies


def _captions_table(release: Captioned) -> StudyTable:
    """The neutral captions, to be named in a suite."""
    texts, counts = np.unique(np.array(release.neutral, dtype=object), return_counts=True)
    order = np.lexsort((texts, -counts))
    return StudyTable(
        name="captions",
        title="Neutral captions, and of how many photographs",
        source="section 3.2; table 5",
        columns=["caption", "captions"],
        rows=[[str(texts[place]), int(counts[place])] for place in order],
    )


def _described(inputs: gensynth_arms.GenSynthInputs, name: str) -> StudyModel:
    model = inputs.open(name, inputs.gensynth.dataset)
    return StudyModel(name=name, uri=model.uri, fingerprint=model.fingerprint)


def _notes(inputs: gensynth_arms.GenSynthInputs) -> list[str]:
    notes = []
    for name in inputs.models:
        model: Any = inputs.open(name, inputs.gensynth.dataset)
        if getattr(model, "note", None):
            notes.append(f"{name}: {model.note}")
        if isinstance(seen := _seen_as(inputs, name, inputs.gensynth), str):
            notes.append(f"{name} gives no answer about gender: {seen}")
        every = sorted(set(inputs.gensynth.neutral))
        alike = {place for pair in indistinct(model, [[text] for text in every]) for place in pair}
        if alike:
            notes.append(f"{name} reads {len(alike)} of {len(every)} neutral captions as one with another of them")
    if inputs.gallery is inputs.original:
        notes.append("R@K: the originals are the distractors; `--gallery` names others")
    return notes
