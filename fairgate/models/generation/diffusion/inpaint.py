"""Inpainting: pixels inside the mask are painted anew, pixels outside it stay as they are.

diffusers' inpainting pipelines do it: with a UNet of 4 channels the region outside the mask is restored after every
step; one of 9 channels also gets the mask and the masked picture. A refiner gets no mask, as in paper 1's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL.Image import Image, fromarray

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import naming
from fairgate.models.generation.diffusion.paint import Diffusing, Size, at_size, made_latents, working_size
from fairgate.models.generation.roles import Mask, Sampling


class DiffusionInpainter(Diffusing):
    """Repaints masked parts of pictures; results have the pictures' own size."""

    def inpaint(
        self,
        images: Sequence[Image],
        masks: Sequence[Mask],
        prompts: Sequence[str],
        seeds: Sequence[int],
        how: Sampling,
    ) -> list[Image]:
        """One variant of every picture in one batch; the VAE reads a picture once that comes several times in a row.

        It is worked on at the picture's size, or with `how.size` on its longer side. Raises ModelError where the
        pictures' sizes differ.
        """
        model, own = self.model, _one_size(images, masks)
        if model.is_xl and model.vae.config.get("latents_mean"):
            raise ModelError(
                "diffusers' inpainting reads pictures without the VAE's latents_mean and latents_std.",
                where=self.uri,
                remedy="inpaint with another model: this one can paint, and edit by img2img",
            )
        width, height = working_size(own, model.vae_factor, how.size)
        given: dict[str, Any] = {"image": [image.convert("RGB") for image in images]}
        given |= {"mask_image": [fromarray(np.asarray(mask, dtype=np.uint8) * 255) for mask in masks]}
        given |= {"width": width, "height": height, "strength": how.strength}
        if int(model.unet.config.in_channels) == model.latent_channels:
            # such a UNet does not see what is outside the mask, and diffusers would read it all the same
            given["masked_image_latents"] = torch.zeros(1, model.latent_channels, 1, 1)
        with naming(self.uri, "inpaint"):
            latents = made_latents(model, "Inpaint", prompts, how, seeds, **given)
            made = at_size(model.decode(latents), own)
            # where a mask is not True, the original's very pixels
            sides = [[np.asarray(each.convert("RGB")) for each in pair] for pair in zip(made, images, strict=True)]
            return [fromarray(np.where(mask[..., None], *pair)) for mask, pair in zip(masks, sides, strict=True)]


def _one_size(images: Sequence[Image], masks: Sequence[Mask]) -> Size:
    """The size of all of these. Raises ModelError where they differ."""
    sizes = sorted({image.size for image in images} | {mask.shape[::-1] for mask in masks})
    if len(sizes) != 1:
        shown = ", ".join(f"{width}x{height}" for width, height in sizes[:4])
        raise ModelError(
            f"pictures and masks of one batch differ in size ({shown}).",
            remedy="batch pictures of one size, each with a mask that was made from it",
        )
    return sizes[0]
