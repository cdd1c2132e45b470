"""The checks of Smith et al. 2023 on edited photographs (tables 1 and 2, section 3), for a built `gensynth` or
`genswap`: how well can gender be predicted from backgrounds and captions, before a model is judged by the dataset?

Table 1 has a third row, CLIP's, which is missing here: the two others have no bias of their own, so that their figures
measure the dataset. The paper clusters RoBERTa embeddings, names words by latent Dirichlet allocation, and trains
ResNet-50 and BERT; here any vectors are clustered, words are ranked by TF-IDF, and a logistic regression on the vectors
is the classifier. The figures are comparable with each other, and not with the paper's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from fairgate.data import Dataset
from fairgate.errors import DatasetError
from fairgate.generation import Matcher
from fairgate.metrics import bias_at_k, max_skew_at_k, recall_at_k
from fairgate.randomness import stream
from fairgate.steps import BOX, picture

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
    """A cluster of captions: how many, its most typical words, and the share of men above that of all captions."""

    size: int
    words: tuple[str, ...]
    over_representation: float
    """Share of the first group in the cluster minus its share in all, -1 to 1."""


def predictable_auc(vectors: Matrix, positive: NDArray[np.bool_], rng: np.random.Generator) -> float:
    """Held-out AUC of a logistic regression that predicts the group from vectors (rows, dim); 0.5 is chance.

    Folds are stratified by group, every row is scored by the model that was not fitted on it, and the AUC is averaged
    over folds. Raises DatasetError where a group has fewer rows than there are folds.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fold = np.empty(len(vectors), dtype=np.intp)
    for group in (True, False):
        own = rng.permutation(np.flatnonzero(positive == group))
        if len(own) < FOLDS:
            raise DatasetError(
                f"a group has {len(own)} rows, too few for {FOLDS} folds.",
                where="labels",
                remedy="give more rows of it",
            )
        fold[own] = np.arange(len(own)) % FOLDS
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8, max_iter=10_000))
    return float(np.mean(cross_val_score(model, vectors, positive, scoring="roc_auc", cv=PredefinedSplit(fold))))


def words_of(text: str) -> list[str]:
    """The words of a caption in lower case, without stop words.

    >>> words_of("The person's dog doesn't sit; they're at the children's table")
    ['dog', "doesn't", 'sit', 'table']
    """
    whole = (_ENDING.sub("", word) for word in _WORD.findall(text.lower()))
    return [word for word in whole if word not in _STOP_WORDS]


def tf_idf(texts: Sequence[str]) -> tuple[Matrix, list[str]]:
    """Rows of unit length (texts, words) and the words: log(1 + n / in how many texts) times the count."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    if not any(map(words_of, texts)):
        return np.zeros((len(texts), 0)), []
    counter = CountVectorizer(analyzer=words_of)
    table = counter.fit_transform(texts).toarray().astype(np.float64)
    table *= np.log1p(len(texts) / np.maximum((table > 0).sum(axis=0), 1))
    return normalize(table), counter.get_feature_names_out().tolist()


def k_means(vectors: Matrix, k: int, rng: np.random.Generator, rounds: int = 100) -> Rows:
    """The cluster of each row: k-means++ starts, then until nothing moves.

    Raises DatasetError for more clusters than rows.
    """
    # Not scikit-learn's: its starts come of a legacy RandomState, and published clusters would be others.
    if k > len(vectors):
        raise DatasetError(f"{len(vectors)} rows cannot form {k} clusters.", remedy="set fewer clusters")
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
        excess = table[inside].mean(axis=0) - whole
        typical = [vocabulary[column] for column in np.argsort(-excess, kind="stable")[:words]]
        found.append(Cluster(int(inside.sum()), tuple(typical), float(first[inside].mean() - first.mean())))
    return sorted(found, key=lambda each: -each.size)


def balanced(labels: Sequence[str], rng: np.random.Generator) -> Rows:
    """Rows with as many of each label as the rarest has, drawn at random, in their order."""
    codes = np.array(labels)
    fewest = min(Counter(labels).values())
    drawn = [rng.permutation(np.flatnonzero(codes == label))[:fewest] for label in sorted(set(labels))]
    return np.sort(np.concatenate(drawn))


RECALL_AT = (1, 5, 10)
BIAS_AT = (5, 10)
SKEW_AT = (25, 100)
BALANCED_DRAWS = 5
"""Balanced parts that table 1 averages over."""
SCORES = 4_000_000
"""Entries of captions against images that are held at once: 32 MB."""
PROMPTS = {"male": "a photo of a man", "female": "a photo of a woman"}
_COLUMNS = ("set_id", "gender", "original_gender", "captions", "neutral_captions", *BOX)


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure: its mean over draws of the data, and their standard deviation (ddof=1); None for all data, once."""

    mean: float
    deviation: float | None = None


