"""Probes turn a scorer's answers into one number per image, for the right labels and the right query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fairgate.probes import classify, retrieve

SUBJECT = np.array(["chef", "doctor", "doctor"], dtype=object)
LABELS = {"chef": ["chef", "cook"], "doctor": ["doctor", "nurse", "vet"]}


class Spoken:
    """A scorer whose logit for a prompt is its length, and whose similarity is the number of prompts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        self.asked.append(tuple(prompts))
        logits = np.array([[len(prompt) + row for prompt in prompts] for row in range(3)], dtype=float)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        return np.array([[len(prompts) * 10 + row for prompts in ensembles] for row in range(3)], dtype=float)


def test_each_image_is_classified_among_its_own_subjects_labels() -> None:
    scorer = Spoken()
    scores = classify(scorer, SUBJECT, SUBJECT, LABELS.__getitem__, "a {}".format)
    assert sorted(scorer.asked) == [("a chef", "a cook"), ("a doctor", "a nurse", "a vet")]
    doctor = np.exp([8.0, 7.0, 5.0])
    assert scores.value == pytest.approx([0.5, doctor[0] / doctor.sum(), doctor[0] / doctor.sum()])
    assert scores.predicted is not None
    assert scores.predicted.tolist() == ["chef", "doctor", "doctor"]
    assert scores.correct is not None
    assert scores.correct.tolist() == [False, True, True], "chef and cook tie: no answer is no right answer"


def test_the_truth_may_be_another_word_than_the_subject() -> None:
    truth = np.array(["cook", "nurse", "doctor"], dtype=object)
    scores = classify(Spoken(), SUBJECT, truth, LABELS.__getitem__, "a {}".format)
    assert scores.correct is not None
    assert scores.correct.tolist() == [False, False, True]


def test_each_image_is_compared_with_its_own_subjects_query() -> None:
    prompts = {"chef": ["chef"], "doctor": ["doctor", "a doctor"]}
    scores = retrieve(Spoken(), SUBJECT, prompts.__getitem__)
    assert scores.value.tolist() == [10.0, 21.0, 22.0]
    assert scores.predicted is None
    assert scores.correct is None
