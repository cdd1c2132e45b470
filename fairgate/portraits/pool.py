"""Portraits drawn for training: whole counterfactual sets, at the size that the CLIP sees or that the generator and the
editor paint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.portraits.canvas import UNITS
from fairgate.portraits.draw import draw
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import COOL_SHARE, GROUPS, LABELS, MALE_SHARE, SUBJECTS, is_cool, label_shares

SIZE = 48
"""Side of the pictures that the tiny CLIP sees, in pixels."""
SIDE = 32
"""Side of the generator's pictures in pixels."""

RELEASE_SEED = 0
"""Scenes of the released sets come from this seed, those of training from others: no scene is in both."""

Pool = NDArray[np.uint8]
Drawn = TypeVar("Drawn")


def draw_in_parallel(
    draw_one: Callable[[int, str, int], Drawn], seed: int, jobs: Sequence[tuple[str, int]]
) -> list[Drawn]:
    """`draw_one(seed, label, number)` for each (label, number), in as many processes as there are cores.

    Raises ValueError for the release's seed.
    """
    if seed == RELEASE_SEED:
        raise ValueError("the release's scenes are held out: training draws from another seed")
    with ProcessPoolExecutor() as workers:
        return list(workers.map(partial(draw_one, seed), *zip(*jobs, strict=True), chunksize=8))


def clip_sized(picture: Image.Image) -> NDArray[np.uint8]:
    """A drawn portrait as (SIZE, SIZE, 3), resized as open_clip's preprocessing does."""
    return np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.BICUBIC))


def small(picture: Image.Image) -> NDArray[np.uint8]:
    """A drawn portrait at the generator's size, (SIDE, SIDE, 3)."""
    return np.asarray(picture.reduce(UNITS // SIDE))


def draw_set(
    seed: int, label: str, number: int, resize: Callable[[Image.Image], NDArray[np.uint8]] = clip_sized
) -> NDArray[np.uint8]:
    """One set of a label, (groups, side, side, 3)."""
    scene = scene_of(seed, label, number)
    return np.stack([resize(draw(scene, label, *group)) for group in GROUPS])


def draw_pool(seed: int, sets: int) -> Pool:
    """`sets` counterfactual sets of every label, as (sets, labels, groups, SIZE, SIZE, 3)."""
    drawn = draw_in_parallel(draw_set, seed, [(label, number) for number in range(sets) for label in LABELS])
    return np.stack(drawn).reshape(sets, len(LABELS), len(GROUPS), SIZE, SIZE, 3)


SEED = 11
SETS = 200
"""Sets of each of the five subjects; of each other label there are a third as many."""


@dataclass(frozen=True, slots=True)
class DrawnSets:
    """Drawn sets: `pictures` (sets, groups, SIDE, SIDE, 3), with the label and background of every set."""

    pictures: NDArray[np.uint8]
    labels: tuple[str, ...]
    backgrounds: tuple[int, ...]

    def shares(self) -> NDArray[np.float64]:
        """P(picture) in the generator's training data as (sets, groups): exactly what is planted."""
        of_label = dict(zip(LABELS, label_shares(), strict=True))
        kinds = list(zip(self.labels, map(is_cool, self.backgrounds), strict=True))
        sets = Counter(kinds)
        shares = np.zeros((len(kinds), len(GROUPS)))
        for row, (label, cool) in enumerate(kinds):
            for column, (_, gender) in enumerate(GROUPS):
                p_male = MALE_SHARE.get(label, 0.5)
                p_gender = p_male if gender == "male" else 1 - p_male
                p_cool = COOL_SHARE[gender] if cool else 1 - COOL_SHARE[gender]
                shares[row, column] = of_label[label] * p_gender * p_cool / (len(GROUPS) // 2 * sets[label, cool])
        whole: NDArray[np.float64] = shares / shares.sum()
        return whole


def draw_sets(seed: int = SEED, sets: int = SETS) -> DrawnSets:
    """The training sets of the generator and the editor."""
    jobs = [(label, number) for label in LABELS for number in range(sets if label in SUBJECTS else -(-sets // 3))]
    pictures = np.stack(draw_in_parallel(partial(draw_set, resize=small), seed, jobs))
    backgrounds = tuple(scene_of(seed, *job).background for job in jobs)
    return DrawnSets(pictures, tuple(label for label, _ in jobs), backgrounds)
