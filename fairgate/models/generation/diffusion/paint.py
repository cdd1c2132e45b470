"""A Stable Diffusion as painter and editor, and what every diffusion role shares: a loaded model, pictures of
sizes that a VAE can halve, diffusers' pipelines over base and refiner, and refusals.

diffusers' pipelines take one guidance scale for a batch; here every edit has its own, so that edits at several scales
run together. At equal scales the pictures are theirs (tests/models/generation/test_diffusion_against_stock.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL.Image import Image, Resampling

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import MAX_SIDE, Halving, naming
from fairgate.models.generation.diffusion.pipeline import StableDiffusion, Work
from fairgate.models.generation.diffusion.schedule import running_diffusers
from fairgate.models.generation.roles import Sampling

Size = tuple[int, int]


def square(model: StableDiffusion, side: int | None) -> int:
    """The side to paint at: the model's own, or `side`. Raises ModelError where the VAE cannot halve it."""
    wanted = side or model.size
    if not model.vae_factor <= wanted <= MAX_SIDE or wanted % model.vae_factor:
        near = min(max(1, round(wanted / model.vae_factor)), MAX_SIDE // model.vae_factor) * model.vae_factor
        raise ModelError(
            f"a picture of {wanted} pixels a side cannot be made: sides are multiples of {model.vae_factor}, "
            f"and {MAX_SIDE} at most.",
            where=model.uri,
            remedy=f"set `size` to {near}" if wanted else "set `size`: the model's config has none",
        )
    return wanted


def working_size(own: Size, factor: int, side: int | None) -> Size:
    """The size at which a picture is worked on: its own, or with its longer side scaled to `side`, rounded down.

    >>> working_size((50, 37), 8, None), working_size((50, 25), 8, 100), working_size((5, 90), 8, None)
    ((48, 32), (96, 48), (8, 88))
    """
    scale = side / max(own) if side else 1.0
    width, height = (max(factor, int(length * scale + 1e-6) // factor * factor) for length in own)
    return width, height


def at_size(images: Sequence[Image], size: Size) -> list[Image]:
    """RGB pictures at a size (Lanczos), those that have it as they are."""
    rgb = [image.convert("RGB") for image in images]
    return [image if image.size == size else image.resize(size, Resampling.LANCZOS) for image in rgb]


class Diffusing:
    """A Stable Diffusion in a role. `model` is the loaded pipeline, for who runs its parts in another way."""

    def __init__(self, model: StableDiffusion) -> None:
        self.model = model
        self.uri, self.fingerprint, self.spent = model.uri, model.fingerprint, model.spent


class DiffusionPainter(Diffusing):
    """Text to image."""

    def paint(self, prompts: Sequence[str], seeds: Sequence[int], how: Sampling) -> list[Image]:
        """One RGB picture per prompt, `how.size` pixels a side; `how.strength` means nothing here."""
        side = square(self.model, how.size)
        with naming(self.uri, "paint"):
            return self.model.decode(made_latents(self.model, "", prompts, how, seeds, width=side, height=side))


def made_latents(
    model: StableDiffusion,
    work: Work,
    prompts: Sequence[str],
    how: Sampling,
    seeds: Sequence[int],
    **given: Any,
) -> torch.Tensor:
    """Latents that diffusers' pipeline for some work makes of prompts and what else is given; the last part of the
    schedule is the refiner's where `how` says so, under `how.refine_guidance`.

    Raises ModelError where `how.refine_from` is set and the model has no refiner, and where no step is left to run.
    """
    given = {"guidance_scale": how.guidance, "generator": generators_of(seeds), **given}
    if how.refine_from is None:
        return _run(model, work, prompts, how, given)
    if model.refiner is None or not 0 < how.refine_from < 1:
        raise ModelError(
            f"refine_from is {how.refine_from}, and "
            + ("the model has no refiner." if model.refiner is None else "it is to be a share between 0 and 1."),
            where=model.uri,
            remedy="name a refiner (hf:BASE?refiner=REFINER) and the share of the schedule at which it takes over, "
            "or leave refine_from out",
        )
    base = _run(model, work, prompts, how, {**given, "denoising_end": how.refine_from})
    scale = how.guidance if how.refine_guidance is None else how.refine_guidance
    left = {"guidance_scale": scale, "generator": given["generator"], "denoising_start": how.refine_from}
    return _run(model.refiner, "Img2Img", prompts, how, {**left, "image": base})


def _run(
    model: StableDiffusion, work: Work, prompts: Sequence[str], how: Sampling, given: dict[str, Any]
) -> torch.Tensor:
    """Latents that one call of a pipeline makes."""
    given |= model.conditioning(prompts, given.pop("negatives", [how.negative] * len(prompts)))
    pipeline, before = model.pipeline_for(work, how.scheduler), model.spent["unet"]
    if int(how.steps * given.get("strength", 1.0)):
        with running_diffusers():
            made = pipeline(num_inference_steps=how.steps, output_type="latent", **given)
            latents: torch.Tensor = made.images
        if model.spent["unet"] > before:
            return latents
    share = f"a strength of {how.strength}" + (f", refined from {how.refine_from}," if how.refine_from else "")
    raise ModelError(
        f"{share} leaves no step to run of {how.steps}.",
        where=model.uri,
        remedy="set more steps, or a larger share of them",
    )


def in_fitting_batches(
    make: Callable[[list[Any], list[int]], Sequence[Any]], given: Sequence[Any], seeds: Sequence[int], device: Any
) -> list[Any]:
    """The pictures that `make(given, seeds)` makes, one of each, in batches that fit into the device's memory. Raises
    DeviceError where none does."""

    def made(jobs: Sequence[Any]) -> Any:
        pictures = np.empty(len(jobs), dtype=object)
        pictures[:] = make([one for one, _ in jobs], [seed for _, seed in jobs])
        return pictures

    return list(Halving(made, str(device))(list(zip(given, seeds, strict=True))))


def generators_of(seeds: Sequence[int]) -> list[torch.Generator]:
    """One generator per image, on the CPU."""
    return [torch.Generator("cpu").manual_seed(int(seed)) for seed in seeds]


@dataclass(frozen=True, slots=True)
class Scales:
    """A guidance scale for each picture of a batch (n, 1, 1, 1), in the place of a pipeline's one number."""

    each: torch.Tensor

    def __gt__(self, least: float) -> bool:
        return bool((self.each > least).any())

    def __ge__(self, least: float) -> bool:
        return bool((self.each >= least).any())

    def __mul__(self, difference: torch.Tensor) -> torch.Tensor:
        return self.each * difference


class DiffusionEditor(Diffusing):
    """Edits a picture as an instruction says, held to the picture by a guidance of its own."""

    def edit(
        self, image: Image, instructions: Sequence[str], seeds: Sequence[int], hows: Sequence[Sampling]
    ) -> list[Image]:
        """One edit per instruction, of the picture's size; the VAE reads the picture once for all of them.

        Guidance scales and negative prompts may differ; steps, scheduler and size are those of the whole batch. It is
        worked on at the picture's size, or with `size` pixels on its longer side, rounded down to what the VAE halves.
        Raises ModelError where the settings cannot share a batch, or name a refiner.
        """
        if len({(how.steps, how.scheduler, how.size) for how in hows}) > 1 or any(how.refine_from for how in hows):
            raise ModelError(
                "edits of one batch differ in steps, scheduler or size, or name a refiner.",
                where=self.uri,
                remedy="edit in one batch per setting, without refine_from; only guidance, image guidance and negative "
                "prompts may differ",
            )
        model = self.model
        size = working_size(image.size, model.vae_factor, hows[0].size)
        scales = [(how.guidance, how.image_guidance) for how in hows]
        # where one of the two does not guide, diffusers guides by neither
        scales = [(text, picture) if text > 1 and picture >= 1 else (1.0, 1.0) for text, picture in scales]
        text, picture = torch.tensor(scales, device=model.device)[..., None, None, None].unbind(1)
        given: dict[str, Any] = {"image": at_size([image], size), "negatives": [how.negative for how in hows]}
        given |= {"guidance_scale": Scales(text), "image_guidance_scale": Scales(picture)}
        with naming(self.uri, "edit"):
            made = model.decode(made_latents(model, "InstructPix2Pix", instructions, hows[0], seeds, **given))
        return at_size(made, image.size)
