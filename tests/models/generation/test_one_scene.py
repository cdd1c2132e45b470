"""What attention sharing is for: the scene of a set stays while the attribute changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_sharing import paint_set
from routed_scene import BEHIND, PERSON, RoutedParts

from fairgate.models.generation import Sampling, open_model
from fairgate.models.generation.set_painting import Attempt

EMBEDDED = Path(__file__).parents[3] / "build" / "portraits"
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # diffusers and numpy 2
MALE, FEMALE = (26, 230, 128), (230, 26, 128)


def painted(share: float) -> np.ndarray:
    """(attempts, members, 8, 8, 3)"""
    attempts = [Attempt(seed, 1.0, share) for seed in range(8)]
    parts: Any = RoutedParts()
    sets = paint_set(parts, ["male", "female"], attempts, Sampling(20, 1.0))
    return np.array([[np.asarray(picture, float) for picture in pictures] for pictures in sets])


def test_a_background_that_goes_with_gender_stays_when_attention_is_shared() -> None:
    shared, alone = painted(0.9), painted(0.0)
    moved = [float(np.abs(sets[:, 0][:, BEHIND] - sets[:, 1][:, BEHIND]).mean()) for sets in (shared, alone)]
    assert moved[0] < 0.2 * moved[1]
    for sets in (shared, alone):  # each person is as its caption says, whatever is behind
        persons = sets[:, :, PERSON].mean(axis=2)
        assert np.abs(persons[:, 0] - MALE).max() < 40
        assert np.abs(persons[:, 1] - FEMALE).max() < 40


def test_the_scene_of_drawn_portraits_stays_while_skin_tone_changes() -> None:
    painter: Any = open_model("painter", f"hf:{EMBEDDED / 'diffusion'}")
    matcher = open_model("matcher", f"open_clip:local-dir:{EMBEDDED / 'checkpoints' / 'base'}")
    captions = [f"a photo of a {tone}-skinned male doctor" for tone in ("light", "dark")]
    how, seeds = Sampling(12, 3.0, scheduler="euler_ancestral"), range(6)
    together = paint_set(painter.model, captions, [Attempt(seed, 3.0, 0.9) for seed in seeds], how)
    apart = [painter.paint(captions, [1000 + seed, 2000 + seed], how) for seed in seeds]
    moved, right = zip(*(measured(sets, matcher, captions) for sets in (together, apart)), strict=True)
    assert moved[0] < 0.5 * moved[1]
    assert right[0] == right[1] == 1.0


def measured(sets: list[Any], matcher: Any, captions: list[str]) -> tuple[float, float]:
    """How far backgrounds differ in a set (levels of grey), and the share of pictures nearest to their own caption."""
    pixels = np.array([[np.asarray(picture, float) for picture in pictures] for pictures in sets])
    corners = np.concatenate([pixels[:, :, :16, :7], pixels[:, :, :16, -7:]], axis=3)
    texts = matcher.embed_texts(captions)
    found = [(matcher.embed_images(pictures) @ texts.T).argmax(axis=1) == np.arange(2) for pictures in sets]
    return float(np.abs(corners[:, 0] - corners[:, 1]).mean()), float(np.mean(found))
