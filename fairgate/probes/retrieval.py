"""Retrieval: how well does each image answer a prompt that names its subject and no attribute? (Howard et al.)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.probes.scores import ProbeScores


class Ranker(Protocol):
    """A scorer that can compare images with averaged prompts."""

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """(images, ensembles), cosine to the average of each ensemble's text embeddings."""
        ...


def retrieve(scorer: Ranker, subject: NDArray[Any], prompts_of: Callable[[str], Sequence[str]]) -> ProbeScores:
    """Similarity of every image to its own subject's query; the gallery of a query is its subject's images.

    `subject` is (images,) strings; `prompts_of(subject)` are the neutral prompts that are averaged into its query.
    Where there are several subjects, `rank` is the place of the own query among all of them, equal ones counted as
    nearer: a model that tells no two subjects apart finds nobody.
    """
    names = list(dict.fromkeys(subject.tolist()))
    similarity = scorer.similarity([list(prompts_of(name)) for name in names])
    column = {name: position for position, name in enumerate(names)}
    own = np.fromiter((column[name] for name in subject.tolist()), dtype=np.int64, count=len(subject))
    value = np.ascontiguousarray(similarity[np.arange(len(subject)), own])
    rank = (similarity >= value[:, None]).sum(axis=1).astype(np.int64) if len(names) > 1 else None
    return ProbeScores(value, rank=rank)