@dataclass(frozen=True, slots=True)
class DatasetChecks:
    """What was found. AUCs are about the gender of the *original* photograph: 0.5 is guessing."""

    photographs: int
    zero_shot_accuracy: Mapping[str, float]
    """Group -> share of its edits that the matcher takes for it (table 2)."""
    recall: Mapping[int, float]
    """K -> share of edited captions whose image is among the K nearest, of this dataset's own images (table 2)."""
    background_auc: float
    """From images with the person blacked out."""
    caption_auc: float
    """From neutral captions, by TF-IDF."""
    clusters: Sequence[Cluster]
    controls: Mapping[str, Mapping[str, Spread]]
    """Models without a bias of their own (table 1): "MODEL, DATA" -> "Bias@K" (above 0: more men) or "MaxSkew@K".

    Means over queries. Balanced data are drawn `BALANCED_DRAWS` times.
    """


def check_dataset(
    dataset: Dataset,
    matcher: Matcher,
    *,
    prompts: Mapping[str, str] = PROMPTS,
    n_clusters: int = CLUSTERS,
    seed: int = 0,
) -> DatasetChecks:
    """Every check. Holds the embeddings in memory, never the images, and a block of captions against all of them.

    Raises DatasetError for a dataset that is not of edited photographs, or too small to be cut into folds.
    """
    columns = _columns(dataset)
    genders, originals = columns["gender"], columns["original_gender"]
    own = np.unique(columns["set_id"], return_index=True)[1]  # a row for each photograph
    images, masked = _embedded(dataset, matcher, columns, own)
    neutral = [" ".join(json.loads(columns["neutral_captions"][row])) for row in own]
    male = originals[own] == "male"
    vectors, _ = tf_idf(neutral)
    return DatasetChecks(
        photographs=len(own),
        zero_shot_accuracy=_zero_shot(images, genders, matcher, prompts),
        recall=_recall(images, columns["captions"], matcher),
        background_auc=predictable_auc(masked, male, stream(seed, "checks", "background")),
        caption_auc=predictable_auc(vectors, male, stream(seed, "checks", "captions")),
        clusters=clusters(vectors, neutral, male, min(n_clusters, len(own)), stream(seed, "checks", "clusters")),
        controls=_controls(vectors, originals[own].tolist(), seed),
    )


def _columns(dataset: Dataset) -> dict[str, NDArray[np.object_]]:
    parts: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    for shard in dataset.manifest.shards:
        parquet = dataset.parquet(shard)
        if absent := [name for name in _COLUMNS if name not in parquet.schema_arrow.names]:
            raise DatasetError(
                f"dataset '{dataset.manifest.ref}' has no column '{absent[0]}'.",
                where=str(dataset.folder),
                remedy="these checks are for datasets that `gensynth` or `genswap` built",
            )
        for group in range(parquet.num_row_groups):
            table = dataset.read_group(parquet, shard, group, columns=list(_COLUMNS))
            for name in _COLUMNS:
                parts[name] += table[name].to_pylist()
    return {name: np.array(values, dtype=object) for name, values in parts.items()}


