from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fairgate.portraits.draw import draw, png
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import ATTRIBUTES, GROUPS, HARD_LABELS, LABELS, SUBJECTS


def members(label: str, number: int) -> dict[tuple[str, str], np.ndarray]:
    scene = scene_of(0, label, number)
    return {group: np.asarray(draw(scene, label, *group)).astype(int) for group in GROUPS}


def differing(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one != other).any(axis=2)


def test_the_same_names_draw_the_same_bytes():
    once, again = (png(draw(scene_of(0, "doctor", 7), "doctor", "tan", "female")) for _ in range(2))
    assert once == again
    assert once != png(draw(scene_of(0, "doctor", 8), "doctor", "tan", "female"))


@pytest.mark.parametrize("label", LABELS)
def test_members_of_a_set_share_background_and_chest(label):
    pictures = list(members(label, 3).values())
    for picture in pictures[1:]:
        changed = differing(pictures[0], picture)
        assert not changed[:4].any(), "top edge"
        assert not changed[:, :5].any(), "left edge"
        assert not changed[:, -5:].any(), "right edge"
        assert not changed[86:, 40:56].any(), "the middle of the chest"


@pytest.mark.parametrize("gender", ATTRIBUTES["gender"])
def test_a_change_of_skin_tone_leaves_outfit_and_background_alone(gender):
    pictures = members("doctor", 5)
    changed = differing(pictures["light", gender], pictures["dark", gender])
    assert not changed[72:].any()
    assert not changed[:16].any()
    assert 0.02 < changed.mean() < 0.2


@pytest.mark.parametrize("subject", SUBJECTS)
def test_skin_darkens_from_tone_to_tone(subject):
    scene = scene_of(0, subject, 11)
    x, y = round(48 + scene.x), round(41 + scene.y + 2)
    nose = {group: picture[y - 2 : y + 2, x - 4 : x - 1].mean() for group, picture in members(subject, 11).items()}
    for gender in ATTRIBUTES["gender"]:
        tones = [nose[tone, gender] for tone in ATTRIBUTES["skin_tone"]]
        assert all(lighter - darker > 20 for lighter, darker in pairwise(tones)), tones


@pytest.mark.parametrize("tone", ATTRIBUTES["skin_tone"])
def test_gender_presentation_is_visible_in_every_tone(tone):
    for number in range(6):
        pictures = members("mechanic", number)
        assert differing(pictures[tone, "male"], pictures[tone, "female"]).mean() > 0.04


@pytest.mark.parametrize("subject", ["doctor", "mechanic"])
def test_the_nearest_neighbour_differs_in_small_things_only(subject):
    scene = scene_of(0, subject, 2)
    one, other = (np.asarray(draw(scene, label, "tan", "male")) for label in HARD_LABELS[subject][:2])
    assert 0.005 < differing(one, other).mean() < 0.06


def test_scenes_do_not_depend_on_the_group_and_vary_between_sets():
    scenes = [scene_of(0, "pilot", number) for number in range(40)]
    assert len({scene.background for scene in scenes}) > 4
    assert len({scene.cut for scene in scenes}) == 4
    assert scene_of(1, "pilot", 0) != scenes[0]


def test_a_picture_is_small():
    sizes = [len(png(draw(scene_of(0, s, n), s, *GROUPS[n]))) for s in SUBJECTS for n in range(8)]
    assert max(sizes) < 4096
