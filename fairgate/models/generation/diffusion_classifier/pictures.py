"""A Stable Diffusion as painter of a release of prompts: the pictures of diffusers' own text-to-image pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import Halving, naming
from fairgate.models.contract import Generating
from fairgate.models.generation.diffusion.paint import generators_of, square, through
from fairgate.models.generation.diffusion.pipeline import StableDiffusion
from fairgate.models.generation.diffusion_classifier.edits import LATENTS_AT_ONCE
from fairgate.models.generation.roles import Sampling


class PicturePainter:
    """A loaded model that paints as `StableDiffusionPipeline` of diffusers does, many pictures in a batch.

    They have `side` pixels a side (None: as it was trained).
    """

    def __init__(self, model: StableDiffusion, side: int | None = None) -> None:
        self.model, self.size = model, square(model, side)

    @property
    def rows(self) -> int:
        """Pictures of one batch."""
        latent = self.model.latent_channels * (self.size[0] // self.model.vae_factor) ** 2
        return max(1, LATENTS_AT_ONCE[self.model.device.type] // int(latent))

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], how: Generating) -> Sequence[Any]:
        """A picture of each prompt and seed. Raises ModelError for latents that are not finite, DeviceError for too
        little memory."""
        sampling = Sampling(how.steps, how.guidance)

        def paint(jobs: Sequence[Any]) -> Any:
            made = np.empty(len(jobs), dtype=object)
            made[:] = self._paint([prompt for prompt, _ in jobs], [seed for _, seed in jobs], sampling)
            return made

        with naming(self.model.uri, "paint"):
            return list(Halving(paint, str(self.model.device))(list(zip(prompts, seeds, strict=True))))

    def _paint(self, prompts: Sequence[str], seeds: Sequence[int], sampling: Sampling) -> list[Any]:
        model, generators = self.model, generators_of(seeds)
        schedule = model.schedule(sampling.steps)
        latents = schedule.begin(model.noise(generators, self.size))
        latents = through(model, schedule, latents, prompts, sampling, generators)
        if not torch.isfinite(latents).all():
            raise ModelError(
                "the latents of a picture are NaN or infinite.",
                where=model.where,
                remedy="check the checkpoint (did training diverge?); with half precision, try --fairness-device cpu",
            )
        return model.decode(latents)
