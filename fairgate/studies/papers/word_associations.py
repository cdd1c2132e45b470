"""The words of a study, with the caption, the categories and the valence of each, and what a model associates with
whom: C-ASC of every word and group, entropy of a category's top k, and who is in the top k of a word. The published
functions that the gate decides by, under the same resampled sets for every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from fairgate import metrics
from fairgate.data import Dataset, read_labels
from fairgate.formulas.statistics import Resamples, set_count_chunks
from fairgate.ground.errors import MetricError, SettingsError, suggestion
from fairgate.ground.randomness import stream
from fairgate.models import SimilarityModel, require_told_apart
from fairgate.probes import WORD_FORMS, ProbeScores, filled, taxonomy
from fairgate.records import Estimate
from fairgate.studies.papers.contract import estimate_of, required_template

VALENCES = ("positive", "negative", "neutral")
NO_CATEGORY = "words"
MOST_WORDS = 2_000
MOST_VOCABULARY = 100_000
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class WordList:
    """Words in order, each with its caption; categories with their words; the valence of words that have one."""

    name: str
    captions: Mapping[str, str]
    categories: Mapping[str, Sequence[str]]
    valence: Mapping[str, str]

    @property
    def words(self) -> list[str]:
        """Every word, once."""
        return list(self.captions)

    def places(self, words: Sequence[str]) -> list[int]:
        """Where words are in the list."""
        at = {word: place for place, word in enumerate(self.captions)}
        return [at[word] for word in words]

    def require(self, words: Sequence[str], option: str) -> None:
        """Raise SettingsError for a word that is not in the list."""
        for word in words:
            if word not in self.captions:
                remedy = suggestion(word, self.captions, f"words: {', '.join(self.words[:12])}, ...")
                raise SettingsError(f"'{word}' is none of the study's words.", where=option, remedy=remedy)


def published_words(categories: Sequence[str]) -> WordList:
    """So-B-IT's words, or those of some of its categories. Raises SettingsError for a category that is none."""
    published = taxonomy("so-b-it")
    chosen = published.chosen(categories) if categories else dict(published.categories)
    captions = {word: published.captions[word] for words in chosen.values() for word in words}
    valence = {word: label for word, label in published.valence.items() if word in captions}
    return WordList("so-b-it", captions, chosen, valence)


def words_of_file(path: Path, template: str) -> WordList:
    """Words of a CSV with a column `word`, and where it has them `category` and `valence`.

    A word may have several lines, one for each of its categories. Raises DatasetError for a file that cannot be read,
    SettingsError for one that is no such list.
    """
    required_template(template, "word")
    table = read_labels(path)
    table.column("word", "holds the words")
    captions, valence, categories = dict[str, str](), dict[str, str](), dict[str, list[str]]()
    for line, row in table:
        word = _word(row["word"], table.place(line))
        captions[word] = filled(template, "word", word)
        words = categories.setdefault(row.get("category", "").strip() or NO_CATEGORY, [])
        if word in words:
            raise _refused(f"'{word}' is given twice in one category", table.place(line), "keep one of the lines")
        words.append(word)
        if label := row.get("valence", "").strip():
            valence[word] = _valence(label, table.place(line))
        if len(captions) > MOST_WORDS:
            raise _refused(f"it holds more than {MOST_WORDS:,} words", str(path), "study them in parts")
    return WordList(path.name, captions, categories, valence)


def with_valence(words: WordList, path: Path) -> WordList:
    """The words with the labels of a CSV with the columns `word` and `valence` instead of their own; it may hold words
    that the list lacks, such as a whole lexicon's. Raises as `words_of_file` does."""
    table = read_labels(path)
    table.column("word", "holds the words")
    table.column("valence", f"says {', '.join(VALENCES)}")
    labels = {row["word"].strip(): _valence(row["valence"].strip(), table.place(line)) for line, row in table}
    labelled = {word: labels[word] for word in words.captions if word in labels}
    if not labelled:
        raise _refused("it holds none of the study's words", str(path), "spell words as the study does")
    return replace(words, valence=labelled)


def vocabulary_of(path: Path) -> list[str]:
    """Captions of a vocabulary, most frequent words of a language as a rule: a CSV with a column `word`, and where it
    has one `form` (adjective, noun or activity; noun where it is empty). Raises as `words_of_file` does."""
    table, captions = read_labels(path), dict[str, None]()
    table.column("word", "holds the vocabulary (write `word` as the first line of a plain list)")
    forms = {form: form for form in WORD_FORMS}
    so_b_it = taxonomy("so-b-it")
    for line, row in table:
        form = row.get("form", "").strip() or "noun"
        if form not in forms:
            raise _refused(f"'{form[:40]}' is no form of a word", table.place(line), f"write {', '.join(forms)}")
        captions[so_b_it.caption(_word(row["word"], table.place(line)), forms[form])] = None
        if len(captions) > MOST_VOCABULARY:
            raise _refused(f"it holds more than {MOST_VOCABULARY:,} words", str(path), "keep the most frequent ones")
    return list(captions)


def _word(text: str, place: str) -> str:
    word = text.strip()
    if not 0 < len(word) <= _LONGEST:
        raise _refused("a word is empty or very long", place, f"give 1 to {_LONGEST} characters")
    return word


def _valence(label: str, place: str) -> str:
    if label not in VALENCES:
        raise _refused(f"'{label[:40]}' is no valence", place, f"write {', '.join(VALENCES)}, or leave it empty")
    return label


def _refused(problem: str, where: str, remedy: str) -> SettingsError:
    return SettingsError(f"{problem}.", where=where, remedy=remedy)


