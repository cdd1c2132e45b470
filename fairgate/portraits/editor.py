"""The tiny editor: what InstructPix2Pix is to Stable Diffusion, trained on exact pairs of drawn portraits.

It starts from the generator's weights with four more input channels (Brooks et al. 2023, section 3.2), and learns from
triples (before, instruction, after) of one drawn scene: outfit, background and skin tone are the same in both.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairgate.ground.randomness import stream
from fairgate.portraits.generator import flat, open_pipeline
from fairgate.portraits.generator_models import new_unet, save_pipeline, torch_threads
from fairgate.portraits.generator_training import Batch, GeneratorPlan, Report, denoise, encode
from fairgate.portraits.generator_words import instruction
from fairgate.portraits.pool import SEED, DrawnSets, draw_sets
from fairgate.portraits.world import ATTRIBUTES, GROUPS

PLAN = GeneratorPlan(seed=SEED + 1, steps=1000, batch=64, learning_rate=1.5e-3)
DROPPED = 0.06
"""Share of the triples without instruction, without picture, and without both, each: for the two guidance scales."""
UNCHANGED = 0.25
"""Share of the triples whose person already looks as the instruction says: the edit is to change nothing."""


def make_editor(folder: Path, generator: Path, report: Report) -> None:
    """Train UNet (of eight channels) and text encoder to follow instructions, from the generator at `generator`; save
    them to `folder`, for `hf:FOLDER` as editor."""
    sets = draw_sets()
    rng = stream(PLAN.seed, "portraits", "editor")
    draws = torch.Generator().manual_seed(PLAN.seed)
    with torch_threads():
        start = open_pipeline(generator)
        means, deviations = encode(start.vae, flat(sets))

        def batch() -> Batch:
            before, after, texts, seen = _triples(rng, sets, PLAN.batch)
            mean = means[after]
            clean = mean + deviations[after] * torch.randn(mean.shape, generator=draws)
            # diffusers gives the editor the mean of the picture's latents, not scaled
            channels = means[before] / start.vae.config.scaling_factor * torch.from_numpy(seen)[:, None, None, None]
            return Batch(clean, texts, channels)

        nets = widened(start.unet, PLAN.seed), start.text_encoder
        unet, text_encoder = denoise(*nets, batch, PLAN, draws, partial(report, "editor"))
    name = "StableDiffusionInstructPix2PixPipeline"
    save_pipeline(name, folder, vae=start.vae, text_encoder=text_encoder, unet=unet)


def widened(unet: Any, seed: int) -> Any:
    """The generator's UNet with four more input channels, whose weights are zero."""
    wide = new_unet(seed, channels=8)
    state = dict(unet.state_dict())
    first = state["conv_in.weight"]
    state["conv_in.weight"] = torch.cat([first, torch.zeros_like(first)], dim=1)
    wide.load_state_dict(state)
    return wide


def _triples(
    rng: np.random.Generator, sets: DrawnSets, number: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str], NDArray[np.bool_]]:
    """Indices of the pictures before and after, the instructions, and where the picture before is shown."""
    before = rng.integers(len(sets.labels) * len(GROUPS), size=number)
    genders = ATTRIBUTES["gender"]
    changed = rng.random(number) >= UNCHANGED
    after = np.where(changed, before ^ 1, before)  # the members of a set alternate between the two genders
    texts = [instruction(rng, genders[place % 2]) for place in after.tolist()]
    dropped = rng.random(number)
    silent = (dropped < DROPPED) | ((dropped >= 2 * DROPPED) & (dropped < 3 * DROPPED))
    unseen = (dropped >= DROPPED) & (dropped < 3 * DROPPED)
    return before, after, ["" if hidden else text for hidden, text in zip(silent, texts, strict=True)], ~unseen
