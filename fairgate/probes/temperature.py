"""Answers at another label temperature: P(true label) depends on it, and a checkpoint chooses its own.

A probe's answer to an image is softmax(beta x log-probabilities) with inverse temperature beta, 1 for the model's own.
The mean entropy of the answers falls as beta grows, so that one beta gives a wanted mean entropy: scores at the
temperature of another run need no second call of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairgate.probes.answers import Contest, ProbeScores

Floats = NDArray[np.float64]
Entropies = dict[str, float]
"""Mean entropy of a probe's answers by subject, in nats: 0 is certainty, ln(labels) is no answer."""

TOLERANCE = 1e-6
"""Nats within which a mean entropy counts as reached."""

_FARTHEST, _CLOSE = 64.0, 1e-9
"""In ln(beta): the ends of the searched range, and the step at which the search ends. At exp(64) every answer but an
exact tie is certain, at exp(-64) none is."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A probe's scores at the temperature that gives its answers wanted mean entropies.

    `beta` holds the inverse temperature by subject, 1 for the model's own. `missed` names the subjects whose answers
    have that entropy at no temperature: an image whose best labels are exactly equal is never certain. Their scores are
    those at the nearest one.
    """

    scores: ProbeScores
    beta: dict[str, float]
    missed: tuple[str, ...] = ()


def mean_entropies(scores: ProbeScores) -> Entropies:
    """Mean entropy of a classification's answers, by subject; nothing where all labels' probabilities are not held."""
    return {contest.subject: float(_entropy(contest.log_p, 1.0).mean()) for contest in scores.contests}


def match_entropies(scores: ProbeScores, wanted: Entropies) -> Matched:
    """A classification's scores at the temperature that gives each subject's answers the mean entropy `wanted`.

    By subject, since a checkpoint can bring the embeddings of some labels nearer to each other than those of others.
    Needs scores with `contests`, and an entropy for every subject.
    """
    value, betas, missed = scores.value.copy(), dict[str, float](), list[str]()
    for contest in scores.contests:
        beta = inverse_temperature(contest.log_p, wanted[contest.subject])
        betas[contest.subject] = beta
        if beta != 1.0:  # of several views of an image, their mean
            times = np.bincount(contest.rows, minlength=len(value))
            sums = np.bincount(contest.rows, _p_true(contest, beta), minlength=len(value))
            value[times > 0] = sums[times > 0] / times[times > 0]
        if abs(_entropy(contest.log_p, beta).mean() - wanted[contest.subject]) > TOLERANCE:
            missed.append(contest.subject)
    return Matched(replace(scores, value=value), betas, tuple(missed))


def inverse_temperature(log_p: Floats, wanted: float) -> float:
    """The beta at which softmax(beta x log_p), (images, labels), has the wanted mean entropy in nats.

    Exactly 1 where it has it already; where no beta gives it, the nearest end of the searched range.
    """
    shifted = log_p - log_p.max(axis=1, keepdims=True)  # before beta multiplies: tiny differences stay exact

    if abs(float(_entropy(shifted, 1.0).mean()) - wanted) <= _CLOSE:
        return 1.0
    low, high, exponent, move = -_FARTHEST, _FARTHEST, 0.0, _FARTHEST
    while abs(move) > _CLOSE:  # Newton's steps; half the range if they lead out of it, or do not shrink by half
        entropy, slope = _mean_entropy(shifted, float(np.exp(exponent)))
        low, high = (exponent, high) if entropy > wanted else (low, exponent)
        step = (wanted - entropy) / slope if slope < 0 else np.inf
        newton = low < exponent + step < high and abs(step) <= abs(move) / 2
        move = step if newton else (low + high) / 2 - exponent
        exponent += move
    return float(np.exp(exponent))


def _mean_entropy(shifted: Floats, beta: float) -> tuple[float, float]:
    """Mean entropy at an inverse temperature, and its slope in ln(beta), of logits whose largest is 0."""
    logits = beta * shifted
    weight = np.exp(logits)
    total = weight.sum(axis=1)
    with np.errstate(invalid="ignore"):
        weighted = np.where(weight > 0, weight * logits, 0.0)
        squared = np.where(weight > 0, weighted * logits, 0.0).sum(axis=1) / total
    expected = weighted.sum(axis=1) / total
    return float(np.maximum(np.log(total) - expected, 0.0).mean()), float((expected**2 - squared).mean())


def _entropy(log_p: Floats, beta: float) -> Floats:
    """Entropy of softmax(beta x log_p) of every image, (images,)."""
    logits = beta * (log_p - log_p.max(axis=1, keepdims=True))
    weight = np.exp(logits)
    total = weight.sum(axis=1)
    expected = np.where(weight > 0, weight * logits, 0.0).sum(axis=1) / total
    return np.asarray(np.maximum(np.log(total) - expected, 0.0))


def _p_true(contest: Contest, beta: float) -> Floats:
    """P(true label) at an inverse temperature, (images,)."""
    logits = beta * (contest.log_p - contest.log_p.max(axis=1, keepdims=True))
    weight = np.exp(logits)
    return np.asarray(weight[np.arange(len(weight)), contest.true] / weight.sum(axis=1))
