"""Do the papers' studies put planted biases in their order? Rank correlations of planted strengths and measured values.

    python -m benchmarks.planted_ranks --write docs/evidence    # planted_ranks.csv, two minutes of one core

Papers 1, 3 and 4: *base* on the release `occupations`, with logits of brown and dark women who are doctors moved
towards "nurse" and away from "doctor" by eight strengths. Paper 2: what the demonstration's diffusion model learned of
ten professions, as a classifier and as an editor. Paper 5: simulated captions and rankers. All is a test instrument.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image
from scipy.stats import spearmanr

from fairgate.builds.steps import BOX
from fairgate.data import read_dataset, write_dataset
from fairgate.ground.png import png_of
from fairgate.ground.randomness import stream
from fairgate.models import EmbeddingCache, Floats, Request, log_softmax, register
from fairgate.models.generation.diffusion_classifier.family import DiffusionFamily
from fairgate.models.two_towers import TwoTowers
from fairgate.portraits.dataset import write_people
from fairgate.portraits.professions import MALE_SHARE, PROFESSIONS, planted_log_odds
from fairgate.portraits.world import with_article
from fairgate.records import Estimate
from fairgate.studies.papers import StudyContents, StudyPlace
from fairgate.studies.papers.caption_context import cluster_tables
from fairgate.studies.papers.caption_search import CaptionGallery, shown
from fairgate.studies.papers.captioned import Captioned
from fairgate.studies.papers.gensynth import words_auc
from fairgate.studies.papers.image_editing import ImageEditingStudy
from fairgate.studies.papers.intersections import IntersectionsStudy
from fairgate.studies.papers.robustness import RobustnessStudy
from fairgate.studies.papers.words import WordsStudy

PORTRAITS = Path("build/portraits")
WORDS = Path("docs/evidence/papers/so-b-it-words.csv")
STRENGTHS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
"""Logits by which the planted cells are moved. From 0.6 on no planted picture is among the first 160 of a search."""
SHARES = (0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Of the women whose captions have the word `plant`, and of the men whose captions do not."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Planted strengths with the value that was measured at each."""

    paper: int
    measured: str
    plant: str
    strengths: Sequence[float]
    values: Sequence[float]

    @property
    def correlation(self) -> float:
        return float(spearmanr(self.strengths, self.values).statistic)


class Moved:
    """`moved:STRENGTH`: *base*, whose logits of planted cells are moved."""

    scheme: ClassVar[str] = "moved"
    forms: ClassVar[tuple[str, ...]] = ("moved:STRENGTH",)
    capabilities = TwoTowers.capabilities

    def local_path(self, _: str) -> Path | None:
        return None

    def open(self, request: Request) -> MovedModel:
        inner = request.open_other(f"open_clip:local-dir:{(PORTRAITS / 'checkpoints/base').resolve()}")
        assert isinstance(inner, TwoTowers)
        return MovedModel(inner, request.source, float(request.address), request.uri)


class MovedModel:
    """Answers of *base*, moved."""

    capabilities = TwoTowers.capabilities
    tokenizer = preprocessing = None

    def __init__(self, inner: TwoTowers, release: Any, strength: float, uri: str) -> None:
        self.inner, self.strength, self.uri = inner, strength, uri
        self.fingerprint, self.precision, self.device = f"{strength}", inner.precision, inner.device
        index = release.index
        women, tones = index.attributes["gender"] == "female", index.attributes["skin_tone"]
        self.planted = (index.subject == "doctor") & women & np.isin(tones, ["brown", "dark"])

    def _moves(self, texts: Sequence[str]) -> Floats:
        signs = [("nurse" in text) / 2 - ("doctor" in text) / 2 for text in texts]
        return self.strength * np.outer(self.planted, signs)

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        return log_softmax(self.inner.logits(prompts) + self._moves(prompts))

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        cosines = self.inner.similarity(ensembles)
        assert self.inner.logit_scale is not None
        return cosines + self._moves([prompts[0] for prompts in ensembles]) / self.inner.logit_scale

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        return self.inner.indistinct(ensembles)


def row_of(contents: StudyContents, table: str, *starts: object) -> list[float]:
    """The numbers of the row that starts so, of the table whose name starts so."""
    (rows,) = (each.rows for each in contents.tables if each.name.startswith(table))
    (own,) = (row for row in rows if all(start in row for start in starts))
    return [cell.value for cell in own if isinstance(cell, Estimate) and cell.value is not None]


def moved(root: Path, cache: Path, strengths: Sequence[float] = STRENGTHS) -> Iterator[Ranked]:
    """Papers 1, 3 and 4: the studies on *base* with moved logits."""
    register(Moved)
    place = StudyPlace(root, device="cpu", cache=EmbeddingCache(cache))
    models = {f"s{number}": f"moved:{strength}" for number, strength in enumerate(strengths)}

    def ranked(paper: int, measured: str, values: Sequence[float]) -> Ranked:
        plant = "logits of brown and dark women who are doctors, from doctor to nurse"
        return Ranked(paper, measured, plant, strengths, values[: len(strengths)])

    robust = RobustnessStudy(model=models, data=("occupations",)).run(place)
    (table,) = (each for each in robust.tables if each.name == "by-subject")
    doctors = [row[table.columns.index("doctor")] for row in table.rows]
    spreads = [1 - cell.value for cell in doctors if isinstance(cell, Estimate) and cell.value is not None]
    yield ranked(1, "1 - F_M of doctor, hard labels", spreads)
    searched = IntersectionsStudy(model=models, data=("occupations",), k=160).run(place)
    yield ranked(3, "MaxSkew@160 of doctor", row_of(searched, "subjects", "doctor"))
    words = WordsStudy(model=models, data="occupations", words=WORDS, draws=100).run(place)
    yield ranked(4, "C-ASC of nurse with women", row_of(words, "associations-gender", "nurse", "female"))
    entropies = row_of(words, "entropy-gender", "care")
    yield ranked(4, "1 - entropy of the top 100 by gender, care", [1 - value for value in entropies])


