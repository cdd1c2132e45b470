"""Answers at another label temperature: P(true label) depends on it, and a checkpoint chooses its own.

A probe's answer to an image is softmax(beta x log-probabilities) with inverse temperature beta, 1 for the model's own.
The mean entropy of the answers falls as beta grows, so that one beta gives a wanted mean entropy: scores at the
temperature of another run need no second call of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairgate.data import give_back, on_disk
from fairgate.probes.answers import Contest, ProbeScores

Floats = NDArray[np.float64]
Entropies = dict[str, float]
"""Mean entropy of a probe's answers by subject, in nats: 0 is certainty, ln(labels) is no answer."""

TOLERANCE = 1e-6
"""Nats within which a mean entropy counts as reached."""

_FARTHEST, _CLOSE, _NEAR = 64.0, 1e-9, 1e-5
"""In ln(beta): the ends of the searched range, the step at which the search ends, and Newton's step at which it ends,
since the next one would be as small as the square of this one. At exp(64) every answer but an exact tie is certain, at
exp(-64) none is."""
_SURE = -800.0
"""A logit whose exponential is 0: in place of less, so that their product is 0, too."""

_AT_ONCE = 1 << 15
"""Probabilities that are computed at once"""


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
    entropies = {contest.subject: _mean_entropy(contest.log_p, 1.0)[0] for contest in scores.contests}
    give_back()
    return entropies


def match_entropies(scores: ProbeScores, wanted: Entropies) -> Matched:
    """A classification's scores at the temperature that gives each subject's answers the mean entropy `wanted`.

    By subject, since a checkpoint can bring the embeddings of some labels nearer to each other than those of others.
    Needs scores with `contests`, and an entropy for every subject.
    """
    value, betas, missed = scores.value.copy(), dict[str, float](), list[str]()
    for contest in scores.contests:
        beta, entropy = inverse_temperature(contest.log_p, wanted[contest.subject])
        betas[contest.subject] = beta
        if beta != 1.0 and (contest.rows[1:] > contest.rows[:-1]).all():
            value[contest.rows] = _p_true(contest, beta)
        elif beta != 1.0:  # of several views of an image, their mean
            times = np.bincount(contest.rows, minlength=len(value))
            sums = np.bincount(contest.rows, _p_true(contest, beta), minlength=len(value))
            value[times > 0] = sums[times > 0] / times[times > 0]
        if abs(entropy - wanted[contest.subject]) > TOLERANCE:
            missed.append(contest.subject)
        give_back()
    return Matched(replace(scores, value=on_disk(value)), betas, tuple(missed))


def inverse_temperature(log_p: Floats, wanted: float) -> tuple[float, float]:
    """The beta at which softmax(beta x log_p), (images, labels), has the wanted mean entropy in nats; and that entropy.

    Exactly 1 where it has it already; where no beta gives it, the nearest end of the searched range.
    """
    low, high, exponent, move = -_FARTHEST, _FARTHEST, 0.0, _FARTHEST
    while abs(move) > _CLOSE:  # Newton's steps; half the range if they lead out of it, or do not shrink by half
        entropy, slope = _mean_entropy(log_p, float(np.exp(exponent)))
        if exponent == 0.0 and abs(entropy - wanted) <= _CLOSE:
            break
        low, high = (exponent, high) if entropy > wanted else (low, exponent)
        step = (wanted - entropy) / slope if slope < 0 else np.inf
        newton = low < exponent + step < high and abs(step) <= abs(move) / 2
        move = step if newton else (low + high) / 2 - exponent
        exponent += move
        if newton and abs(move) <= _NEAR:
            return float(np.exp(exponent)), entropy + slope * move
    return float(np.exp(exponent)), entropy


def _mean_entropy(log_p: Floats, beta: float) -> tuple[float, float]:
    """Mean entropy of softmax(beta x log_p), (images, labels), and its slope in ln(beta)."""
    entropy = slope = 0.0
    for rows in _parts(log_p):
        logits, weight, total = _softmax(log_p[rows], beta)
        weight *= np.maximum(logits, _SURE, out=logits)
        expected = weight.sum(axis=1) / total
        weight *= logits
        squared = weight.sum(axis=1) / total
        entropy += float(np.maximum(np.log(total) - expected, 0.0).sum())
        slope += float((expected**2 - squared).sum())
    return entropy / len(log_p), slope / len(log_p)


def _p_true(contest: Contest, beta: float) -> Floats:
    """P(true label) at an inverse temperature, (images,)."""
    p_true = np.empty(len(contest.true))
    for rows in _parts(contest.log_p):
        _, weight, total = _softmax(contest.log_p[rows], beta)
        p_true[rows] = weight[np.arange(len(total)), contest.true[rows]] / total
    return p_true


def _softmax(log_p: Floats, beta: float) -> tuple[Floats, Floats, Floats]:
    """Logits whose largest is 0 and their exponentials, (images, labels) each, and these' sums, (images,)."""
    log_p = np.asfortranarray(log_p)  # few labels, many images: a processor computes images side by side
    logits = beta * (log_p - log_p.max(axis=1, keepdims=True))  # before beta multiplies: tiny differences stay exact
    weight = np.exp(logits)
    return logits, weight, weight.sum(axis=1)


def _parts(log_p: Floats) -> Iterator[slice]:
    """Images whose numbers the processor's cache holds."""
    step = max(1, _AT_ONCE // log_p.shape[1])
    return (slice(start, start + step) for start in range(0, len(log_p), step))
