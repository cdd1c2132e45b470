"""What a model associates with whom: C-ASC of every word and group, entropy of a category's top k, and who is in the
top k of a word. The published functions that the gate decides by, under the same resampled sets for every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairgate.data import Dataset
from fairgate.formulas.statistics import Resamples, set_count_chunks
from fairgate.ground.errors import MetricError, SettingsError
from fairgate.ground.randomness import stream
from fairgate.metrics import (
    METRICS,
    Cells,
    Crossing,
    Floats,
    MetricRequest,
    association_of,
    measure,
    percentiles,
    queries_of,
    resample,
)
from fairgate.models import SimilarityModel, require_told_apart
from fairgate.probes import ProbeScores
from fairgate.records import Estimate
from fairgate.studies.papers.estimates import estimate_of
from fairgate.studies.papers.word_lists import WordList

ALPHA = 0.05
ENTROPY = "normalized_entropy_at_k"
_TEXTS = 256
"""Prompts whose similarities with all pictures are held at once, of a vocabulary."""


@dataclass(frozen=True)
class WordGallery:
    """A release, the words that rank its pictures, and the sets that are drawn anew, alike for every model."""

    release: Dataset
    words: WordList
    crossings: tuple[Crossing, ...]
    k: int
    draws: int
    seed: int

    def __post_init__(self) -> None:
        if self.k > len(self.release):
            raise SettingsError(
                f"the top {self.k:,} of {len(self.release):,} pictures are wanted.",
                where="--k",
                remedy=f"give at most {len(self.release):,}",
            )

    @cached_property
    def cells(self) -> Cells:
        return Cells(self.release.index)

    @cached_property
    def sets(self) -> Resamples:
        n_sets = self.cells.of(None, self.crossings).n_sets
        return Resamples(n_sets, self.draws, stream(self.seed, "study", "words", "sets"))

    def request(self, metric: str, crossings: Sequence[Crossing], words: Sequence[str]) -> MetricRequest:
        """A check of some words, as its metric reads it."""
        settings = METRICS[metric].Settings(**({"k": self.k} if METRICS[metric].needs_k else {}))
        return MetricRequest(metric, metric, "words", settings, tuple(crossings), words=tuple(words))


@dataclass(frozen=True, slots=True)
class WordAssociations:
    """C-ASC of every word with every group of one crossing: `values` (words, groups), `draws` (draws, words, groups),
    NaN for a group without a picture."""

    groups: tuple[str, ...]
    values: Floats
    draws: Floats

    def estimate(self, word: int, group: int) -> Estimate:
        """Of one word and group, with the percentiles of resampled sets."""
        return estimated(float(self.values[word, group]), self.draws[:, word, group])

    def mean(self, words: Sequence[int], group: int) -> Estimate:
        """Mean over some words."""
        return estimated(float(self.values[words, group].mean()), self.draws[:, words, group].mean(axis=1), len(words))

    def change(self, before: WordAssociations, words: Sequence[int], group: int) -> Estimate:
        """Mean over some words, less that of another model on the same sets."""
        value = (self.values - before.values)[words, group].mean()
        return estimated(float(value), (self.draws - before.draws)[:, words, group].mean(axis=1), len(words))


def estimated(value: float, draws: Floats, n: int | None = None) -> Estimate:
    """A number with the percentiles of its resamples; without a value where a group has no picture."""
    if not np.isfinite(value):
        return Estimate(value=None, why="no picture of the group")
    lo, hi = percentiles(draws, ALPHA)
    return Estimate(value=value, lo=float(lo), hi=float(hi), n=n)


@dataclass(frozen=True)
class WordScores:
    """A model's similarity of every word with every picture, (words, images), and what follows from it."""

    gallery: WordGallery
    name: str
    model: SimilarityModel
    similarity: Floats

    def answers(self, words: Sequence[str]) -> list[ProbeScores]:
        return [ProbeScores(self.similarity[place]) for place in self.gallery.words.places(words)]

    @cached_property
    def associations(self) -> Mapping[Crossing, WordAssociations]:
        """C-ASC of every word, by crossing."""
        given, words = self.gallery, self.gallery.words.words
        cell = given.cells.of(None, given.crossings)
        queries = queries_of(given.request("c_asc", given.crossings, words), cell, self.answers(words))
        counts = [np.ones((1, cell.n_sets), dtype=np.int32), *set_count_chunks(cell.n_sets, given.draws, given.sets)]
        found = [[association_of(query)(one) for one in counts] for query in queries]  # [word][chunk][crossing]
        return {
            crossing: WordAssociations(
                cell.groups[at],
                np.stack([chunks[0][at][1][0] for chunks in found]),
                np.stack([np.concatenate([chunk[at][1] for chunk in chunks[1:]]) for chunks in found], axis=1),
            )
            for at, crossing in enumerate(given.crossings)
        }

    def entropy(self, crossing: Crossing, words: Sequence[str]) -> Estimate:
        """Mean normalised entropy of the groups in the top k of some words, 1 where all groups are shown alike."""
        request = self.gallery.request(ENTROPY, [crossing], words)
        cell = self.gallery.cells.of(None, (crossing,))
        try:
            now = measure(request, cell, self.answers(words))
        except MetricError as error:
            return Estimate(value=None, why=error.problem)
        drawn = resample([now], cell.n_sets, self.gallery.draws, self.gallery.sets)[0]
        limits = METRICS[ENTROPY].interval(request, cell, now, drawn, ALPHA)
        return estimate_of(now.value, limits, len(words))

    def shown(self, crossing: Crossing, word: str) -> tuple[tuple[str, ...], Floats, Floats]:
        """Groups of a crossing, how many pictures of each are in the top k of a word, and how many in all."""
        cell = self.gallery.cells.of(None, (crossing,))
        now = measure(self.gallery.request(ENTROPY, [crossing], [word]), cell, self.answers([word]))
        assert now.counted is not None
        return cell.groups[0], now.counted.shown[0], now.counted.images[0]

    def nearest(self, word: str, pictures: int) -> list[int]:
        """Rows of the pictures that are nearest to a word, nearest first; ties in stored order."""
        column = self.similarity[self.gallery.words.places([word])[0]]
        return [int(row) for row in np.argsort(-column, kind="stable")[:pictures]]

    def strength(self, captions: Sequence[str]) -> Floats:
        """Mean similarity of the k nearest pictures of every caption, (captions,)."""
        from fairgate.formulas.metrics import top_k_similarity

        parts = [captions[start : start + _TEXTS] for start in range(0, len(captions), _TEXTS)]
        found = [top_k_similarity(self.model.similarity([[text] for text in part]).T, self.gallery.k) for part in parts]
        return np.concatenate(found)


def score_words(gallery: WordGallery, name: str, model: SimilarityModel) -> WordScores:
    """Ask a model every word. Raises ModelError for one that reads two words as the same text."""
    captions = gallery.words.captions
    require_told_apart(model, "words", captions, name, "give --words FILE, of words that it knows")
    ensembles = [[caption] for caption in captions.values()]
    return WordScores(gallery, name, model, np.ascontiguousarray(model.similarity(ensembles).T))
