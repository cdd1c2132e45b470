"""A checkpoint chooses its label temperature; its answers can be compared at another run's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fairgate.models.contract import log_softmax
from fairgate.probes import ProbeScores, classify, match_entropies, mean_entropies, scores_digest, temperature

IMAGES = 400
SUBJECT = np.array(["chef", "doctor"] * (IMAGES // 2), dtype=object)
LABELS = {"chef": ["chef", "cook"], "doctor": ["doctor", "nurse", "vet"]}


class Scaled:
    """A scorer of fixed cosines under a scale; a label's own scale comes on top."""

    def __init__(self, scale: float, **own: float) -> None:
        every = [label for labels in LABELS.values() for label in labels]
        cosines = np.random.default_rng(7).normal(0.0, 1.0, (IMAGES, len(every)))
        self._logits = {label: scale * own.get(label, 1.0) * cosines[:, at] for at, label in enumerate(every)}

    def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        return log_softmax(np.stack([self._logits[prompt] for prompt in prompts], axis=1))


def scored(scorer: Scaled) -> ProbeScores:
    return classify(scorer, SUBJECT, SUBJECT, LABELS.__getitem__, str)


def test_a_probes_mean_entropy_is_that_of_its_answers_by_subject() -> None:
    found = mean_entropies(scored(Scaled(0.0)))
    assert found == pytest.approx({"chef": np.log(2), "doctor": np.log(3)})
    logits = np.array([[np.log(3.0), 0.0]])
    sure = log_softmax(logits)
    by_hand = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert -(np.exp(sure) * sure).sum() == pytest.approx(by_hand)

    class One:
        def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]:
            assert len(prompts) == 2
            return sure

    one = np.array(["chef"], dtype=object)
    assert mean_entropies(classify(One(), one, one, LABELS.__getitem__, str)) == pytest.approx({"chef": by_hand})


@pytest.mark.parametrize("factor", [1e-12, 1e-4, 0.1, 0.8, 1.2, 10.0, 1e3])
def test_whatever_scale_a_checkpoint_chose_the_matched_answers_are_those_of_the_other_scale(factor: float) -> None:
    before, now = scored(Scaled(3.0)), scored(Scaled(3.0 * factor))
    assert np.abs(now.value - before.value).max() > 0.01
    matched = match_entropies(now, mean_entropies(before))
    assert matched.missed == ()
    assert matched.beta == pytest.approx({"chef": 1 / factor, "doctor": 1 / factor}, rel=1e-3)
    np.testing.assert_allclose(matched.scores.value, before.value, atol=1e-3 if factor < 1e-10 else 1e-6)
    assert matched.scores.correct is now.correct, "which label is the most probable does not depend on the temperature"


def test_answers_that_have_the_entropy_already_are_left_as_they_are_to_the_bit() -> None:
    one = scored(Scaled(3.0))
    matched = match_entropies(one, mean_entropies(one))
    assert matched.beta == {"chef": 1.0, "doctor": 1.0}
    np.testing.assert_array_equal(matched.scores.value, one.value)


@pytest.mark.parametrize("wanted", [0.0, 1e-12, 0.3, np.log(3), 2.0])
def test_no_wanted_entropy_takes_long_to_find(wanted: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a baseline that is certain, Newton's steps alone would take 760: every one reads all images."""
    steps, mean_entropy = [0], temperature._mean_entropy

    def counted(shifted: NDArray[np.float64], beta: float) -> tuple[float, float]:
        steps[0] += 1
        return mean_entropy(shifted, beta)

    monkeypatch.setattr(temperature, "_mean_entropy", counted)
    match_entropies(scored(Scaled(3.0)), {"chef": wanted, "doctor": wanted})
    assert 0 < steps[0] <= 2 * 60


def test_each_subjects_answers_have_a_temperature_of_their_own() -> None:
    before, now = scored(Scaled(3.0)), scored(Scaled(3.0, doctor=0.1, nurse=0.1, vet=0.1, chef=2.0, cook=2.0))
    matched = match_entropies(now, mean_entropies(before))
    assert matched.beta == pytest.approx({"chef": 0.5, "doctor": 10.0})
    np.testing.assert_allclose(matched.scores.value, before.value, atol=1e-6)


@pytest.mark.parametrize(("wanted", "p"), [({"chef": 0.0, "doctor": 0.0}, 1.0), ("flat", None)])
def test_certainty_and_ignorance_are_reached_in_the_limit(wanted: dict[str, float] | str, p: float | None) -> None:
    one = scored(Scaled(3.0))
    flat = {"chef": np.log(2), "doctor": np.log(3)}
    matched = match_entropies(one, flat if isinstance(wanted, str) else wanted)
    assert matched.missed == ()
    assert one.correct is not None
    expected = np.where(one.correct, 1.0, 0.0) if p else np.where(SUBJECT == "chef", 1 / 2, 1 / 3)
    np.testing.assert_allclose(matched.scores.value, expected, atol=1e-4)


def test_answers_with_exactly_equal_labels_are_never_certain_and_the_subject_is_named() -> None:
    sharp, blind = scored(Scaled(50.0)), scored(Scaled(3.0, doctor=0.0, nurse=0.0, vet=0.0))
    matched = match_entropies(blind, mean_entropies(sharp))
    assert matched.missed == ("doctor",)
    matched = match_entropies(sharp, {"chef": 1.0, "doctor": 1.0})
    assert matched.missed == ("chef",), "two labels have no entropy of 1"


def test_probabilities_of_all_labels_are_no_part_of_what_a_record_names() -> None:
    one = scored(Scaled(3.0))
    bare = ProbeScores(one.value, one.predicted, one.correct)
    assert scores_digest({"labels": one}) == scores_digest({"labels": bare})
    assert mean_entropies(bare) == {}
