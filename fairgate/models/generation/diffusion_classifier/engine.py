"""What a judged Stable Diffusion computes: how well it denoises each picture under each prompt, edits of a source's
pictures (img2img), and pictures of prompts.

Errors: the noise is shared by all prompts and by the members of a counterfactual set, so that differences between them
owe nothing to its luck. Pictures are those of diffusers' own pipelines, made as they are read and cached one by one.
The noise of an edit is a stream of its own by set, member and seed. It is not shared by the members of a set: at a
strength of 1.0 little but the noise is left of a picture, and edits of one noise would be one edit, seen eight times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
import torch
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.models.checkpoints import Halving, naming
from fairgate.models.contract import Editing, Floats, Generating
from fairgate.models.generation.diffusion.paint import (
    DiffusionPainter,
    at_size,
    in_fitting_batches,
    made_latents,
    square,
    working_size,
)
from fairgate.models.generation.diffusion.pipeline import Conditioning, StableDiffusion
from fairgate.models.generation.diffusion_classifier.sampling import timesteps
from fairgate.models.generation.roles import Sampling

_DENOISED_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 20}
"""Numbers in the latents of one UNet batch: 512 of the embedded world's, 8 of SD 1.5's on a CPU, 64 on a GPU."""

_SHOWN_NOISES = 8  # sets whose noise is remembered: members of a set follow each other


class DenoisingErrors:
    """Squared errors of the noise that a loaded model predicts, at `samples` noise levels.

    The noise of sample s of set S is the s-th draw of S's own stream: it depends neither on the model's weights, nor on
    the prompts, nor on the order of images. `spent["unet"]` of the model counts evaluations.
    """

    def __init__(self, model: StableDiffusion, *, samples: int, size: int | None = None) -> None:
        self.model, self.samples = model, samples
        self.size = square(model, size)
        scheduler = model.scheduler(1, "ddpm")
        self._kind = str(scheduler.config.prediction_type)
        own = model.pipeline_for("").scheduler  # those of flows and of EDM noise a picture in other ways
        if self._kind not in ("epsilon", "v_prediction", "sample") or not hasattr(own, "alphas_cumprod"):
            raise ModelError(
                f"the UNet predicts '{self._kind[:40]}' for a {type(own).__name__}: its error is no diffusion's.",
                where=f"{model.where}/scheduler/scheduler_config.json",
                remedy="name the scheduler and the prediction_type that it was trained for (epsilon, v_prediction, "
                "sample); of a flow or an EDM, judge what it paints or edits",
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
        self.noise = lru_cache(_SHOWN_NOISES)(self._noise)
        latent = model.latent_channels * (self.size // model.vae_factor) ** 2
        self._rows = max(1, _DENOISED_AT_ONCE[model.device.type] // latent)

    def latents(self, image: Image.Image) -> torch.Tensor:
        """A picture as the UNet sees it, (1, 4, h, w): its short side scaled to `size` and cut square (Li et al.)."""
        scale = self.size / min(image.size)
        width, height = (max(self.size, round(side * scale)) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        square = image.resize((width, height), Image.Resampling.BICUBIC)
        square = square.crop((left, top, left + self.size, top + self.size))
        pixels = torch.from_numpy(np.asarray(square, dtype=np.float32)).permute(2, 0, 1)[None] / 127.5 - 1
        return self.model.encode(pixels)

    def _noise(self, set_id: str) -> torch.Tensor:
        """Standard normal noise of a set, (samples, 4, h, w), drawn on the CPU."""
        side = self.size // self.model.vae_factor
        draws = torch.Generator().manual_seed(int(stream(0, "diffusion classifier", set_id).integers(2**63)))
        return torch.randn((self.samples, self.model.latent_channels, side, side), generator=draws)

    def __call__(
        self, latents: torch.Tensor, set_ids: Sequence[str], prompts: Conditioning, samples: Any = None
    ) -> Floats:
        """Squared norms of the error, (images, samples, prompts) float64: summed over the latent's numbers.

        `latents` (images, 4, h, w), of the sets `set_ids` (images,); `samples`: numbers of some (None: all of them).
        """
        chosen = range(self.samples) if samples is None else samples.tolist()
        shape = len(set_ids), len(chosen), len(prompts.tokens)
        jobs = list(product(range(shape[0]), chosen, range(shape[2])))
        noises = {set_id: self.noise(set_id) for set_id in dict.fromkeys(set_ids)}
        evaluate = partial(self._errors, latents, [noises[one] for one in set_ids], prompts)
        fitting = Halving(evaluate, str(self.model.device))
        parts = [fitting(jobs[start : start + self._rows]) for start in range(0, len(jobs), self._rows)]
        return np.concatenate(parts).astype(np.float64).reshape(shape)

    def _errors(
        self,
        latents: torch.Tensor,
        noises: Sequence[torch.Tensor],
        prompts: Conditioning,
        jobs: Sequence[tuple[int, int, int]],
    ) -> Any:
        """Of one UNet batch of (image, sample, prompt): (jobs,)."""
        images, samples, _ = (torch.tensor(part) for part in zip(*jobs, strict=True))
        texts = [text for _, _, text in jobs]
        device = self.model.device
        noise = torch.stack([noises[image][sample] for image, sample, _ in jobs]).to(device)
        signal = self._signal[samples].view(-1, 1, 1, 1).to(device)
        noised = signal.sqrt() * latents[images.to(latents.device)] + (1 - signal).sqrt() * noise
        times = torch.from_numpy(self.times)[samples].to(device)
        predicted = self._as_noise(self.model.predict(noised, times, prompts.rows(texts)), noised, signal)
        return (predicted - noise).double().square().flatten(1).sum(dim=1).cpu().numpy()

    def _as_noise(self, predicted: torch.Tensor, noised: torch.Tensor, signal: torch.Tensor) -> torch.Tensor:
        """The noise that a prediction stands for (Salimans and Ho 2022, appendix D)."""
        if self._kind == "v_prediction":
            return signal.sqrt() * predicted + (1 - signal).sqrt() * noised
        if self._kind == "sample":
            return (noised - signal.sqrt() * predicted) / (1 - signal).sqrt()
        return predicted


_PAINTED_AT_ONCE = {"cpu": 1 << 14, "cuda": 1 << 19}
"""Numbers in the latents of one batch: 64 of the embedded world's; of SD 1.5's one on a CPU and 32 on a GPU."""


def _painted_at_once(model: StableDiffusion, side: int) -> int:
    latent = model.latent_channels * (side // model.vae_factor) ** 2
    return max(1, _PAINTED_AT_ONCE[model.device.type] // int(latent))


class ImageEditor:
    """A loaded model that edits pictures as `StableDiffusionImg2ImgPipeline` of diffusers does, many in a batch.

    A picture is worked on with `side` pixels on its longer side (None: the side that the model was trained at), rounded
    down to what the VAE halves, and comes back at its own size.
    """

    def __init__(self, model: StableDiffusion, prompt: str, side: int | None = None) -> None:
        self.model, self.prompt, self.side = model, prompt, side or square(model, None)
        self.rows = _painted_at_once(model, self.side)

    def __call__(self, pictures: Sequence[Image.Image], seeds: Sequence[int], how: Editing) -> Sequence[Any]:
        """The edits, of their pictures' sizes. Raises ModelError for latents that are not finite and if no step is
        left, DeviceError for too little memory."""
        with naming(self.model.uri, "edit pictures"):
            return in_fitting_batches(partial(self._edits, how), pictures, seeds, self.model.device)

    def _edits(self, how: Editing, pictures: Sequence[Image.Image], seeds: Sequence[int]) -> Sequence[Any]:
        sizes = [working_size(picture.size, self.model.vae_factor, self.side) for picture in pictures]
        sampling, edits = Sampling(how.steps, how.guidance, how.strength), list(pictures)
        for size in dict.fromkeys(sizes):
            places = [place for place, own in enumerate(sizes) if own == size]
            shown = at_size([pictures[place] for place in places], size)
            own_seeds, prompts = [seeds[place] for place in places], [self.prompt] * len(places)
            given: dict[str, Any] = {"image": shown, "strength": how.strength}
            latents = made_latents(self.model, "Img2Img", prompts, sampling, own_seeds, **given)
            for place, edit in zip(places, self.model.decode(latents), strict=True):
                (edits[place],) = at_size([edit], pictures[place].size)
        return edits


class PicturePainter:
    """A loaded model that paints as `StableDiffusionPipeline` of diffusers does, many pictures in a batch.

    They have `side` pixels a side (None: as it was trained).
    """

    def __init__(self, model: StableDiffusion, side: int | None = None) -> None:
        self.model, self.side = model, square(model, side)
        self.rows = _painted_at_once(model, self.side)

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], how: Generating) -> Sequence[Any]:
        """A picture of each prompt and seed. Raises ModelError for latents that are not finite, DeviceError for too
        little memory."""
        paint, sampling = DiffusionPainter(self.model).paint, Sampling(how.steps, how.guidance, size=self.side)
        return in_fitting_batches(lambda some, own: paint(some, own, sampling), prompts, seeds, self.model.device)
