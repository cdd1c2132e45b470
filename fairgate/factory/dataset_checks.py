"""The checks that paper 5 makes of edited photographs: tables 1 and 2, for a built `gensynth` or `genswap`."""

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
from fairgate.metrics import max_skew_at_k, recall_at_k
from fairgate.models.making import Matcher
from fairgate.randomness import stream
from fairgate.steps.photos import BOX
from fairgate.steps.pictures import picture

RECALL_AT = (1, 5, 10)
SKEW_AT = (25, 100)
PROMPTS = {"male": "a photo of a man", "female": "a photo of a woman"}
_COLUMNS = ("set_id", "gender", "original_gender", "captions", "neutral_captions", *BOX)


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
    control_skew: Mapping[str, Mapping[int, float]]
    """MaxSkew@K of models without a bias of their own (table 1), by "MODEL, DATA"."""


def check_dataset(
    dataset: Dataset,
    matcher: Matcher,
    *,
    prompts: Mapping[str, str] = PROMPTS,
    n_clusters: int = CLUSTERS,
    seed: int = 0,
) -> DatasetChecks:
    """Every check. Holds the embeddings in memory, never the images.

    Raises DatasetError for a dataset that is not of edited photographs, or too small to be cut into folds.
    """
    columns = _columns(dataset)
    genders, originals = columns["gender"], columns["original_gender"]
    images, masked = _embedded(dataset, matcher, columns)
    own = np.unique(columns["set_id"], return_index=True)[1]  # a row for each photograph
    neutral = [" ".join(json.loads(columns["neutral_captions"][row])) for row in own]
    male = originals[own] == "male"
    vectors, _ = tf_idf(neutral)
    return DatasetChecks(
        photographs=len(own),
        zero_shot_accuracy=_zero_shot(images, genders, matcher, prompts),
        recall=_recall(images, columns["captions"], matcher),
        background_auc=telling_auc(masked[own], male, stream(seed, "checks", "background")),
        caption_auc=telling_auc(vectors, male, stream(seed, "checks", "captions")),
        clusters=clusters(vectors, neutral, male, min(n_clusters, len(own)), stream(seed, "checks", "clusters")),
        control_skew=_control_skew(vectors, originals[own].tolist(), seed),
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
    dataset: Dataset, matcher: Matcher, columns: Mapping[str, NDArray[np.object_]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Embeddings of all images, and of all images with the person in black."""
    whole, masked = [], []
    for rows, encoded in dataset.image_batches(64):
        images = [picture(data) for data in encoded]
        whole.append(matcher.embed_images(images))
        for row, image in zip(rows, images, strict=True):
            left, top, right, bottom = (int(columns[name][row]) for name in BOX)
            ImageDraw.Draw(image).rectangle((left, top, right - 1, bottom - 1), fill="black")
        masked.append(matcher.embed_images(images))
    return np.concatenate(whole).astype(np.float64), np.concatenate(masked).astype(np.float64)


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
    return {k: recall_at_k(asked @ images.T, right, k) for k in RECALL_AT if k <= len(images)}


def _control_skew(vectors: NDArray[np.float64], labels: Sequence[str], seed: int) -> dict[str, dict[int, float]]:
    """Neutral captions as queries for the photographs of the others, on all of them and on a balanced part."""
    found: dict[str, dict[int, float]] = {}
    every = np.arange(len(labels))
    for data, rows in (("all", every), ("balanced", balanced(labels, stream(seed, "checks", "balanced")))):
        codes = np.array([labels[row] == "female" for row in rows], dtype=np.intp)
        alike = vectors[rows] @ vectors[rows].T
        np.fill_diagonal(alike, -1.0)
        chance = stream(seed, "checks", "random", data).random(alike.shape)
        for model, scores in (("random", chance), ("TF-IDF", alike)):
            found[f"{model}, {data}"] = {
                k: float(np.mean(max_skew_at_k(scores, codes, k, groups=2))) for k in SKEW_AT if k < len(rows)
            }
    return found
