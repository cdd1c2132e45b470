"""The tiny Stable Diffusion, trained from nothing into a folder that diffusers' StableDiffusionPipeline loads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairgate.portraits.generator_models import THREADS, save_pipeline
from fairgate.portraits.generator_pool import SEED, Sets, draw_sets
from fairgate.portraits.generator_training import Plan, train_generator
from fairgate.portraits.generator_vae import Report, train_vae

PLAN = Plan(seed=SEED, steps=2600, batch=64)


def make_generator(folder: Path, report: Report) -> None:
    """Draw the training sets, train VAE and denoiser, and save them to `folder`, for `hf:FOLDER` as painter."""
    sets = draw_sets()
    with one_thread():
        vae = train_vae(flat(sets), seed=SEED, report=report)
        unet, text_encoder = train_generator(sets, vae, PLAN, report)
    save_pipeline("StableDiffusionPipeline", folder, vae=vae, text_encoder=text_encoder, unet=unet)


def flat(sets: Sets) -> NDArray[np.uint8]:
    """All pictures of the sets, (n, SIDE, SIDE, 3)."""
    return sets.pictures.reshape(-1, *sets.pictures.shape[2:])


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on THREADS threads, and on as many as before afterwards."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
