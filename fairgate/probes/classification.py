"""Zero-shot classification: which of these labels is it? (Lui et al. 2023, "Fairness Task")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.probes.scores import Contest, ProbeScores


class Classifier(Protocol):
    """A scorer that can weigh prompts against each other."""

    def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        """(images, prompts), log-softmax over exactly these prompts at the model's own scale."""
        ...


def classify(
    scorer: Classifier,
    subject: NDArray[Any],
    truth: NDArray[Any],
    labels_of: Callable[[str], Sequence[str]],
    prompt: Callable[[str], str],
) -> ProbeScores:
    """P(true label), predicted label and correctness of every image.

    `subject` and `truth` are (images,) strings; `labels_of(subject)` are the labels that compete for its images, and
    `prompt(label)` the text that the model sees. Every true label must be among its subject's labels. A label that is
    no more probable than another is no answer: an image whose best labels tie is not correct.
    """
    value = np.empty(len(subject))
    predicted = np.empty(len(subject), dtype=object)
    decided = np.empty(len(subject), dtype=bool)
    names, code_of_row = np.unique(subject, return_inverse=True)
    labels_by_code = [tuple(labels_of(name)) for name in names.tolist()]
    contests = list[Contest]()
    for labels in dict.fromkeys(labels_by_code):
        answers = scorer.log_probabilities([prompt(label) for label in labels])
        column = {label: place for place, label in enumerate(labels)}
        for code in (code for code, own in enumerate(labels_by_code) if own == labels):
            rows = np.flatnonzero(code_of_row == code)
            true = np.fromiter((column[label] for label in truth[rows].tolist()), dtype=np.int64, count=len(rows))
            contests.append(Contest(str(names[code]), rows, answers[rows], true))
            log_p = contests[-1].log_p
            value[rows] = np.exp(log_p[np.arange(len(rows)), true])
            predicted[rows] = np.asarray(labels, dtype=object)[log_p.argmax(axis=1)]
            decided[rows] = (log_p == log_p.max(axis=1, keepdims=True)).sum(axis=1) == 1
    correct = (predicted == truth) & decided
    return ProbeScores(value, predicted, correct, contests=tuple(contests))
