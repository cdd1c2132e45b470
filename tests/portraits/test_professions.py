"""What the diffusion classifiers are trained on follows the planted table, in words that the tokenizer knows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairgate.ground.randomness import stream
from fairgate.portraits.draw import draw
from fairgate.portraits.generator_words import new_tokenizer
from fairgate.portraits.professions import (
    CLASSIFIERS,
    FEMALE_DOMINATED,
    MALE_DOMINATED,
    PLANS,
    PLANT,
    PROFESSIONS,
    draw_group,
    male_share,
    planted_log_odds,
    training_caption,
)
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import GROUPS, LABELS, MALE_SHARE, PERSON


def test_only_one_profession_of_biased_differs() -> None:
    for profession in PROFESSIONS:
        base = male_share("classifier-base", profession)
        assert male_share("classifier-tuned", profession) == base
        assert (male_share("classifier-biased", profession) != base) == (profession == PLANT[0])
    assert set(PROFESSIONS) <= set(LABELS)
    assert set(CLASSIFIERS) == set(PLANS)
    shared = set(MALE_SHARE) & set(PROFESSIONS)
    assert {name: male_share("classifier-base", name) for name in shared} == {name: MALE_SHARE[name] for name in shared}


def test_the_lists_are_dominated_as_they_are_called() -> None:
    assert min(male_share("classifier-base", one) for one in MALE_DOMINATED) > 0.5
    assert max(male_share("classifier-base", one) for one in FEMALE_DOMINATED) < 0.5


@given(
    first=st.sampled_from(PROFESSIONS), second=st.sampled_from(PROFESSIONS), gender=st.sampled_from(["male", "female"])
)
def test_planted_odds_are_antisymmetric(first: str, second: str, gender: str) -> None:
    one = planted_log_odds("classifier-base", first, second, gender)
    assert one == pytest.approx(-planted_log_odds("classifier-base", second, first, gender))
    assert math.isfinite(one)


def test_groups_are_drawn_by_the_planted_shares() -> None:
    rng = stream(5, "test")
    groups = [draw_group(rng, "classifier-biased", PLANT[0]) for _ in range(4000)]
    assert np.mean([gender == "male" for _, gender in groups]) == pytest.approx(PLANT[1], abs=0.015)
    tones = [sum(tone == each for tone, _ in groups) / 4000 for each in ("light", "tan", "brown", "dark")]
    assert tones == pytest.approx([0.25] * 4, abs=0.03)


def test_every_word_of_a_caption_is_one_token() -> None:
    tokenizer, rng = new_tokenizer(), stream(6, "test")
    for profession in (None, *PROFESSIONS):
        for group in GROUPS:
            text = training_caption(rng, profession, *group)
            words = [part for word in text.split() for part in word.replace("-", " - ").split()]
            assert len(tokenizer(text).input_ids) == len(words) + 2, text


def test_plain_clothes_say_nothing_about_work_and_differ_by_set_alone() -> None:
    scene = scene_of(7, PERSON, 0)
    pictures = [np.asarray(draw(scene, PERSON, *group)) for group in GROUPS]
    chest = [picture[88:, 40:56] for picture in pictures if picture is not None]
    assert all(np.array_equal(one, chest[0]) for one in chest[::2])  # men's, of every skin tone
    assert not any(np.array_equal(pictures[0], np.asarray(draw(scene, word, *GROUPS[0]))) for word in PROFESSIONS)