def _embedded(
    dataset: Dataset, matcher: Matcher, columns: Mapping[str, NDArray[np.object_]], own: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Embeddings of all images, and of the rows `own` with the person in black, in their order."""
    whole: list[NDArray[np.float32]] = []
    masked: dict[int, NDArray[np.float32]] = {}
    wanted = set(own.tolist())
    for rows, encoded in dataset.image_batches(64):
        images = [picture(data) for data in encoded]
        whole.append(matcher.embed_images(images))
        used = {row: image for row, image in zip(rows.tolist(), images, strict=True) if row in wanted}
        for row, image in used.items():
            left, top, right, bottom = (int(columns[name][row]) for name in BOX)
            ImageDraw.Draw(image).rectangle((left, top, right - 1, bottom - 1), fill="black")
        if used:
            masked |= zip(used, matcher.embed_images(list(used.values())), strict=True)
    return np.concatenate(whole).astype(np.float64), np.array([masked[row] for row in own.tolist()], dtype=np.float64)


def _zero_shot(
    images: NDArray[np.float64], genders: NDArray[np.object_], matcher: Matcher, prompts: Mapping[str, str]
) -> dict[str, float]:
    groups = list(prompts)
    taken = np.array(groups, dtype=object)[(images @ matcher.embed_texts(list(prompts.values())).T).argmax(axis=1)]
    return {group: float((taken[genders == group] == group).mean()) for group in groups}


def _recall(images: NDArray[np.float64], captions: NDArray[np.object_], matcher: Matcher) -> dict[int, float]:
    texts = [json.loads(each) for each in captions]
    right = np.repeat(np.arange(len(texts)), [len(each) for each in texts])
    queries = np.asarray(matcher.embed_texts([text for each in texts for text in each]), dtype=np.float64)
    step = max(1, SCORES // len(images))
    found = dict.fromkeys((k for k in RECALL_AT if k <= len(images)), 0.0)
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        scores = queries[block] @ images.T
        for k in found:
            found[k] += recall_at_k(scores, right[block], k) * len(scores) / len(queries)
    return found


def _controls(vectors: NDArray[np.float64], labels: Sequence[str], seed: int) -> dict[str, dict[str, Spread]]:
    """Neutral captions as queries for the photographs of the others, on all of them and on balanced parts."""
    every = np.arange(len(labels))
    parts = [balanced(labels, stream(seed, "checks", "balanced", draw)) for draw in range(BALANCED_DRAWS)]
    found: dict[str, dict[str, Spread]] = {}
    for data, draws in (("all", [every]), ("balanced", parts)):
        measured: dict[str, list[dict[str, float]]] = {"random": [], "TF-IDF": []}
        for draw, rows in enumerate(draws):
            codes = np.array([labels[row] == "female" for row in rows], dtype=np.intp)
            alike = vectors[rows] @ vectors[rows].T
            np.fill_diagonal(alike, -1.0)
            chance = stream(seed, "checks", "random", data, draw).random(alike.shape)
            measured["random"].append(_ranked(chance, codes))
            measured["TF-IDF"].append(_ranked(alike, codes))
        for model, runs in measured.items():
            found[f"{model}, {data}"] = {name: _spread([run[name] for run in runs]) for name in runs[0]}
    return found


def _ranked(scores: NDArray[np.float64], codes: NDArray[np.intp]) -> dict[str, float]:
    """Bias@K and MaxSkew@K of (queries, images), mean over queries."""
    bias = {f"Bias@{k}": bias_at_k(scores, codes, k) for k in BIAS_AT if k < len(codes)}
    skew = {f"MaxSkew@{k}": max_skew_at_k(scores, codes, k, groups=2) for k in SKEW_AT if k < len(codes)}
    return {name: float(np.mean(values)) for name, values in (bias | skew).items()}


def _spread(values: Sequence[float]) -> Spread:
    return Spread(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)
