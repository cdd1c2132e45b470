"""The checks that paper 5 makes of edited photographs: tables 1 and 2, for a built `gensynth` or `genswap`.

Table 1 has a third row, CLIP's, which is missing here: the two others have no bias of their own, and what they show is
the dataset's. A model is measured by a fairness suite.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from fairgate.data import Dataset
from fairgate.errors import DatasetError
from fairgate.factory.dataset_bias import CLUSTERS, Cluster, balanced, clusters, telling_auc, tf_idf
from fairgate.generation import Matcher
from fairgate.metrics import bias_at_k, max_skew_at_k, recall_at_k
from fairgate.randomness import stream
from fairgate.steps.photos import BOX
from fairgate.steps.pictures import picture

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
        background_auc=telling_auc(masked, male, stream(seed, "checks", "background")),
        caption_auc=telling_auc(vectors, male, stream(seed, "checks", "captions")),
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
    asked = np.asarray(matcher.embed_texts([text for each in texts for text in each]), dtype=np.float64)
    step = max(1, SCORES // len(images))
    found = dict.fromkeys((k for k in RECALL_AT if k <= len(images)), 0.0)
    for start in range(0, len(asked), step):
        block = slice(start, start + step)
        scores = asked[block] @ images.T
        for k in found:
            found[k] += recall_at_k(scores, right[block], k) * len(scores) / len(asked)
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
