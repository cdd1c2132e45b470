"""What neutral captions give away of a gender (Smith et al. 2023, section 3.3): clusters of captions with the words
that stand out in them, and TF-IDF, a ranker without a bias of its own.

The paper clusters RoBERTa embeddings and names words by latent Dirichlet allocation; here any vectors are clustered,
and words are ranked by TF-IDF. The figures are comparable with each other, and not with the paper's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import DatasetError
from fairgate.ground.randomness import stream
from fairgate.records import Estimate, FigureSeries, StudyFigure, StudyTable
from fairgate.studies.papers.captioned import Captioned
from fairgate.studies.papers.contract import mean_estimate, series_of

Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]

ROUNDS, TYPICAL_WORDS = 100, 10
MOST_WORDS = 20
"""Words of captions that are listed with whom they come with."""
MOST_POINTS = 2000
"""Photographs of the map."""
PERPLEXITY = 30.0
_SAY_LITTLE = (
    "a an the of in on at by with to and or is are as for from up it this that next near "
    "his her its their theirs them they person people child children"
)
_STOP_WORDS = frozenset(_SAY_LITTLE.split())
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ENDING = re.compile(r"['’](?:s|re)$")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of captions: how many, its most typical words, and which captions are in it."""

    size: int
    words: tuple[str, ...]
    rows: Rows


def words_of(text: str) -> list[str]:
    """The words of a caption in lower case, without stop words.

    >>> words_of("The person's dog doesn't sit; they're at the children's table")
    ['dog', "doesn't", 'sit', 'table']
    """
    whole = (_ENDING.sub("", word) for word in _WORD.findall(text.lower()))
    return [word for word in whole if word not in _STOP_WORDS]


def tf_idf(texts: Sequence[str]) -> tuple[Any, list[str]]:
    """Sparse rows of unit length (texts, words) and the words: log(1 + n / in how many texts) times the count."""
    table, _, words = weighted_words(texts, [])
    return table, words


def weighted_words(documents: Sequence[str], queries: Sequence[str]) -> tuple[Any, Any, list[str]]:
    """Sparse rows of unit length of documents and of queries, weighted by the documents' words, and these words."""
    from scipy.sparse import csr_array, diags_array
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    if not any(map(words_of, documents)):
        return csr_array((len(documents), 0)), csr_array((len(queries), 0)), []
    counter = CountVectorizer(analyzer=words_of, dtype=np.float64)
    table = csr_array(counter.fit_transform(documents))
    shown_in = np.asarray((table > 0).sum(axis=0)).ravel()
    weight = diags_array(np.log1p(len(documents) / np.maximum(shown_in, 1)))
    queried = normalize(csr_array(counter.transform(queries)) @ weight) if queries else csr_array((0, len(shown_in)))
    return normalize(table @ weight), queried, counter.get_feature_names_out().tolist()


def k_means(vectors: Any, k: int, rng: np.random.Generator) -> Rows:
    """The cluster of each row of a sparse array: k-means++ starts, then until nothing moves, at most ROUNDS times.

    Raises DatasetError for more clusters than rows.
    """
    # Not scikit-learn's: its starts come of a legacy RandomState, and published clusters would be others.
    rows = vectors.shape[0]
    if k > rows:
        raise DatasetError(f"{rows} rows cannot form {k} clusters.", remedy="set fewer clusters")
    centres = vectors[[int(rng.integers(rows))]].toarray()
    while len(centres) < k:
        apart = _squares(vectors, centres).min(axis=1)
        chances = apart / apart.sum() if apart.sum() > 0 else None
        centres = np.vstack([centres, vectors[[int(rng.choice(rows, p=chances))]].toarray()])
    cluster = np.full(rows, -1, dtype=np.intp)
    for _ in range(ROUNDS):
        nearest = _squares(vectors, centres).argmin(axis=1)
        if (nearest == cluster).all():
            break
        cluster = nearest
        for number in range(k):
            if (cluster == number).any():
                centres[number] = vectors[cluster == number].mean(axis=0)
    return cluster


def _squares(vectors: Any, centres: Matrix) -> Matrix:
    own = (vectors * vectors).sum(axis=1)
    square: Matrix = own[:, None] - 2 * (vectors @ centres.T) + np.square(centres).sum(axis=1)
    return np.maximum(square, 0.0)


def clusters(table: Any, vocabulary: Sequence[str], k: int, rng: np.random.Generator) -> list[Cluster]:
    """Clusters of the rows of `tf_idf`'s table, the largest first."""
    cluster = k_means(table, k, rng)
    whole = table.mean(axis=0)
    described = []
    for number in np.unique(cluster):
        inside = cluster == number
        excess = table[inside].mean(axis=0) - whole
        typical = [vocabulary[column] for column in np.argsort(-excess, kind="stable")[:TYPICAL_WORDS]]
        described.append(Cluster(int(inside.sum()), tuple(typical), np.flatnonzero(inside)))
    return sorted(described, key=lambda group: -group.size)


def balanced(labels: Sequence[str], rng: np.random.Generator) -> Rows:
    """Rows with as many of each label as the rarest has, drawn at random, in their order."""
    codes = np.array(labels)
    fewest = min(Counter(labels).values())
    drawn = [rng.permutation(np.flatnonzero(codes == label))[:fewest] for label in sorted(set(labels))]
    return np.sort(np.concatenate(drawn))