ALPHA = 0.05
ENTROPY = "normalized_entropy_at_k"
_TEXTS = 256
"""Prompts whose similarities with all pictures are held at once, of a vocabulary."""


@dataclass(frozen=True)
class WordGallery:
    """A release, the words that rank its pictures, and the sets that are drawn anew, alike for every model."""

    release: Dataset
    words: WordList
    crossings: tuple[metrics.Crossing, ...]
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
    def cells(self) -> metrics.Cells:
        return metrics.Cells(self.release.index)

    @cached_property
    def sets(self) -> Resamples:
        n_sets = self.cells.of(None, self.crossings).n_sets
        return Resamples(n_sets, self.draws, stream(self.seed, "study", "words", "sets"))

    def request(
        self, metric: str, crossings: Sequence[metrics.Crossing], words: Sequence[str]
    ) -> metrics.MetricRequest:
        """A check of some words, as its metric reads it."""
        settings = metrics.METRICS[metric].Settings(**({"k": self.k} if metrics.METRICS[metric].needs_k else {}))
        return metrics.MetricRequest(metric, metric, "words", settings, tuple(crossings), words=tuple(words))


@dataclass(frozen=True, slots=True)
class WordAssociations:
    """C-ASC of every word with every group of one crossing: `values` (words, groups), `draws` (draws, words, groups),
    NaN for a group without a picture."""

    groups: tuple[str, ...]
    values: metrics.Floats
    draws: metrics.Floats

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


def estimated(value: float, draws: metrics.Floats, n: int | None = None) -> Estimate:
    """A number with the percentiles of its resamples; without a value where a group has no picture."""
    if not np.isfinite(value):
        return Estimate(value=None, why="no picture of the group")
    lo, hi = metrics.percentiles(draws, ALPHA)
    return Estimate(value=value, lo=float(lo), hi=float(hi), n=n)


@dataclass(frozen=True)
class WordScores:
    """A model's similarity of every word with every picture, (words, images), and what follows from it."""

    gallery: WordGallery
    name: str
    model: SimilarityModel
    similarity: metrics.Floats

    def answers(self, words: Sequence[str]) -> list[ProbeScores]:
        return [ProbeScores(self.similarity[place]) for place in self.gallery.words.places(words)]

    @cached_property
    def associations(self) -> Mapping[metrics.Crossing, WordAssociations]:
        """C-ASC of every word, by crossing."""
        given, words = self.gallery, self.gallery.words.words
        cell = given.cells.of(None, given.crossings)
        queries = metrics.queries_of(given.request("c_asc", given.crossings, words), cell, self.answers(words))
        counts = [np.ones((1, cell.n_sets), dtype=np.int32), *set_count_chunks(cell.n_sets, given.draws, given.sets)]
        tables = [
            [metrics.association_of(query)(chunk_counts, None) for chunk_counts in counts] for query in queries
        ]  # [word][chunk][crossing]
        return {
            crossing: WordAssociations(
                cell.groups[at],
                np.stack([chunks[0][at][1][0] for chunks in tables]),
                np.stack([np.concatenate([chunk[at][1] for chunk in chunks[1:]]) for chunks in tables], axis=1),
            )
            for at, crossing in enumerate(given.crossings)
        }

    def entropy(self, crossing: metrics.Crossing, words: Sequence[str]) -> Estimate:
        """Mean normalised entropy of the groups in the top k of some words, 1 where all groups are shown alike."""
        request = self.gallery.request(ENTROPY, [crossing], words)
        cell = self.gallery.cells.of(None, (crossing,))
        try:
            now = metrics.measure(request, cell, self.answers(words))
        except MetricError as error:
            return Estimate(value=None, why=error.problem)
        drawn = metrics.resample([now], cell.n_sets, self.gallery.draws, self.gallery.sets)[0]
        limits = metrics.METRICS[ENTROPY].interval(request, cell, now, drawn, ALPHA)
        return estimate_of(now.value, limits, len(words))

    def shown(self, crossing: metrics.Crossing, word: str) -> tuple[tuple[str, ...], metrics.Floats, metrics.Floats]:
        """Groups of a crossing, how many pictures of each are in the top k of a word, and how many in all."""
        cell = self.gallery.cells.of(None, (crossing,))
        now = metrics.measure(self.gallery.request(ENTROPY, [crossing], [word]), cell, self.answers([word]))
        assert now.counted is not None
        return cell.groups[0], now.counted.shown[0], now.counted.images[0]

    def nearest(self, word: str, pictures: int) -> list[int]:
        """Rows of the pictures that are nearest to a word, nearest first; ties in stored order."""
        column = self.similarity[self.gallery.words.places([word])[0]]
        return [int(row) for row in np.argsort(-column, kind="stable")[:pictures]]

    def strength(self, captions: Sequence[str]) -> metrics.Floats:
        """Mean similarity of the k nearest pictures of every caption, (captions,)."""
        from fairgate.formulas.metrics import top_k_similarity

        parts = [captions[start : start + _TEXTS] for start in range(0, len(captions), _TEXTS)]
        nearest = [
            top_k_similarity(self.model.similarity([[text] for text in part]).T, self.gallery.k) for part in parts
        ]
        return np.concatenate(nearest)


def score_words(gallery: WordGallery, name: str, model: SimilarityModel) -> WordScores:
    """Ask a model every word. Raises ModelError for one that reads two words as the same text."""
    captions = gallery.words.captions
    require_told_apart(model, "words", captions, name, "give --words FILE, of words that it knows")
    ensembles = [[caption] for caption in captions.values()]
    return WordScores(gallery, name, model, np.ascontiguousarray(model.similarity(ensembles).T))
