"""The tables and figures of Smith et al. 2023 ("Balancing the Picture"): how much of a model's bias is the dataset's?

Neutral captions search photographs as they are, with swapped faces, and edited to show either gender on one background.
Rankers that have no bias of their own (scores at random, words of captions) are next to every model on every data.

Departures. The paper does not say whether neutral captions search their own photograph, too: here they do; nor how its
TF-IDF compares a caption with an image of five captions: here with all of them. Intervals resample photographs, or
captions where there are fewer, under one gallery. The classifiers are logistic regressions on embeddings and words,
judged in five folds where the paper judges on COCO val, and clusters are of words (`caption_context`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fairgate.builds import review
from fairgate.data import Dataset
from fairgate.ground.errors import ModelError, SettingsError
from fairgate.ground.randomness import stream
from fairgate.models import indistinct
from fairgate.probes import filled
from fairgate.records import Estimate, StudyCell, StudyModel, StudyTable
from fairgate.studies.papers import contract, gensynth_arms
from fairgate.studies.papers.caption_context import cluster_figures, cluster_tables, tf_idf
from fairgate.studies.papers.caption_edits import edit_tables
from fairgate.studies.papers.caption_search import RECALL_AT, Matrix, Shown, recall
from fairgate.studies.papers.captioned import Captioned, PersonInBlack, neighbour_tables, pair_sheets
from fairgate.studies.papers.group_prediction import predictable_auc

RECIPES = {
    "original": "photographs",
    "GenSwap": "genswap",
    "GenSynth": "gensynth",
    "GenSynth, unfiltered": "gensynth_unfiltered",
}
"""The recipe of the release that each name of the tables stands for."""


Release = "a release's name, or a build (its folder)"


@contract.register
class GenSynthStudy(contract.Study):
    """Neutral captions as queries on photographs and on edits, next to rankers without a bias of their own.

    Tables 1 to 9 and figures 1, 3 and 4 of Smith et al. 2023, "Balancing the Picture".
    """

    name: ClassVar[str] = "gensynth"
    title: ClassVar[str] = "How much of a model's bias is the dataset's?"
    paper: ClassVar[str] = (
        "Smith et al., Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, 2023"
    )

    original: str = Field(description=f"Photographs as they are: {Release}, of recipe `photographs`.")
    genswap: str = Field(description=f"With swapped faces: {Release}, of recipe `genswap`.")
    gensynth: str = Field(description=f"Edited: {Release}, of recipe `gensynth`.")
    model: Annotated[dict[str, str], contract.Typed(partial(contract.named_models, taken=gensynth_arms.CONTROLS))] = (
        Field(description="A checkpoint, URI or NAME=URI; repeat. The first one also judges the datasets.")
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
    cluster_name: Annotated[
        dict[str, str], contract.Typed(partial(contract.named_texts, option="--cluster-name", example="3=kitchen"))
    ] = Field({}, description="NUMBER=NAME of a cluster, given by hand; repeat (default: words that stand out).")
    seed: int = Field(0, description="Of all that is drawn.")

    def run(self, place: contract.StudyPlace) -> contract.StudyContents:
        """Every table and figure.

        Raises DatasetError for releases without captions, boxes or two genders, ModelError for a model that cannot
        compare pictures with texts.
        """
        contract.required_template(self.template, "subject")
        if unknown := [number for number in self.cluster_name if number not in map(str, range(1, self.clusters + 1))]:
            raise SettingsError(
                f"'{unknown[0]}' is no cluster.", where="--cluster-name", remedy=f"number 1 to {self.clusters}"
            )
        inputs = self._inputs(place)
        first = inputs.original
        for release in (first, *inputs.edited):
            release.require(RECIPES[release.name])
        edits = inputs.unfiltered or inputs.gensynth
        opened = [first, inputs.genswap, inputs.gensynth, *([inputs.unfiltered] if inputs.unfiltered else [])]
        others = [*([] if inputs.gallery is first else [inputs.gallery.dataset]), inputs.utility]
        arms = gensynth_arms.arms_of(inputs)
        context = _context_table(inputs)  # first: it takes the most memory
        answers = {name: _answers(inputs, arms, name, self.template) for name in inputs.models}
        judge = next(iter(answers.values()))
        results = [
            gensynth_arms.controls(inputs, arm) | {name: own.shown[place] for name, own in answers.items()}
            for place, arm in enumerate(arms)
        ]
        return contract.StudyContents(
            models=[own.model for own in answers.values()],
            datasets=[*(release.dataset for release in opened), *(other for other in others if other is not None)],
            settings={
                "prompts": list(inputs.prompts),
                "template": self.template,
                "clusters": str(self.clusters),
                "seed": str(self.seed),
                "distractors": inputs.gallery.dataset.manifest.ref,
            },
            tables=[
                *gensynth_arms.bias_tables(inputs, arms, results, {name: own.useful for name, own in answers.items()}),
                gensynth_arms.excess_table(inputs, arms, results),
                _dataset_table(list(answers.values())),
                context,
                *cluster_tables(first, self.clusters, self.seed, self.cluster_name),
                *neighbour_tables(edits, judge.seen[edits.name], self.seed),
                *edit_tables(first, inputs.gensynth),
            ],
            figures=[
                *cluster_figures(first, self.clusters, self.seed, self.cluster_name),
                *gensynth_arms.skew_figures(inputs, arms, results),
            ],
            sheets=pair_sheets(first, inputs.genswap, inputs.gensynth, edits, self.seed),
            notes=[
                *(note for own in answers.values() for note in own.notes),
                *([_DISTRACTORS] if inputs.gallery is first else []),
            ],
        )

    def _inputs(self, place: contract.StudyPlace) -> gensynth_arms.GenSynthInputs:
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


_DISTRACTORS = "R@K: the originals are the distractors; --gallery names others"


@dataclass(frozen=True, slots=True)
class ModelAnswers:
    """All that one model is asked: what it brings up by data, its zero-shot accuracy, whom it sees in every release
    (or why it cannot tell), its rows of table 2, and notes. Only numbers: its embeddings may go."""

    model: StudyModel
    shown: list[list[Shown]]
    useful: StudyCell
    seen: dict[str, Matrix | str]
    rows: list[list[StudyCell]]
    notes: list[str]


def _answers(
    inputs: gensynth_arms.GenSynthInputs, arms: Sequence[gensynth_arms.Arm], name: str, template: str
) -> ModelAnswers:
    releases = (inputs.original, *inputs.edited)
    model = inputs.open(name, inputs.gensynth.dataset)
    seen, rows = dict[str, Matrix | str](), dict[str, list[StudyCell]]()
    for release in sorted(releases, key=lambda each: -len(each.dataset)):  # the largest while few texts are embedded
        seen[release.name] = _seen_as(inputs, name, release)
        rows[release.name] = _dataset_row(inputs, name, release, seen[release.name])
        if release is inputs.unfiltered:
            inputs.close(name, release.dataset)
    return ModelAnswers(
        model=StudyModel(name=name, uri=model.uri, fingerprint=model.fingerprint),
        shown=[gensynth_arms.searched(inputs, arm, name) for arm in arms],
        useful="" if inputs.utility is None else _utility(inputs, inputs.utility, name, template),
        seen=seen,
        rows=[rows[release.name] for release in releases],
        notes=_notes(inputs, name, model, seen[inputs.gensynth.name]),
    )


def _seen_as(inputs: gensynth_arms.GenSynthInputs, name: str, release: Captioned) -> Matrix | str:
    """Whether a model takes each picture for the group that it is of, (rows,), or why it cannot tell: a mitigation can
    take the prompts of groups out whole."""
    try:
        cosines = inputs.open(name, release.dataset).similarity([[prompt] for prompt in inputs.prompts])
    except ModelError as error:
        return error.problem
    return np.asarray(cosines.argmax(axis=1) == release.codes, dtype=np.float64)


def _dataset_row(
    inputs: gensynth_arms.GenSynthInputs, name: str, release: Captioned, seen: Matrix | str
) -> list[StudyCell]:
    photographs = len(release.own)
    model, others = inputs.open(name, release.dataset), inputs.open(name, inputs.gallery.dataset)
    hits = recall(model, release, others, inputs.gallery)
    cells = [_by_photograph(inputs, release, hits[k], f"{name} R@{k}") for k in RECALL_AT]
    zero_shot = Estimate(value=None, why="no answer")
    if not isinstance(seen, str):
        zero_shot = _by_photograph(inputs, release, seen, f"{name} zero-shot")
    return [release.name, name, f"{photographs:,} x {len(release.dataset) // photographs}", zero_shot, *cells]


def _dataset_table(answers: Sequence[ModelAnswers]) -> StudyTable:
    """Table 2: are edits seen as what they should be, and are they still found by their captions?"""
    return StudyTable(
        name="datasets",
        title="Are edits seen as whom they should show, and found by their captions?",
        source="table 2",
        columns=["data", "model", "pictures", "gender seen", *(f"R@{k}" for k in RECALL_AT)],
        rows=[row for rows in zip(*(own.rows for own in answers), strict=True) for row in rows],
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
        first, aucs = release.codes == 0, [words_auc(release, inputs.seed)]
        for what, source in (
            ("pictures, the person in black", PersonInBlack(release)),
            ("pictures as they are", release.dataset),
        ):
            rng = stream(inputs.seed, "context", release.name, what)
            aucs.append(predictable_auc(_embedded(inputs, source), first, rng, release.owner))
        rows.append([release.name, *(auc.estimate() for auc in aucs)])
    return StudyTable(
        name="context",
        title="How well is the gender of a picture predicted from what does not show it? (AUC, 0.5 is guessing)",
        source="section 3.3; table 2, spurious background",
        columns=["data", "neutral captions", "the person in black", "pictures as they are"],
        rows=rows,
        note="Logistic regressions on words, and on the first model's embeddings; pictures of one photograph "
        "are in one fold of five. The gender is the caption's, or the edit's. n counts pictures; limits resample "
        "photographs, judged by the classifiers that were fitted.",
    )


def words_auc(release: Captioned, seed: int) -> contract.ResampledNumber:
    """How well neutral captions give the gender away. Edits of a photograph have the same ones: a row for each of its
    groups, which counts as often as it has edits."""
    groups = zip(release.owner.tolist(), release.codes.tolist(), release.columns["neutral_captions"], strict=True)
    counts = Counter(groups)
    owner, codes, captions = zip(*counts, strict=True)
    words, _ = tf_idf([" ".join(texts) for texts in captions])
    rng = stream(seed, "context", release.name, "neutral captions")
    return predictable_auc(words, np.array(codes) == 0, rng, np.array(owner), np.array(list(counts.values())))


def _embedded(inputs: gensynth_arms.GenSynthInputs, source: Any) -> Any:
    name = next(iter(inputs.models))
    # What is asked once is not kept: of every edit of 11,541 photographs it is 378 MB.
    model: Any = inputs.open(name, source, keep=not isinstance(source, PersonInBlack))
    if not hasattr(model, "image_embeddings"):
        raise ModelError(
            "it has no embeddings of pictures, from which a classifier could predict.",
            where=inputs.models[name],
            remedy="name a checkpoint with two towers first (open_clip:, hf:)",
        )
    return model.image_embeddings()


def _utility(inputs: gensynth_arms.GenSynthInputs, utility: Dataset, name: str, template: str) -> Estimate:
    """Zero-shot accuracy of a model over the subjects of a labelled release."""
    index = utility.index
    subjects = list(dict.fromkeys(index.subject.tolist()))
    words = [subject.replace("_", " ") for subject in subjects]
    texts = [filled(template, "subject", word) for word in words]
    truth = np.array([subjects.index(subject) for subject in index.subject.tolist()])
    sets = np.unique(index.set_id, return_inverse=True)[1]
    right = inputs.open(name, utility).similarity([[text] for text in texts]).argmax(axis=1) == truth
    return gensynth_arms.estimate(np.bincount(sets, right) / np.bincount(sets), inputs, "utility", name)


def _notes(inputs: gensynth_arms.GenSynthInputs, name: str, model: Any, seen: Matrix | str) -> list[str]:
    notes = [f"{name}: {model.note}"] if getattr(model, "note", None) else []
    if isinstance(seen, str):
        notes.append(f"{name} gives no answer about gender: {seen}")
    every = sorted(set(inputs.gensynth.neutral))
    alike = {place for pair in indistinct(model, [[text] for text in every]) for place in pair}
    if alike:
        notes.append(f"{name} reads {len(alike)} of {len(every)} neutral captions as one with another of them")
    return notes
