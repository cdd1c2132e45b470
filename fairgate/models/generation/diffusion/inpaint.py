"""Inpainting: pixels inside the mask are painted anew, pixels outside it stay as they are.

A UNet of 4 channels gets the whole noisy picture, and the region outside the mask is restored after every step; one of
9 channels also gets the mask and the masked picture. Both follow diffusers' inpainting pipelines, with their order of
draws. Here all variants of a picture share one VAE encoding and one noise, and a refiner restores the clean picture
outside the mask (diffusers' restores what the base left there, which after 9 channels is noise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL.Image import Image, fromarray
from torch.nn.functional import interpolate

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import naming
from fairgate.models.generation.diffusion.paint import (
    After,
    Diffusing,
    Size,
    at_size,
    generators_of,
    pixels_of,
    require_one_each,
    through,
    working_size,
)
from fairgate.models.generation.diffusion.pipeline import StableDiffusion
from fairgate.models.generation.diffusion.schedule import Schedule
from fairgate.models.generation.roles import Mask, Sampling


@dataclass(frozen=True, slots=True)
class _Scene:
    """What is known before a step is made: clean latents, the noise that all steps share, the mask (1 where to paint).

    `extra` are the further channels of a UNet of 9. All are (variants, channels, h/f, w/f).
    """

    clean: torch.Tensor
    noise: torch.Tensor
    mask: torch.Tensor
    extra: torch.Tensor | None
    generators: list[torch.Generator]

    def put_back(self, schedule: Schedule) -> After:
        """After each step: outside the mask the pictures, under the noise of the step that comes next."""

        def after(number: int, latents: torch.Tensor) -> torch.Tensor:
            last = number == len(schedule) - 1
            outside = self.clean if last else schedule.noised(self.clean, self.noise, number + 1)
            return (1 - self.mask) * outside + self.mask * latents

        return after


class DiffusionInpainter(Diffusing):
    """Repaints masked parts of pictures; results have the pictures' own size."""

    def inpaint(self, image: Image, mask: Mask, prompts: Sequence[str], seed: int, how: Sampling) -> list[Image]:
        """One variant per prompt. It is worked on at the picture's size, or with `how.size` on its longer side."""
        require_one_each(prompts, prompts)
        return self._variants([image], [mask], prompts, [seed], how)

    def inpaint_each(
        self,
        images: Sequence[Image],
        masks: Sequence[Mask],
        prompts: Sequence[str],
        seeds: Sequence[int],
        how: Sampling,
    ) -> list[Image]:
        """One variant of every picture in one batch. Raises ModelError where their sizes differ."""
        require_one_each(prompts, images, masks, seeds)
        return self._variants(images, masks, prompts, seeds, how)

    def _variants(
        self,
        images: Sequence[Image],
        masks: Sequence[Mask],
        prompts: Sequence[str],
        seeds: Sequence[int],
        how: Sampling,
    ) -> list[Image]:
        with naming(self.uri, "inpaint"):
            model, own, times = self.model, _one_size(images), len(prompts) // len(images)
            size = working_size(own, model.vae_factor, how.size)
            scene = _scene(
                model,
                pixels_of(model, images, size),
                _masks_of(model, masks, own, size).to(model.device),
                generators_of(seeds),
                whole=how.strength >= 1,
                times=times,
            )
            first = model.schedule(how.steps, how.scheduler).skip_to_strength(how.strength)

            def after(schedule: Schedule) -> After | None:
                if schedule is first and scene.extra is not None:
                    return None  # such a UNet keeps what is outside the mask by itself
                return scene.put_back(schedule)

            whole = how.strength >= 1
            latents = first.begin(scene.noise) if whole else first.noised(scene.clean, scene.noise, 0)
            latents = through(model, first, latents, prompts, how, scene.generators, after, scene.extra)
            made = at_size(model.decode(latents), own)
        originals = zip(made, [*images] * times, [*masks] * times, strict=True)
        return [_pasted(one, image, mask) for one, image, mask in originals]


def _scene(
    model: StableDiffusion,
    pixels: torch.Tensor,
    mask: torch.Tensor,
    generators: list[torch.Generator],
    *,
    whole: bool,
    times: int,
) -> _Scene:
    """Read the pictures once; the order of the draws is diffusers' (picture, noise, picture without what is masked).

    The scene is repeated for several prompts; noise that is yet to be drawn is the same for each, too.
    """
    size: Size = (pixels.shape[-1], pixels.shape[-2])
    masked_input = int(model.unet.config.in_channels) != model.latent_channels
    clean = model.encode(pixels, () if masked_input and whole else generators)
    noise = model.noise(generators, size)
    small = interpolate(mask, size=noise.shape[-2:])
    extra = None
    if masked_input:
        rest = model.encode(pixels.to(model.device) * (mask < 0.5), generators)
        extra = torch.cat([small, rest], dim=1).repeat(times, 1, 1, 1)
    clean, noise, small = (part.repeat(times, 1, 1, 1) for part in (clean, noise, small))
    return _Scene(clean, noise, small, extra, [each.clone_state() for each in generators * times])


def _one_size(images: Sequence[Image]) -> Size:
    """The size of all of these. Raises ModelError where they differ."""
    sizes = sorted({image.size for image in images})
    if len(sizes) != 1:
        shown = ", ".join(f"{width}x{height}" for width, height in sizes[:4])
        raise ModelError(f"pictures of one batch differ in size ({shown}).", remedy="batch pictures of one size")
    return sizes[0]


def _masks_of(model: StableDiffusion, masks: Sequence[Mask], own: Size, size: Size) -> torch.Tensor:
    """Masks (n, 1, height, width), 1 where to paint. Raises ModelError for a mask of another size than `own`."""
    for mask in masks:
        if mask.shape != own[::-1]:
            raise ModelError(
                f"the mask is {mask.shape[1]}x{mask.shape[0]} pixels, and its picture {own[0]}x{own[1]}.",
                remedy="make the mask from this very picture",
            )
    drawn = [fromarray(np.asarray(mask, dtype=np.uint8) * 255) for mask in masks]
    found: torch.Tensor = model.masks.preprocess(drawn, width=size[0], height=size[1])
    return found


def _pasted(made: Image, original: Image, mask: Mask) -> Image:
    """`made` where the mask is True, and the original's very pixels elsewhere; both of one size."""
    chosen = np.where(mask[..., None], np.asarray(made.convert("RGB")), np.asarray(original.convert("RGB")))
    return fromarray(chosen)
