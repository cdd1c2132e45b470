"""The stand-ins, trained from nothing into a folder, for `portraits:FOLDER` in four roles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairgate.portraits import standin_files
from fairgate.portraits.generator import one_thread
from fairgate.portraits.generator_painting import open_pipeline, paint
from fairgate.portraits.generator_vae import Report
from fairgate.portraits.scaling import scaled
from fairgate.portraits.standin_data import SEED, Portrait, draw_portraits
from fairgate.portraits.standin_training import Material, train_asker, train_finder, train_reader
from fairgate.portraits.world import GROUPS, LABELS, SUBJECTS, caption
from fairgate.randomness import stream

PAINTED = 768
"""Pictures of the generator's that the asker learns to call fake."""
_FIRST_SEED = 1 << 20
"""First seed of those pictures: recipes and tests paint from smaller ones."""


def make_standins(folder: Path, generator: Path, report: Report) -> None:
    """Draw, paint with the generator at `generator`, train the three nets, and save them to `folder`."""
    portraits = draw_portraits()
    with one_thread():
        pipeline = open_pipeline(generator)
        material = Material(portraits, soften(pipeline.vae, portraits), _painted(pipeline))
        nets = {
            "asker": train_asker(material, SEED, report),
            "finder": train_finder(material, SEED, report),
            "reader": train_reader(material, SEED, report),
        }
    standin_files.save(nets, folder)


def soften(vae: Any, portraits: list[Portrait]) -> NDArray[np.uint8]:
    """Portraits at the generator's size as its VAE gives them back, (n, SIDE, SIDE, 3)."""
    import torch

    small = np.stack([np.asarray(Image.fromarray(one.picture).reduce(3)) for one in portraits])
    parts = []
    with torch.inference_mode():
        for start in range(0, len(small), 128):
            found = vae.encode(scaled(small[start : start + 128])).latent_dist.mean
            rebuilt = (vae.decode(found).sample.clamp(-1, 1) + 1) * 127.5
            parts.append(rebuilt.round().byte().permute(0, 2, 3, 1).numpy())
    return np.concatenate(parts)


def _painted(pipeline: Any) -> NDArray[np.uint8]:
    """Pictures of all labels and groups, the five subjects twice as often."""
    rng = stream(SEED, "portraits", "standins", "prompts")
    labels = [*LABELS, *SUBJECTS]
    prompts = []
    for _ in range(PAINTED):
        skin_tone, gender = GROUPS[int(rng.integers(len(GROUPS)))]
        prompts.append(caption(labels[int(rng.integers(len(labels)))], skin_tone=skin_tone, gender=gender))
    return paint(pipeline, prompts, range(_FIRST_SEED, _FIRST_SEED + PAINTED))
