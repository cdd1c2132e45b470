"""How much of a dataset's gender its backgrounds and captions give away, before any model is judged by it.

Smith et al. 2023, section 3: clusters of neutral captions with the share of men in them, and classifiers that guess the
gender where it was taken out. The paper clusters RoBERTa embeddings, names words by latent Dirichlet allocation, and
trains ResNet-50 and BERT; here any vectors are clustered, words are those that stand out by TF-IDF, and a logistic
regression on the vectors does the guessing: another instrument, whose figures are compared with each other alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import DatasetError

Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]

CLUSTERS = 20
"""As published."""
FOLDS = 5
_SAY_LITTLE = (
    "a an the of in on at by with to and or is are as for from up it this that next near "
    "his her its their theirs them they person people child children"
)
_STOP_WORDS = frozenset(_SAY_LITTLE.split())
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ENDING = re.compile(r"['’](?:s|re)$")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Captions that lie together: how many, the words that stand out, and the share of men above the whole's."""

    size: int
    words: tuple[str, ...]
    over_representation: float
    """Share of the first group in the cluster minus its share in all, -1 to 1."""


def auc(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """The chance that a positive scores above a negative, ties by half: 0.5 is guessing.

    Raises DatasetError where all rows are of one group.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    from scipy.stats import rankdata

    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        raise DatasetError(
            "all rows are of one group.", where="labels", remedy="give rows of both groups to tell them apart"
        )
    return float((rankdata(scores)[positive].sum() - n * (n + 1) / 2) / (n * m))


def telling_auc(vectors: Matrix, positive: NDArray[np.bool_], rng: np.random.Generator, folds: int = FOLDS) -> float:
    """Held-out AUC of a logistic regression that guesses the group from vectors (rows, dim); 0.5: they do not tell.

    Rows are dealt to folds group by group; every row is scored once, by a model that never saw it, and folds are
    averaged. Raises DatasetError where a group has fewer rows than there are folds.
    """
    fold = np.empty(len(vectors), dtype=np.intp)
    for group in (True, False):
        own = rng.permutation(np.flatnonzero(positive == group))
        if len(own) < folds:
            raise DatasetError(
                f"a group has {len(own)} rows, and {folds} folds are asked for.",
                where="labels",
                remedy="give more rows of it, or ask for fewer folds",
            )
        fold[own] = np.arange(len(own)) % folds
    found = []
    for each in range(folds):
        held = fold == each
        weights = _logistic(vectors[~held], positive[~held])
        found.append(auc(_with_one(vectors[held], vectors[~held]) @ weights, positive[held]))
    return float(np.mean(found))


def _with_one(vectors: Matrix, like: Matrix) -> Matrix:
    """Standardised as the training rows, with a constant."""
    spread = like.std(axis=0)
    scaled = (vectors - like.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.hstack([scaled, np.ones((len(vectors), 1))])


def _logistic(vectors: Matrix, positive: NDArray[np.bool_]) -> Matrix:
    from scipy.optimize import minimize
    from scipy.special import expit

    design, target = _with_one(vectors, vectors), positive.astype(np.float64)

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        margin = design @ weights
        value = np.logaddexp(0.0, margin).sum() - margin @ target + 0.5 * weights[:-1] @ weights[:-1]
        slope = design.T @ (expit(margin) - target)
        slope[:-1] += weights[:-1]
        return float(value), slope

    weights: Matrix = minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B").x
    return weights


def words_of(text: str) -> list[str]:
    """The words of a caption in lower case, without those that say little.

    >>> words_of("The person's dog doesn't sit; they're at the children's table")
    ['dog', "doesn't", 'sit', 'table']
    """
    whole = (_ENDING.sub("", word) for word in _WORD.findall(text.lower()))
    return [word for word in whole if word not in _STOP_WORDS]


def tf_idf(texts: Sequence[str]) -> tuple[Matrix, list[str]]:
    """Rows of unit length (texts, words) and the words: log(1 + n / in how many texts) times the count."""
    counted = [Counter(words_of(text)) for text in texts]
    vocabulary = sorted({word for words in counted for word in words})
    place = {word: column for column, word in enumerate(vocabulary)}
    table = np.zeros((len(texts), len(vocabulary)))
    for row, words in enumerate(counted):
        for word, times in words.items():
            table[row, place[word]] = times
    table *= np.log1p(len(texts) / np.maximum((table > 0).sum(axis=0), 1))
    length = np.linalg.norm(table, axis=1, keepdims=True)
    return table / np.where(length > 0, length, 1.0), vocabulary


def k_means(vectors: Matrix, k: int, rng: np.random.Generator, rounds: int = 100) -> Rows:
    """The cluster of each row: k-means++ starts, then until nothing moves.

    Raises DatasetError for more clusters than rows.
    """
    if k > len(vectors):
        raise DatasetError(
            f"{k} clusters are asked for, and there are {len(vectors)} rows.", remedy="ask for fewer clusters"
        )
    centres = vectors[[int(rng.integers(len(vectors)))]]
    while len(centres) < k:
        apart = _squares(vectors, centres).min(axis=1)
        chances = apart / apart.sum() if apart.sum() > 0 else None
        centres = np.vstack([centres, vectors[int(rng.choice(len(vectors), p=chances))]])
    cluster = np.full(len(vectors), -1, dtype=np.intp)
    for _ in range(rounds):
        nearest = _squares(vectors, centres).argmin(axis=1)
        if (nearest == cluster).all():
            break
        cluster = nearest
        for each in range(k):
            if (cluster == each).any():
                centres[each] = vectors[cluster == each].mean(axis=0)
    return cluster


def _squares(vectors: Matrix, centres: Matrix) -> Matrix:
    square: Matrix = np.square(vectors).sum(axis=1)[:, None] - 2 * vectors @ centres.T + np.square(centres).sum(axis=1)
    return np.maximum(square, 0.0)


def clusters(
    vectors: Matrix, texts: Sequence[str], first: NDArray[np.bool_], k: int, rng: np.random.Generator, words: int = 10
) -> list[Cluster]:
    """Clusters of rows, the largest first: `first` (rows,) says who is of the first group (men, in the paper)."""
    cluster = k_means(vectors, k, rng)
    table, vocabulary = tf_idf(texts)
    whole = table.mean(axis=0)
    found = []
    for each in np.unique(cluster):
        inside = cluster == each
        stands_out = table[inside].mean(axis=0) - whole
        telling = [vocabulary[column] for column in np.argsort(-stands_out, kind="stable")[:words]]
        found.append(Cluster(int(inside.sum()), tuple(telling), float(first[inside].mean() - first.mean())))
    return sorted(found, key=lambda each: -each.size)


def balanced(labels: Sequence[str], rng: np.random.Generator) -> Rows:
    """Rows with as many of each label as the rarest has, drawn at random, in their order."""
    codes = np.array(labels)
    fewest = min(Counter(labels).values())
    drawn = [rng.permutation(np.flatnonzero(codes == label))[:fewest] for label in sorted(set(labels))]
    return np.sort(np.concatenate(drawn))