@lru_cache(maxsize=2)
def _clustered(release: Captioned, k: int, seed: int) -> tuple[tuple[Cluster, ...], Any, NDArray[np.bool_]]:
    """Clusters, TF-IDF of every photograph's neutral captions, and who is of the first group."""
    texts = _texts(release)
    table, vocabulary = tf_idf(texts)
    first = release.codes[release.own] == 0
    groups = clusters(table, vocabulary, min(k, len(texts)), stream(seed, "checks", "clusters"))
    return tuple(groups), table, first


def _texts(release: Captioned) -> list[str]:
    return [" ".join(release.columns["neutral_captions"][row]) for row in release.own]


def _names(groups: Sequence[Cluster], given: Mapping[str, str]) -> list[str]:
    """Number and name of every cluster: the one that was given by hand, else two words that stand out."""
    words = (", ".join(group.words[:2]) or "no words" for group in groups)
    return [f"{number} {given.get(str(number), own)}" for number, own in enumerate(words, 1)]


def cluster_tables(release: Captioned, k: int, seed: int, given: Mapping[str, str]) -> list[StudyTable]:
    """Table 6, and appendix B.1's single words; `given` names clusters by their number."""
    groups, _, first = _clustered(release, k, seed)
    name = release.groups[0]
    ours = StudyTable(
        name="clusters",
        title=f"Clusters of neutral captions: by how much is {name} over-represented?",
        source="table 6, figure 1",
        columns=["cluster", "photographs", f"{name} above all", "words that stand out"],
        rows=[
            [called, group.size, _over(first, group.rows, seed, str(place)), ", ".join(group.words)]
            for place, (called, group) in enumerate(zip(_names(groups, given), groups, strict=True))
        ],
        note=f"Of {len(first):,} photographs {first.mean():.1%} are of {name}."
        " Limits resample the cluster's photographs.",
    )
    shown: dict[str, set[int]] = {}
    for place, text in enumerate(_texts(release)):
        for word in words_of(text):
            shown.setdefault(word, set()).add(place)
    frequent = sorted(shown, key=lambda word: (-len(shown[word]), word))[:MOST_WORDS]
    words = StudyTable(
        name="words",
        title=f"Photographs whose captions hold a word: by how much is {name} over-represented?",
        source="appendix B.1",
        columns=["word", "photographs", f"share of {name} above all"],
        rows=[[word, len(shown[word]), _over(first, np.array(sorted(shown[word])), seed, word)] for word in frequent],
        note="Single words, as the paper's comparison with classes of objects; of most photographs first.",
    )
    return [ours, words]


def _over(first: NDArray[np.bool_], rows: NDArray[np.intp], seed: int, what: str) -> Estimate:
    return mean_estimate(first[rows].astype(np.float64), stream(seed, "over", what), less=float(first.mean()))


def cluster_figures(release: Captioned, k: int, seed: int, given: Mapping[str, str]) -> list[StudyFigure]:
    """Figure 1: a map of the captions by whom their cluster over-represents, and the clusters as bars."""
    groups, vectors, of_first = _clustered(release, k, seed)
    first, names = release.groups[0], _names(groups, given)
    over = [_over(of_first, each.rows, seed, str(place)) for place, each in enumerate(groups)]
    order = sorted(range(len(groups)), key=lambda place: over[place].value or 0.0)
    bars = StudyFigure(
        name="over-representation",
        title=f"Over-representation of {first} by cluster of neutral captions",
        source="figure 1",
        kind="bars",
        x_label="cluster, by its number and name",
        y_label=f"share of {first} above all",
        series=[series_of(first, [names[place] for place in order], [over[place] for place in order])],
    )
    points = _map(vectors, seed)
    if points is None:
        return [bars]
    rows, xy = points
    series = []
    for name, group, number in zip(names, groups, over, strict=True):
        mine = np.flatnonzero(np.isin(rows, group.rows))
        if len(mine):
            series.append(FigureSeries(name=name, x=xy[mine, 0].tolist(), y=xy[mine, 1].tolist(), shade=number))
    drawn = StudyFigure(
        name="captions-map",
        title="Neutral captions, by whom their cluster over-represents (t-SNE)",
        source="figure 1",
        kind="map",
        x_label="first coordinate (no unit)",
        y_label="second coordinate (no unit)",
        shade_label=f"share of {first} above all",
        series=series,
        note="Each point is a photograph. Distances between far points mean nothing in such a map.",
    )
    return [drawn, bars]


def _map(vectors: Any, seed: int) -> tuple[NDArray[np.intp], Matrix] | None:
    """Up to MOST_POINTS rows and their places; None where there are too few for a map."""
    from sklearn.manifold import TSNE

    rows = np.sort(stream(seed, "map").permutation(vectors.shape[0])[:MOST_POINTS])
    if len(rows) < 10 or not vectors.shape[1]:
        return None
    perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
    made = TSNE(perplexity=perplexity, init="random", random_state=seed, n_jobs=1).fit_transform(
        vectors[rows].toarray()
    )
    return rows, np.round(made.astype(np.float64), 3)
