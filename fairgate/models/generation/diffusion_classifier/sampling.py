"""Which noise levels a diffusion classifier looks at, and when a comparison is settled; and how it reads texts and
pictures, as its hashed files say. No torch.

Timesteps as in Li et al. 2023 (`eval_prob_adaptive`): of T trained steps and n samples, T // n // 2, then every T // n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.models.checkpoints import option_number
from fairgate.models.contract import Floats
from fairgate.models.generation.diffusion.files import PipelineFiles

SAMPLES = 100
"""Noise levels by default: the most that Li et al. and paper 2 take."""
FIRST_LOOK = 8
"""Samples after which a comparison may first be settled: a standard error of fewer is no measure."""


@dataclass(frozen=True, slots=True)
class Classifying:
    """How a checkpoint classifies: `samples` noise levels, pictures of `size` pixels (None: as it was trained), and
    comparisons that stop early at `stop` standard errors (None: never)."""

    samples: int = SAMPLES
    size: int | None = None
    stop: float | None = None

    @classmethod
    def of(cls, uri: str, options: Mapping[str, str]) -> Classifying:
        """As the options of a URI say. Raises ModelError for what is no number."""
        return cls(
            samples=int(option_number(uri, "samples", options.get("samples", str(SAMPLES)), 1)),
            size=int(option_number(uri, "size", options["size"], 1)) if "size" in options else None,
            # standard errors: with fewer than 2, chance settles a comparison
            stop=option_number(uri, "stop", options["stop"], 2, whole=False) if "stop" in options else None,
        )


def timesteps(samples: int, trained: int = 1000) -> NDArray[np.int64]:
    """The timesteps of a number of samples, (samples,), rising.

    >>> timesteps(10).tolist()
    [50, 150, 250, 350, 450, 550, 650, 750, 850, 950]
    """
    step = trained // samples
    return np.arange(step // 2, trained, step, dtype=np.int64)[:samples]


def spread_order(samples: int) -> NDArray[np.int64]:
    """An order of the samples in which every beginning covers all noise levels: van der Corput's, (samples,).

    >>> spread_order(5).tolist()
    [0, 4, 2, 1, 3]
    """
    bits = max(1, (samples - 1).bit_length())
    reversed_ = [int(format(place, f"0{bits}b")[::-1], 2) for place in range(1 << bits)]
    return np.array([place for place in reversed_ if place < samples], dtype=np.int64)


def settle(
    evaluate: Callable[[Sequence[int], NDArray[np.int64]], Floats],
    pairs: tuple[int, int],
    samples: int,
    certainty: float,
) -> Floats:
    """Compare each of `pairs[0]` prompts with each of the `pairs[1]` that follow, and stop where the answer is clear:
    (first, second), 1 where the first prompt's error is lower, 0 where the second's is, 0.5 where they are equal.

    `evaluate(prompts, samples)` returns squared errors (samples, prompts). After every further eighth of the samples, a
    pair is settled whose mean difference is more than `certainty` standard errors from 0, where the error is that of
    what the remaining samples can still change; a prompt is left out once all of its pairs are settled. What is never
    settled is decided by all samples. The choice is NaN where an error that it rests on is NaN or infinite.
    """
    first, second = pairs
    order, start = spread_order(samples), 0
    errors = np.full((samples, first + second), np.nan)
    open_, choice = np.ones(pairs, dtype=bool), np.full(pairs, 0.5)
    while start < samples and open_.any():
        stop = min(samples, start + max(FIRST_LOOK, samples // 8))
        wanted = [*np.flatnonzero(open_.any(axis=1)), *(first + np.flatnonzero(open_.any(axis=0)))]
        found = evaluate([int(prompt) for prompt in wanted], order[start:stop])
        errors[start:stop, wanted] = np.where(np.isfinite(found), found, np.nan)  # infinite would look settled
        start = stop
        difference = errors[:start, first:][:, None, :] - errors[:start, :first][:, :, None]  # above 0: the first wins
        mean = difference.mean(axis=0)
        choice = np.where(open_, 0.5 + 0.5 * np.sign(mean), choice)
        left = 1 - start / samples
        reach = certainty * difference.std(axis=0, ddof=1) * np.sqrt(left / start) if left else np.zeros(pairs)
        open_ &= ~(np.abs(mean) > reach)
    return choice


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
        "stop": settings["stop"],
        "pixels": settings["size"] or (max(side) if isinstance(side, list) else int(side)) * factor,
        "vae_factor": factor,
        "latent_channels": vae.get("latent_channels", 4),
        "scaling_factor": vae.get("scaling_factor", 0.18215),
        "moments": [vae.get("latents_mean"), vae.get("latents_std")] if files.is_xl else None,
        "noising": {name: noising.get(name, default) for name, default in _NOISING.items()},
    }
