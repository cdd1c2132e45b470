"""A planted loss: what the answers of a model are that has become worse about some images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import TextRows
from fairgate.probes import ProbeScores


def lose(scores: ProbeScores, inside: NDArray[np.bool_], size: float, rng: np.random.Generator) -> ProbeScores:
    """Answers with a loss of `size` in some images (images,): each one's number shrinks by the same share, and so many
    right answers become wrong, of several views in all of an image's. So many images no longer find their query. A
    wrong answer is another label that some image has."""
    value, correct, predicted = scores.value.copy(), scores.correct, scores.predicted
    mean = float(value[inside].mean()) if inside.any() else 0.0
    if mean > 0:
        value[inside] *= max(1 - size / mean, 0.0)
    if correct is not None and inside.any():
        correct = correct.copy()
        share = min(size / max(float(correct[inside].mean()), 1e-9), 1.0)
        lost = correct & inside & (rng.random(len(correct)) < share)
        correct[lost] = False
        if scores.truth is not None and predicted is not None:
            predicted = np.where(lost, _other_labels(scores.truth, rng), predicted)
    more, rank = dict(scores.more), scores.rank
    for name in more if inside.any() and "abstained" not in more else ():
        if name == "right" or name.startswith("within_"):
            share = min(size / max(float(more[name][inside].mean()), 1e-9), 1.0)
            more[name] = np.where(inside & (rng.random(len(value)) < share), 0.0, more[name])
    if rank is not None:
        rank = np.where(inside & (rng.random(len(value)) < size), np.iinfo(rank.dtype).max, rank)
    return replace(scores, value=value, predicted=predicted, correct=correct, rank=rank, contests=(), more=more)


def _other_labels(truth: TextRows, rng: np.random.Generator) -> NDArray[Any]:
    """For every image a label that is not its own, (images,); none, "", if all have the same."""
    known, codes = np.unique(truth.astype(str), return_inverse=True)
    if len(known) < 2:
        return np.full(len(truth), "", dtype=object)
    step = rng.integers(1, len(known), len(truth))
    others: NDArray[Any] = known[(codes + step) % len(known)].astype(object)
    return others
