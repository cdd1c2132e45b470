"""Training of the tiny VAE and denoiser: captions to drawn portraits, as the planted table samples them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairgate.ground.randomness import stream
from fairgate.portraits.generator_models import new_scheduler, new_vae, scaled, token_ids
from fairgate.portraits.generator_words import new_tokenizer


@dataclass(frozen=True, slots=True)
class GeneratorPlan:
    """How a denoiser is trained: its draws, its length, its peak learning rate (one cycle), its averaging."""

    seed: int
    steps: int
    batch: int
    learning_rate: float = 2e-3
    average: float = 0.995


@dataclass(frozen=True, slots=True)
class Batch:
    """Clean latents (n, 4, LATENT, LATENT), one text each, and further input channels of the UNet."""

    clean: torch.Tensor
    texts: list[str]
    channels: torch.Tensor | None = None


def denoise(
    unet: Any,
    text_encoder: Any,
    batch: Callable[[], Batch],
    plan: GeneratorPlan,
    draws: torch.Generator,
    report: Callable[[int, float], None],
) -> tuple[Any, Any]:
    """Train both to predict the noise in noisy latents; returns their moving averages."""
    tokenizer, scheduler = new_tokenizer(), new_scheduler()
    both = torch.nn.ModuleList([unet, text_encoder])
    averaged = deepcopy(both)

    def loss_of() -> torch.Tensor:
        shown = batch()
        noise = torch.randn(shown.clean.shape, generator=draws)
        times = _times(len(noise), scheduler.config.num_train_timesteps, draws)
        noisy = scheduler.add_noise(shown.clean, noise, times)
        seen = noisy if shown.channels is None else torch.cat([noisy, shown.channels], dim=1)
        predicted = unet(seen, times, embedded(text_encoder, tokenizer, shown.texts)).sample
        loss: torch.Tensor = (predicted - noise).square().mean()
        return loss

    def after(step: int, loss: float) -> None:
        keep = min(plan.average, (1 + step) / (10 + step))
        with torch.no_grad():
            for slow, fast in zip(averaged.parameters(), both.parameters(), strict=True):
                slow.lerp_(fast, 1 - keep)
        report(step, loss)

    one_cycle(both, loss_of, plan.steps, plan.learning_rate, weight_decay=1e-3, after=after)
    averaged.eval()
    return averaged[0], averaged[1]


def one_cycle(
    model: torch.nn.Module,
    loss_of: Callable[[], torch.Tensor],
    steps: int,
    learning_rate: float,
    *,
    weight_decay: float,
    after: Callable[[int, float], None],
) -> None:
    """Train by AdamW with gradients clipped, its learning rate one cycle that peaks at a tenth of the steps.

    `loss_of` draws a batch and returns its loss; `after(step, loss)` is called after each step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps, pct_start=0.1)
    model.train()
    for step in range(steps):
        loss = loss_of()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        after(step, loss.item())


def _times(number: int, steps: int, draws: torch.Generator) -> torch.Tensor:
    """The later of two evenly drawn times: whether a person is seen as male or female is settled under much noise."""
    later = torch.maximum(torch.rand(number, generator=draws), torch.rand(number, generator=draws))
    return (later * steps).long().clamp(max=steps - 1)


def embedded(text_encoder: Any, tokenizer: Any, texts: list[str]) -> torch.Tensor:
    """The texts' token embeddings (texts, CONTEXT, width); each different text goes through the encoder once."""
    different = list(dict.fromkeys(texts))
    states: torch.Tensor = text_encoder(token_ids(tokenizer, different))[0]
    return states[torch.tensor([different.index(text) for text in texts])]


VAE_STEPS = 1800
VAE_BATCH = 32
VAE_LEARNING_RATE = 3e-3
KL_WEIGHT = 2e-6
"""Weight of the Kullback-Leibler term (nats per latent), added to the mean absolute error of pixels in -1..1."""

Report = Callable[[str, int, float], None]


def train_vae(pictures: NDArray[np.uint8], *, seed: int, report: Report, steps: int = VAE_STEPS) -> Any:
    """A VAE trained on pictures (n, side, side, 3), its scaling factor set so that latents have unit variance."""
    vae = new_vae(seed)
    rng = stream(seed, "portraits", "vae")
    draws = torch.Generator().manual_seed(seed)

    def loss_of() -> torch.Tensor:
        batch = scaled(pictures[rng.integers(len(pictures), size=VAE_BATCH)])
        latents = vae.encode(batch).latent_dist
        rebuilt = vae.decode(latents.sample(draws)).sample
        error = (rebuilt - batch).abs().mean() + 0.5 * (_edges(rebuilt) - _edges(batch)).abs().mean()
        loss: torch.Tensor = error + KL_WEIGHT * latents.kl().mean()
        return loss

    one_cycle(vae, loss_of, steps, VAE_LEARNING_RATE, weight_decay=0.0, after=partial(report, "vae"))
    vae.eval()
    with torch.inference_mode():
        sample = scaled(pictures[rng.integers(len(pictures), size=512)])
        spread = float(vae.encode(sample).latent_dist.sample(draws).std())
    vae.register_to_config(scaling_factor=round(1 / spread, 4))
    return vae


def encode(vae: Any, pictures: NDArray[np.uint8]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of the latents (n, 4, LATENT, LATENT), scaled as the UNet sees them."""
    with torch.inference_mode():
        found = [vae.encode(part).latent_dist for part in torch.split(scaled(pictures), 128)]
    means, deviations = torch.cat([one.mean for one in found]), torch.cat([one.std for one in found])
    return means.clone() * vae.config.scaling_factor, deviations.clone() * vae.config.scaling_factor


def _edges(pictures: torch.Tensor) -> torch.Tensor:
    """Differences between neighbouring pixels, across and down, as one tensor: blur costs more than a shift in tone."""
    across = pictures[..., :-1, 1:] - pictures[..., :-1, :-1]
    down = pictures[..., 1:, :-1] - pictures[..., :-1, :-1]
    return torch.cat([across, down], dim=1)
