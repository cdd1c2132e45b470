"""The denoising loop, and the UNet's predictions under text guidance, and under text and image guidance.

diffusers' pipelines take one guidance scale for a batch; here every image has its own, so that edits at several scales
run together. At equal scales the pictures are theirs (tests/generation/test_diffusion_against_stock.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fairgate.generation.diffusion.pipeline import Conditioning, StableDiffusion
from fairgate.generation.diffusion.schedule import Schedule

Predict = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(scaled latents, timestep) -> the noise, or whatever the model predicts, under guidance."""
After = Callable[[int, torch.Tensor], torch.Tensor]
"""(number of the step that was made, latents) -> latents."""


@torch.inference_mode()
def denoise(
    schedule: Schedule,
    latents: torch.Tensor,
    predict: Predict,
    generators: Sequence[torch.Generator],
    after: After | None = None,
) -> torch.Tensor:
    """Run latents through a schedule. `after` may change them after each step (inpainting does), or only look."""
    for number, timestep in enumerate(schedule):
        predicted = predict(schedule.scaled(latents, timestep), timestep)
        latents = schedule.step(predicted, timestep, latents, generators)
        if after is not None:
            latents = after(number, latents)
    return latents


def generators_of(seeds: Sequence[int]) -> list[torch.Generator]:
    """One generator per image, on the CPU."""
    return [torch.Generator("cpu").manual_seed(int(seed)) for seed in seeds]


def guided(
    model: StableDiffusion,
    prompts: Conditioning,
    negative: Conditioning,
    scales: Sequence[float],
    more: torch.Tensor | None = None,
) -> Predict:
    """Classifier-free guidance: two evaluations per image, one where no image's scale is above 1.

    `more` holds channels that the UNet sees after the latents (n, c, h, w): the mask of an inpainting model.
    """
    scale = _column(scales, model.device)
    alone = not bool((scale > 1).any())
    conditioning = prompts if alone else negative + prompts
    channels = more if more is None or alone else torch.cat([more, more])

    def predict(latents: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        batch = latents if alone else torch.cat([latents, latents])
        inputs = batch if channels is None else torch.cat([batch, channels], dim=1)
        found = model.predict(inputs, timestep, conditioning)
        if alone:
            return found
        without, with_text = found.chunk(2)
        return without + scale.clamp(min=1) * (with_text - without)

    return predict


def guided_by_image(
    model: StableDiffusion,
    prompts: Conditioning,
    negative: Conditioning,
    image: torch.Tensor,
    scales: Sequence[float],
    image_scales: Sequence[float],
) -> Predict:
    """InstructPix2Pix: three evaluations per image (text and image, image alone, neither).

    `image` is the picture's latents (n, 4, h, w), unscaled. Where no text scale is above 1, or no image scale is at
    least 1, diffusers guides by nothing; such a batch is one evaluation per image here, too.
    """
    text, picture = _column(scales, model.device), _column(image_scales, model.device)
    on = (text > 1) & (picture >= 1)
    alone = not bool(on.any())
    text, picture = torch.where(on, text, 1.0), torch.where(on, picture, 1.0)
    conditioning = prompts if alone else prompts + negative + negative
    channels = image if alone else torch.cat([image, image, torch.zeros_like(image)])

    def predict(latents: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        batch = latents if alone else torch.cat([latents] * 3)
        found = model.predict(torch.cat([batch, channels], dim=1), timestep, conditioning)
        if alone:
            return found
        with_text, with_image, without = found.chunk(3)
        return without + text * (with_text - with_image) + picture * (with_image - without)

    return predict


def _column(scales: Sequence[float], device: torch.device) -> torch.Tensor:
    return torch.tensor(list(scales), dtype=torch.float32, device=device).view(-1, 1, 1, 1)
