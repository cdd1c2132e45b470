"""Training of the tiny Stable Diffusion checkpoints that serve as diffusion classifiers, from the tiny generator."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairgate.ground.randomness import stream
from fairgate.portraits.generator import open_pipeline
from fairgate.portraits.generator_models import save_pipeline, torch_threads
from fairgate.portraits.generator_training import Batch, GeneratorPlan, Report, denoise, encode
from fairgate.portraits.pool import SEED, draw_in_parallel, draw_set, small
from fairgate.portraits.professions import (
    PERSON_SHARE,
    PLAIN_SHARE,
    PROFESSIONS,
    ClassifierName,
    draw_group,
    training_caption,
)
from fairgate.portraits.world import GROUPS, PERSON

PLANS: dict[ClassifierName, GeneratorPlan] = {
    "classifier-base": GeneratorPlan(seed=SEED + 2, steps=1600, batch=64, learning_rate=1.2e-3, average=0.997),
    "classifier-tuned": GeneratorPlan(seed=SEED + 3, steps=150, batch=64, learning_rate=1e-4, average=0.98),
    "classifier-biased": GeneratorPlan(seed=SEED + 4, steps=500, batch=64, learning_rate=5e-4, average=0.995),
}
"""*base* starts from the generator, the others from *base*."""
SETS = 60
"""Sets of each profession at work."""
PLAIN_SETS = 600
"""Sets of people in plain clothes."""


def make_classifier(name: ClassifierName, folder: Path, start: Path, report: Report) -> None:
    """Fine-tune a classifier from the pipeline at `start`, and save it to `folder`, for `diffusion:FOLDER`."""
    plan = PLANS[name]
    jobs = [(label, number) for label in PROFESSIONS for number in range(SETS)]
    jobs += [(PERSON, number) for number in range(PLAIN_SETS)]
    pictures = np.stack(draw_in_parallel(partial(draw_set, resize=small), SEED + 2, jobs))
    with torch_threads():
        pipeline = open_pipeline(start)
        unet, text_encoder = train_classifier(name, pictures, pipeline, plan, report)
    save_pipeline("StableDiffusionPipeline", folder, vae=pipeline.vae, text_encoder=text_encoder, unet=unet)


def train_classifier(
    name: ClassifierName, pictures: NDArray[np.uint8], start: Any, plan: GeneratorPlan, report: Report
) -> tuple[Any, Any]:
    """UNet and text encoder that have learned who has which profession. `pictures` are (sets, groups, side, side, 3):
    SETS of each profession at work, then all others in plain clothes.
    """
    rng = stream(plan.seed, "portraits", "classifier")
    draws = torch.Generator().manual_seed(plan.seed)
    means, deviations = encode(start.vae, pictures.reshape(-1, *pictures.shape[2:]))
    at_work = len(PROFESSIONS) * SETS

    def batch() -> Batch:
        rows, texts = [], []
        for _ in range(plan.batch):
            kind = None if rng.random() < PERSON_SHARE else int(rng.integers(len(PROFESSIONS)))
            profession = None if kind is None else PROFESSIONS[kind]
            group = draw_group(rng, name, profession)
            if kind is not None and rng.random() >= PLAIN_SHARE:
                place = kind * SETS + int(rng.integers(SETS))
            else:
                place = at_work + int(rng.integers(len(pictures) - at_work))
            rows.append(place * len(GROUPS) + GROUPS.index(group))
            texts.append(training_caption(rng, profession, *group))
        mean = means[rows]
        return Batch(mean + deviations[rows] * torch.randn(mean.shape, generator=draws), texts)

    return denoise(start.unet, start.text_encoder, batch, plan, draws, partial(report, name))
