"""Portraits drawn for training: whole counterfactual sets at the size that the model sees."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.portraits.clip import SIZE
from fairgate.portraits.draw import draw
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import GROUPS, LABELS

RELEASE_SEED = 0
"""Scenes of the released sets come from this seed, those of training from others: no scene is in both."""

Pool = NDArray[np.uint8]


def draw_set(seed: int, label: str, number: int) -> NDArray[np.uint8]:
    """One set of a label as (groups, SIZE, SIZE, 3), resized as open_clip's preprocessing does."""
    scene = scene_of(seed, label, number)
    pictures = (draw(scene, label, *group) for group in GROUPS)
    return np.stack([np.asarray(p.resize((SIZE, SIZE), Image.Resampling.BICUBIC)) for p in pictures])


def draw_pool(seed: int, sets: int) -> Pool:
    """`sets` counterfactual sets of every label, as (sets, labels, groups, SIZE, SIZE, 3).

    Drawn in as many processes as there are cores; the result does not depend on their number.
    """
    if seed == RELEASE_SEED:
        raise ValueError("the release's scenes are held out: training draws from another seed")
    jobs = [(label, number) for number in range(sets) for label in LABELS]
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as workers:
        drawn = list(workers.map(partial(_draw_job, seed), jobs, chunksize=8))
    return np.stack(drawn).reshape(sets, len(LABELS), len(GROUPS), SIZE, SIZE, 3)


def _draw_job(seed: int, job: tuple[str, int]) -> NDArray[np.uint8]:
    return draw_set(seed, *job)
