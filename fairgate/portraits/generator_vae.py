"""Training of the tiny VAE on drawn portraits of every group, evenly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairgate.portraits.generator_models import new_vae
from fairgate.portraits.scaling import scaled
from fairgate.randomness import stream

if TYPE_CHECKING:
    import torch

STEPS = 1800
BATCH = 32
LEARNING_RATE = 3e-3
KL_WEIGHT = 2e-6
"""Weight of the Kullback-Leibler term (nats per latent) beside the mean absolute error of pixels in -1..1."""

Report = Callable[[str, int, float], None]


def train_vae(pictures: NDArray[np.uint8], *, seed: int, report: Report, steps: int = STEPS) -> Any:
    """A VAE trained on pictures (n, side, side, 3), its scaling factor set so that latents have unit variance."""
    import torch

    vae = new_vae(seed)
    rng = stream(seed, "portraits", "vae")
    draws = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(vae.parameters(), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.1)
    vae.train()
    for step in range(steps):
        batch = scaled(pictures[rng.integers(len(pictures), size=BATCH)])
        latents = vae.encode(batch).latent_dist
        rebuilt = vae.decode(latents.sample(draws)).sample
        error = (rebuilt - batch).abs().mean() + 0.5 * (_edges(rebuilt) - _edges(batch)).abs().mean()
        loss = error + KL_WEIGHT * latents.kl().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        report("vae", step, loss.item())
    vae.eval()
    with torch.inference_mode():
        sample = scaled(pictures[rng.integers(len(pictures), size=512)])
        spread = float(vae.encode(sample).latent_dist.sample(draws).std())
    vae.register_to_config(scaling_factor=round(1 / spread, 4))
    return vae


def encode(vae: Any, pictures: NDArray[np.uint8]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of the latents (n, 4, LATENT, LATENT), scaled as the UNet sees them."""
    import torch

    means, deviations = [], []
    with torch.inference_mode():
        for start in range(0, len(pictures), 128):
            found = vae.encode(scaled(pictures[start : start + 128])).latent_dist
            means.append(found.mean)
            deviations.append(found.std)
    factor = vae.config.scaling_factor
    return torch.cat(means).clone() * factor, torch.cat(deviations).clone() * factor


def _edges(pictures: torch.Tensor) -> torch.Tensor:
    """Differences between neighbouring pixels, across and down, as one tensor: blur costs more than a shift in tone."""
    import torch

    across = pictures[..., :-1, 1:] - pictures[..., :-1, :-1]
    down = pictures[..., 1:, :-1] - pictures[..., :-1, :-1]
    return torch.cat([across, down], dim=1)