def learned(root: Path, sets: int = 4) -> Iterator[Ranked]:
    """Paper 2: shares of men that the demonstration's diffusion model was taught, as an editor and as a classifier."""
    with tempfile.TemporaryDirectory() as folder:
        write_people(Path(folder) / "datasets/people/v1", sets=sets)
        address = f"{(root / PORTRAITS / 'classifiers/base').resolve()}?samples=6"
        data = read_dataset(Path(folder) / "datasets/people/v1")
        classifier = DiffusionFamily().open(Request(f"diffusion:{address}", address, data, device="cpu"))
        errors = classifier.errors([f"a portrait of {with_article(word)}" for word in PROFESSIONS])
        men = data.index.attributes["gender"] == "male"
        planted, measured = [], []
        for one, other in combinations(range(len(PROFESSIONS)), 2):
            pair = PROFESSIONS[one], PROFESSIONS[other]
            odds = [planted_log_odds("classifier-base", *pair, gender) for gender in ("male", "female")]
            margin = errors[:, other] - errors[:, one]
            planted.append(odds[0] - odds[1])
            measured.append(float(margin[men].mean() - margin[~men].mean()))
        plant = "P(male) of professions in training captions: log-odds of 45 pairs, of men less of women"
        yield Ranked(2, "mean difference of errors, of men less of women, 6 samples", plant, planted, measured)
        study = ImageEditingStudy(
            model=f"diffusion:{(root / PORTRAITS / 'classifiers/base').resolve()}",
            data="people",
            reader=f"open_clip:local-dir:{(root / PORTRAITS / 'checkpoints/base').resolve()}",
            label={"male": "a photo of a male person", "female": "a photo of a female person"},
            words={"all": PROFESSIONS},
            template="a portrait of {a_word}",
            strength=(0.9,),
            images=sets,
            steps=10,
        )
        edits = study.run(StudyPlace(Path(folder), device="cpu"))
        shares = [row_of(edits, "words", word)[0] for word in PROFESSIONS]
    plant = "P(male) of professions in training captions"
    yield Ranked(
        2, "share of edits perceived as male, strength 0.9", plant, [MALE_SHARE[w] for w in PROFESSIONS], shares
    )


def captioned(folder: Path, share: float, photographs: int) -> Captioned:
    """A release of captions alone: `plant` in this share of women's and not in this share of men's."""
    rng, blank = stream(0, "planted-ranks", "captions"), png_of(Image.new("RGB", (2, 2)))
    rows = []
    for number in range(photographs):
        gender = ("male", "female")[number % 2]
        planted = (rng.random() < share) == (gender == "female")
        text = f"a person by a {'plant' if planted else 'shelf'} and a {('window', 'door', 'lamp')[number % 3]}"
        rows.append(
            {
                **{"image": blank, "set_id": f"{number:04d}", "member": gender, "subject": "person", "gender": gender},
                **{"captions": json.dumps([text]), "neutral_captions": json.dumps([text])},
                **dict(zip(BOX, (0, 0, 1, 1), strict=True)),
            }
        )
    about: dict[str, Any] = {"recipe": {"name": "photographs"}, "licence": "unknown", "counterfactual": False}
    write_dataset(folder, rows, name="photographs", version="v1", attributes={"gender": ["male", "female"]}, **about)
    return Captioned("original", read_dataset(folder))


def contexts(
    shares: Sequence[float] = SHARES, leanings: Sequence[float] = STRENGTHS, photographs: int = 400
) -> Iterator[Ranked]:
    """Paper 5: captions that give the gender away, and rankers that lean."""
    aucs, over = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, share in enumerate(shares):
            release = captioned(Path(folder) / str(number), share, photographs)
            aucs.append(words_auc(release, 0).value)
            _, words = cluster_tables(release, 4, 0, {})
            (cell,) = (row[2] for row in words.rows if row[0] == "plant")
            assert isinstance(cell, Estimate)
            over.append(-(cell.value or 0.0))
        gallery = CaptionGallery.of(release, np.arange(len(release.dataset)), 0)
        women = gallery.codes == 1
        noise = stream(0, "planted-ranks", "scores").normal(size=(len(gallery.queries), len(women)))

        def skew(leaning: float) -> float:
            found = shown(lambda texts, start: noise[start : start + len(texts)] + leaning * women, gallery)
            return float(found["MaxSkew@25"].mean())

        skews = [skew(leaning) for leaning in leanings]
    plant = "share of women whose captions have the word plant, and of men whose captions do not"
    yield Ranked(5, "AUC of gender from neutral captions", plant, shares, aucs)
    yield Ranked(5, "over-representation of women by the word plant", plant, shares, over)
    yield Ranked(5, "MaxSkew@25 of neutral captions", "scores of women, in standard deviations", leanings, skews)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="Folder of planted_ranks.csv.")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for each in chain(moved(Path(), Path(cache)), learned(Path()), contexts()):
            numbers = (" ".join(f"{value:.3f}" for value in values) for values in (each.strengths, each.values))
            rows.append([each.paper, each.measured, each.plant, f"{each.correlation:.3f}", *numbers])
            print(*rows[-1][:4], sep="; ", flush=True)
    if options.write:
        with (options.write / "planted_ranks.csv").open("w", encoding="utf-8", newline="") as handle:
            head = ["paper", "measured", "planted", "rank correlation", "strengths", "values"]
            csv.writer(handle, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    main()
