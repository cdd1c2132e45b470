"""How well a Stable Diffusion denoises each picture under each prompt. The noise is shared by all prompts and by the
members of a counterfactual set, so that differences between them owe nothing to its luck."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.models.checkpoints import Halving
from fairgate.models.contract import Floats
from fairgate.models.generation.diffusion.pipeline import Conditioning, StableDiffusion
from fairgate.models.generation.diffusion_classifier.sampling import timesteps

_LATENTS_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 20}
"""Numbers in the latents of one UNet batch: 512 of the embedded world's, 8 of SD 1.5's on a CPU, 64 on a GPU."""

_SHOWN_NOISES = 8  # sets whose noise is remembered: members of a set follow each other


class DenoisingErrors:
    """Squared errors of the noise that a loaded model predicts, at `samples` noise levels.

    The noise of sample s of set S is the s-th draw of S's own stream: it depends neither on the model's weights, nor on
    the prompts, nor on the order of images. `spent["unet"]` of the model counts evaluations.
    """

    def __init__(self, model: StableDiffusion, *, samples: int, size: int | None = None) -> None:
        self.model, self.samples = model, samples
        self.size = size or model.size
        scheduler = model.schedule(1, "ddpm").scheduler
        self._kind = str(scheduler.config.prediction_type)
        if self._kind not in ("epsilon", "v_prediction", "sample"):
            raise ModelError(
                f"the UNet predicts '{self._kind[:40]}', which is no noise, velocity or picture.",
                where=f"{model.where}/scheduler/scheduler_config.json",
                remedy="set prediction_type to what it was trained for: epsilon, v_prediction or sample",
            )
        trained = int(scheduler.config.num_train_timesteps)
        if samples > trained:
            raise ModelError(
                f"{samples} samples are more than the {trained} timesteps that the model was trained on.",
                where=f"{model.where}/scheduler/scheduler_config.json",
                remedy=f"set ?samples= to {trained} at most",
            )
        self.times = timesteps(samples, trained)
        self._signal = scheduler.alphas_cumprod.to(torch.float32)[self.times]
        self._noises: OrderedDict[str, torch.Tensor] = OrderedDict()
        if self.size < model.vae_factor or self.size % model.vae_factor:
            raise ModelError(
                f"pictures of {self.size} pixels make no whole latents of a VAE that divides by {model.vae_factor}.",
                where=model.where,
                remedy=f"write ?size= as a multiple of {model.vae_factor}, the size that it was trained at",
            )
        latent = model.latent_channels * (self.size // model.vae_factor) ** 2
        self._rows = max(1, _LATENTS_AT_ONCE[model.device.type] // latent)

    def latents(self, image: Image.Image) -> torch.Tensor:
        """A picture as the UNet sees it, (1, 4, h, w): its short side scaled to `size` and cut square (Li et al.)."""
        scale = self.size / min(image.size)
        width, height = (max(self.size, round(side * scale)) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        square = image.resize((width, height), Image.Resampling.BICUBIC)
        square = square.crop((left, top, left + self.size, top + self.size))
        pixels = torch.from_numpy(np.asarray(square, dtype=np.float32)).permute(2, 0, 1)[None] / 127.5 - 1
        return self.model.encode(pixels)

    def noise(self, set_id: str) -> torch.Tensor:
        """Standard normal noise of a set, (samples, 4, h, w), drawn on the CPU."""
        if set_id not in self._noises:
            side = self.size // self.model.vae_factor
            draws = torch.Generator().manual_seed(int(stream(0, "diffusion classifier", set_id).integers(2**63)))
            shape = (self.samples, self.model.latent_channels, side, side)
            self._noises[set_id] = torch.randn(shape, generator=draws)
            if len(self._noises) > _SHOWN_NOISES:
                self._noises.popitem(last=False)
        return self._noises[set_id]

    def __call__(
        self,
        latents: torch.Tensor,
        set_ids: Sequence[str],
        prompts: Conditioning,
        samples: NDArray[np.int64] | None = None,
    ) -> Floats:
        """Squared norms of the error, (images, samples, prompts) float64: summed over the latent's numbers.

        `latents` (images, 4, h, w), of the sets `set_ids` (images,); of `samples`, their numbers, or of all.
        """
        chosen = np.arange(self.samples) if samples is None else samples
        jobs = [
            (image, int(sample), prompt)
            for image in range(len(set_ids))
            for sample in chosen
            for prompt in range(len(prompts.tokens))
        ]
        noises = {set_id: self.noise(set_id) for set_id in dict.fromkeys(set_ids)}
        evaluate = partial(self._errors, latents, [noises[one] for one in set_ids], prompts)
        fitting = Halving(evaluate, str(self.model.device))
        parts = [fitting(jobs[start : start + self._rows]) for start in range(0, len(jobs), self._rows)]
        return np.concatenate(parts).astype(np.float64).reshape(len(set_ids), len(chosen), len(prompts.tokens))

    def _errors(
        self,
        latents: torch.Tensor,
        noises: Sequence[torch.Tensor],
        prompts: Conditioning,
        jobs: Sequence[tuple[int, int, int]],
    ) -> Any:
        """Of one UNet batch of (image, sample, prompt): (jobs,)."""
        images, samples, texts = (torch.tensor(part) for part in zip(*jobs, strict=True))
        device = self.model.device
        noise = torch.stack([noises[image][sample] for image, sample, _ in jobs]).to(device)
        signal = self._signal[samples].view(-1, 1, 1, 1).to(device)
        noised = signal.sqrt() * latents[images.to(latents.device)] + (1 - signal).sqrt() * noise
        pooled = None if prompts.pooled is None else prompts.pooled[texts.to(device)]
        shown = Conditioning(prompts.tokens[texts.to(device)], pooled)
        times = torch.from_numpy(self.times)[samples].to(device)
        predicted = self._as_noise(self.model.predict(noised, times, shown), noised, signal)
        return (predicted - noise).double().square().flatten(1).sum(dim=1).cpu().numpy()

    def _as_noise(self, predicted: torch.Tensor, noised: torch.Tensor, signal: torch.Tensor) -> torch.Tensor:
        """The noise that a prediction stands for (Salimans and Ho 2022, appendix D)."""
        if self._kind == "v_prediction":
            return signal.sqrt() * predicted + (1 - signal).sqrt() * noised
        if self._kind == "sample":
            return (noised - signal.sqrt() * predicted) / (1 - signal).sqrt()
        return predicted
