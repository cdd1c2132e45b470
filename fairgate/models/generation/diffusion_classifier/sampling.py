"""Which noise levels a diffusion classifier looks at, and how it reads texts and pictures, as its hashed files say. No
torch.

Timesteps as in Li et al. 2023 (`eval_prob_adaptive`): of T trained steps and n samples, T // n // 2, then every T // n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.models.checkpoints import option_number
from fairgate.models.generation.diffusion.files import PipelineFiles

SAMPLES = 100
"""Noise levels by default: the most that Li et al. and paper 2 take."""


@dataclass(frozen=True, slots=True)
class Classifying:
    """How a checkpoint classifies: `samples` noise levels, and pictures of `size` pixels (None: as it was trained)."""

    samples: int = SAMPLES
    size: int | None = None

    @classmethod
    def of(cls, uri: str, options: Mapping[str, str]) -> Classifying:
        """As the options of a URI say. Raises ModelError for what is no number."""
        return cls(
            samples=int(option_number(uri, "samples", options.get("samples", str(SAMPLES)), 1)),
            size=int(option_number(uri, "size", options["size"], 1)) if "size" in options else None,
        )


def timesteps(samples: int, trained: int = 1000) -> NDArray[np.int64]:
    """The timesteps of a number of samples, (samples,), rising.

    >>> timesteps(10).tolist()
    [50, 150, 250, 350, 450, 550, 650, 750, 850, 950]
    """
    step = trained // samples
    return np.arange(step // 2, trained, step, dtype=np.int64)[:samples]


# what decides which noise is added, and how the UNet's answer is read, with the defaults of diffusers
_NOISING = {
    "num_train_timesteps": 1000,
    "prediction_type": "epsilon",
    "beta_start": 0.0001,
    "beta_end": 0.02,
    "beta_schedule": "linear",
    "trained_betas": None,
    "rescale_betas_zero_snr": False,
}


def shown_how(files: PipelineFiles, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and what the hashed configs decide: how the UNet sees a picture, and how its answer is read."""
    roles = ("unet/config.json", "vae/config.json", "scheduler/scheduler_config.json")
    unet, vae, noising = map(files.config, roles)
    factor = 2 ** (len(vae.get("block_out_channels", (64,))) - 1)
    side = unet.get("sample_size") or 0
    return {
        "samples": settings["samples"],
        "pixels": settings["size"] or (max(side) if isinstance(side, list) else int(side)) * factor,
        "vae_factor": factor,
        "latent_channels": vae.get("latent_channels", 4),
        "scaling_factor": vae.get("scaling_factor", 0.18215),
        "moments": [vae.get("latents_mean"), vae.get("latents_std")] if files.is_xl else None,
        "noising": {name: noising.get(name, default) for name, default in _NOISING.items()},
    }
