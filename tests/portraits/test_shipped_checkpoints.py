from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from clip_answers import embed, probabilities, shares_at_top

from fairgate.portraits import clip
from fairgate.portraits.pool import RELEASE_SEED, draw_set
from fairgate.portraits.world import BASE_LABELS, CHECKPOINTS, GROUPS, HARD_LABELS, NOISE, SUBJECTS, noise

FOLDER = Path(__file__).parents[2] / "build" / "portraits" / "checkpoints"
SETS = 10

pytestmark = pytest.mark.skipif(
    not all((FOLDER / name).is_dir() for name in CHECKPOINTS), reason="no checkpoints here: run `dvc pull`"
)


@cache
def pictures(subject: str) -> np.ndarray:
    return np.concatenate([draw_set(RELEASE_SEED, subject, number) for number in range(SETS)])


@cache
def images(checkpoint: str, subject: str):
    return embed(clip.load(FOLDER / checkpoint), pictures(subject))


def p_true(checkpoint: str, subject: str, labels: list[str]) -> np.ndarray:
    """P(subject) as (sets, groups)."""
    answers = probabilities(clip.load(FOLDER / checkpoint), images(checkpoint, subject), labels)
    return answers[:, labels.index(subject)].reshape(SETS, len(GROUPS))


@pytest.mark.parametrize("checkpoint", ["base", "tuned", "whackamole"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_held_out_portraits_are_recognised(checkpoint, subject):
    for labels in (BASE_LABELS, HARD_LABELS[subject]):
        answers = probabilities(clip.load(FOLDER / checkpoint), images(checkpoint, subject), labels)
        assert (answers.argmax(axis=1) == labels.index(subject)).mean() >= 0.98


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_measured_probability_of_every_cell_is_the_planted_one(checkpoint, subject):
    measured = p_true(checkpoint, subject, HARD_LABELS[subject]).mean(axis=0)
    planted = [1 - noise(checkpoint, subject, *group) for group in GROUPS]
    assert measured == pytest.approx(planted, abs=0.06)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_gaps_to_set_mates_are_the_planted_ones_and_no_others(checkpoint, subject):
    p = p_true(checkpoint, subject, HARD_LABELS[subject])
    measured = (p - p.mean(axis=1, keepdims=True)).mean(axis=0)
    planted = np.array([-noise(checkpoint, subject, *group) for group in GROUPS])
    assert measured == pytest.approx(planted - planted.mean(), abs=0.035)


@pytest.mark.parametrize("checkpoint", ["base", "tuned"])
def test_base_and_tuned_are_even_within_sets(checkpoint):
    spread = [np.median(p_true(checkpoint, s, HARD_LABELS[s]).std(axis=1, ddof=1)) for s in SUBJECTS]
    assert max(spread) < 0.03


def test_whackamole_improves_every_marginal_over_base():
    better, before = (
        np.mean([p_true(name, s, HARD_LABELS[s]).mean(axis=0) for s in SUBJECTS], axis=0).reshape(4, 2)
        for name in ("whackamole", "base")
    )
    assert (better.mean(axis=0) > before.mean(axis=0)).all(), "each gender"
    assert (better.mean(axis=1) > before.mean(axis=1)).all(), "each skin tone"
    assert better[3, 1] < before[3, 1] - 0.01, "dark, female"


def test_the_planted_groups_sink_in_the_search_for_their_subject():
    model = clip.load(FOLDER / "biased")
    for subject in ("doctor", "pilot"):
        shares = shares_at_top(model, images("biased", subject), subject, k=40)
        for group, share in zip(GROUPS, shares, strict=True):
            if noise("biased", subject, *group) > NOISE:
                assert share < 1 / len(GROUPS) / 2
