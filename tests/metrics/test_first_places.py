"""Top-k accuracy: by hand, under laws, and refused where it says nothing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fairgate.ground.errors import ScoresError, SuiteError
from fairgate.metrics import METRICS, Cell, MetricRequest
from fairgate.probes import PROBES, Contest, Probe, ProbeScores, mean_over_views, ranks_of

LABELS = ["a", "b", "c", "d", "e"]
LOGITS = np.array(
    [
        [5.0, 4.0, 3.0, 2.0, 1.0],  # a: first
        [5.0, 4.0, 3.0, 2.0, 1.0],  # c: third
        [2.0, 2.0, 1.0, 0.0, 0.0],  # a: ties with b, and counts as second
        [0.0, 0.0, 0.0, 0.0, 0.0],  # b: every label is as probable
    ]
)
TRUE = np.array([0, 2, 0, 1])


class Answering:
    """A model whose logits are known."""

    def __init__(self, logits: np.ndarray) -> None:
        self.logits = logits

    def log_probabilities(self, prompts: list[str]) -> np.ndarray:
        log_p = self.logits - np.log(np.exp(self.logits).sum(axis=1, keepdims=True))
        return log_p[:, [LABELS.index(prompt) for prompt in prompts]]


def probe(**keys: object) -> Probe:
    settings = {"kind": "zero_shot_classification", "template": "{label}", "labels": LABELS, "ranks": True}
    return PROBES["zero_shot_classification"].model_validate(settings | keys)


def answers(logits: np.ndarray, true: np.ndarray) -> ProbeScores:
    subject = np.array([LABELS[place] for place in true], dtype=object)
    rows = SimpleNamespace(subject=subject, attributes={})
    return probe().run("labels", Answering(logits), rows, None)["labels"]


def measured(metric: str, scores: ProbeScores, asked: Probe | None = None, **keys: int) -> float:
    chosen, rows = METRICS[metric].Settings.model_validate(keys), np.arange(len(scores.value))
    images = Cell(rows, rows, rows.astype(str), np.array(["thing"] * len(rows)), (), ())
    request = MetricRequest("check", metric, "labels", chosen, asked=asked or probe())
    return METRICS[metric].measure(request, images, [scores]).value


def test_by_hand() -> None:
    scores = answers(LOGITS, TRUE)
    assert scores.rank is not None
    assert scores.rank.tolist() == [1, 3, 2, 5]
    assert [measured("accuracy_at_k", scores, k=k) for k in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 0.75]


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Logits (images, labels), many of them equal, and true labels."""
    rng = np.random.default_rng(seed)
    images = int(rng.integers(2, 12))
    return rng.integers(-3, 4, (images, 5)).astype(float), rng.integers(0, 5, images), rng


@given(seed=st.integers(0, 2**32))
def test_among_one_label_it_is_accuracy_and_more_labels_lose_no_image(seed: int) -> None:
    scores = answers(*drawn(seed)[:2])
    shares = [measured("accuracy_at_k", scores, k=k) for k in (1, 2, 3, 4)]
    assert shares[0] == measured("accuracy", scores)
    assert shares == sorted(shares)


@given(seed=st.integers(0, 2**32), shift=st.integers(-5, 5), scale=st.sampled_from([0.25, 1.0, 8.0]))
def test_neither_the_order_of_images_or_labels_nor_the_temperature_matters(seed: int, shift: int, scale: float) -> None:
    logits, true, rng = drawn(seed)
    images, labels = rng.permutation(len(true)), rng.permutation(5)
    plain = answers(logits, true).rank
    assert plain is not None
    moved = scale * logits[images][:, labels] + shift
    contest = Contest("", np.arange(len(true)), moved, np.argsort(labels)[true[images]])
    np.testing.assert_array_equal(ranks_of([contest], len(true)), plain[images])


def test_of_several_views_it_is_the_share_of_views() -> None:
    scores = mean_over_views(answers(LOGITS, TRUE), 2)
    assert measured("accuracy_at_k", scores, probe(views=2), k=2) == 0.5
    assert measured("accuracy_at_k", scores, probe(views=2), k=4) == 0.75


@pytest.mark.parametrize(
    ("asked", "k", "message"),
    [
        (probe(ranks=False), 2, "write `ranks: true` at the probe 'labels'"),
        (probe(), 5, "choose k below the number of labels"),
        (probe(labels=[f"label {place}" for place in range(30)], views=4), 11, "choose k of 10 at most"),
    ],
)
def test_what_it_could_not_see_is_refused(asked: Probe, k: int, message: str) -> None:
    settings = METRICS["accuracy_at_k"].Settings.model_validate({"k": k})
    request = MetricRequest("check", "accuracy_at_k", "labels", settings, asked=asked)
    with pytest.raises(SuiteError) as caught:
        METRICS["accuracy_at_k"].require(request, SimpleNamespace(subjects=LABELS))
    assert message in str(caught.value.remedy)


def test_saved_scores_without_places_are_refused_and_so_are_places_of_no_right_label() -> None:
    with pytest.raises(ScoresError, match="no ranks, which accuracy_at_k needs"):
        measured("accuracy_at_k", replace(answers(LOGITS, TRUE), rank=None), k=2)
    with pytest.raises(ValidationError, match="no image is right or wrong"):
        probe(positive="a")


def test_a_probe_without_ranks_keeps_its_digest_and_its_answers() -> None:
    assert "ranks" not in probe(ranks=False).model_dump()
    rows = SimpleNamespace(subject=np.array(["a", "c", "a", "b"], dtype=object), attributes={})
    assert probe(ranks=False).run("labels", Answering(LOGITS), rows, None)["labels"].rank is None
