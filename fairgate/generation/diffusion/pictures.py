"""Pictures on their way to a diffusion model and back: sizes that a VAE can halve, and the picture's own size again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from fairgate.checkpoints import MAX_SIDE
from fairgate.errors import ModelError
from fairgate.generation.diffusion.pipeline import StableDiffusion
from fairgate.generation.roles import Mask

Size = tuple[int, int]


def square(model: StableDiffusion, side: int | None) -> Size:
    """(width, height) to paint at: the model's own, or `side`. Raises ModelError where the VAE cannot halve it."""
    wanted = side or model.size
    if not model.vae_factor <= wanted <= MAX_SIDE or wanted % model.vae_factor:
        near = min(max(1, round(wanted / model.vae_factor)), MAX_SIDE // model.vae_factor) * model.vae_factor
        raise ModelError(
            f"a picture of {wanted} pixels a side cannot be made: sides are multiples of {model.vae_factor}, "
            f"and {MAX_SIDE} at most.",
            where=model.uri,
            remedy=f"set `size` to {near}" if wanted else "set `size`: the model's config has none",
        )
    return wanted, wanted


def working_size(own: Size, factor: int, side: int | None) -> Size:
    """The size at which a picture is worked on: its own, or with its longer side scaled to `side`, rounded down.

    >>> working_size((50, 37), 8, None), working_size((50, 25), 8, 100), working_size((5, 90), 8, None)
    ((48, 32), (96, 48), (8, 88))
    """
    scale = side / max(own) if side else 1.0
    width, height = (max(factor, int(length * scale + 1e-6) // factor * factor) for length in own)
    return width, height


def one_size(images: Sequence[Image.Image]) -> Size:
    """The size of all of these. Raises ModelError where they differ."""
    sizes = sorted({image.size for image in images})
    if len(sizes) != 1:
        shown = ", ".join(f"{width}x{height}" for width, height in sizes[:4])
        raise ModelError(f"pictures of one batch differ in size ({shown}).", remedy="batch pictures of one size")
    return sizes[0]


def pixels_of(model: StableDiffusion, images: Sequence[Image.Image], size: Size) -> torch.Tensor:
    """RGB pixels (n, 3, height, width) in -1..1, resized (Lanczos) as diffusers does."""
    pixels: torch.Tensor = model.pictures.preprocess(
        [image.convert("RGB") for image in images], width=size[0], height=size[1]
    )
    return pixels


def masks_of(model: StableDiffusion, masks: Sequence[Mask], own: Size, size: Size) -> torch.Tensor:
    """Masks (n, 1, height, width), 1 where to paint. Raises ModelError for a mask of another size than `own`."""
    for mask in masks:
        if mask.shape != own[::-1]:
            raise ModelError(
                f"the mask is {mask.shape[1]}x{mask.shape[0]} pixels, and its picture {own[0]}x{own[1]}.",
                remedy="make the mask from this very picture",
            )
    drawn = [Image.fromarray(np.asarray(mask, dtype=np.uint8) * 255) for mask in masks]
    found: torch.Tensor = model.masks.preprocess(drawn, width=size[0], height=size[1])
    return found


def at_size(images: Sequence[Image.Image], size: Size) -> list[Image.Image]:
    """Pictures at a size (Lanczos), those that have it as they are."""
    return [image if image.size == size else image.resize(size, Image.Resampling.LANCZOS) for image in images]


def pasted(made: Image.Image, original: Image.Image, mask: Mask) -> Image.Image:
    """`made` where the mask is True, and the original's very pixels elsewhere; both of one size."""
    chosen = np.where(mask[..., None], np.asarray(made.convert("RGB")), np.asarray(original.convert("RGB")))
    return Image.fromarray(chosen)
