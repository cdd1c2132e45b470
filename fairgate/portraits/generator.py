"""The tiny Stable Diffusion, trained from nothing into a folder that diffusers' StableDiffusionPipeline loads; and
painting with it: many pictures in few batches, each from its own seed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.models.checkpoints import versions
from fairgate.portraits.generator_models import new_text_encoder, new_unet, save_pipeline, torch_threads
from fairgate.portraits.generator_training import Batch, GeneratorPlan, Report, denoise, encode, train_vae
from fairgate.portraits.generator_words import training_caption
from fairgate.portraits.pool import SEED, DrawnSets, draw_sets
from fairgate.portraits.world import ATTRIBUTES, GROUPS, SUBJECTS, caption

PLAN = GeneratorPlan(seed=SEED, steps=2600, batch=64)


def make_generator(folder: Path, report: Report) -> None:
    """Draw the training sets, train VAE and denoiser, and save them to `folder`, for `hf:FOLDER` as painter.

    The denoiser paints what captions say; pictures are sampled by the planted shares.
    """
    sets = draw_sets()
    rng = stream(PLAN.seed, "portraits", "generator")
    draws = torch.Generator().manual_seed(PLAN.seed)
    shares = sets.shares().ravel()
    with torch_threads():
        vae = train_vae(flat(sets), seed=SEED, report=report)
        means, deviations = encode(vae, flat(sets))

        def batch() -> Batch:
            chosen = rng.choice(len(shares), size=PLAN.batch, p=shares)
            places = (divmod(row, len(GROUPS)) for row in chosen)
            texts = [training_caption(rng, sets.labels[row], *GROUPS[member]) for row, member in places]
            mean = means[chosen]
            return Batch(mean + deviations[chosen] * torch.randn(mean.shape, generator=draws), texts)

        nets = new_unet(PLAN.seed), new_text_encoder(PLAN.seed)
        unet, text_encoder = denoise(*nets, batch, PLAN, draws, partial(report, "generator"))
    save_pipeline("StableDiffusionPipeline", folder, vae=vae, text_encoder=text_encoder, unet=unet)


def flat(sets: DrawnSets) -> NDArray[np.uint8]:
    """All pictures of the sets, (n, SIDE, SIDE, 3)."""
    return sets.pictures.reshape(-1, *sets.pictures.shape[2:])


STEPS = 20
GUIDANCE = 2.0
"""What paints well. A neutral prompt gives back the planted shares by ancestral sampling without guidance
(`Sampling(steps=20, guidance=1.0, scheduler="euler_ancestral")`); guidance exaggerates them."""
_CHUNK = 64


def open_pipeline(folder: Path, name: str = "StableDiffusionPipeline") -> Any:
    """The pipeline of a folder in float32, without a progress bar. Raises ModelError where there is none."""
    versions("diffusers", "accelerate")  # where they are missing, the error says how to install them
    import diffusers

    from fairgate.models.generation import quiet

    if not (folder / "model_index.json").is_file():
        raise ModelError(
            f"there is no diffusion model of the demonstration data at '{folder}'.",
            where=str(folder / "model_index.json"),
            remedy="run `dvc pull`, or train it with `dvc repro train-generator`",
        )
    with quiet():
        pipeline = getattr(diffusers, name).from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def paint(
    pipeline: Any,
    prompts: Sequence[str],
    seeds: Sequence[int],
    *,
    steps: int = STEPS,
    guidance: float = GUIDANCE,
) -> NDArray[np.uint8]:
    """One picture per prompt and seed, (n, SIDE, SIDE, 3)."""
    parts = []
    for start in range(0, len(prompts), _CHUNK):
        some = list(prompts[start : start + _CHUNK])
        draws = [torch.Generator().manual_seed(seed) for seed in seeds[start : start + _CHUNK]]
        out = pipeline(some, num_inference_steps=steps, guidance_scale=guidance, generator=draws, output_type="np")
        parts.append((out.images * 255).round().astype(np.uint8))
    return np.concatenate(parts)


def contact_sheet(pipeline: Any, *, seeds: int, steps: int, guidance: float, zoom: int = 2) -> Image.Image:
    """Prompts from top to bottom, seeds from left to right: each subject alone, then with skin tone and gender."""
    prompts = [caption(subject) for subject in SUBJECTS]
    for number, subject in enumerate(SUBJECTS):
        for place, gender in enumerate(ATTRIBUTES["gender"]):
            tone = ATTRIBUTES["skin_tone"][(2 * number + place) % 4]
            prompts.append(caption(subject, skin_tone=tone, gender=gender))
    jobs = [(prompt, seed) for prompt in prompts for seed in range(seeds)]
    painted = paint(pipeline, *map(list, zip(*jobs, strict=True)), steps=steps, guidance=guidance)
    side = painted.shape[1]
    rows = painted.reshape(len(prompts), seeds, side, side, 3).transpose(0, 2, 1, 3, 4)
    sheet = Image.fromarray(rows.reshape(len(prompts) * side, seeds * side, 3))
    return sheet.resize((sheet.width * zoom, sheet.height * zoom), Image.Resampling.NEAREST)
