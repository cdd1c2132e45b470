"""A Stable Diffusion as painter and editor, and what every diffusion role shares: a loaded model, pictures of
sizes that a VAE can halve, one way through base and refiner, and its refusals.

diffusers' pipelines take one guidance scale for a batch; here every edit has its own, so that edits at several scales
run together. At equal scales the pictures are theirs (tests/models/generation/test_diffusion_against_stock.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL.Image import Image, Resampling

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import MAX_SIDE, Halving, naming
from fairgate.models.generation.diffusion.pipeline import Conditioning, StableDiffusion, joined
from fairgate.models.generation.diffusion.schedule import Schedule
from fairgate.models.generation.roles import Sampling

Size = tuple[int, int]
Predict = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(scaled latents, timestep) -> the noise, or whatever the model predicts, under guidance."""
After = Callable[[int, torch.Tensor], torch.Tensor]
"""(number of the step that was made, latents) -> latents."""


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


def pixels_of(model: StableDiffusion, images: Sequence[Image], size: Size) -> torch.Tensor:
    """RGB pixels (n, 3, height, width) in -1..1, resized (Lanczos) as diffusers does."""
    pixels: torch.Tensor = model.pictures.preprocess(
        [image.convert("RGB") for image in images], width=size[0], height=size[1]
    )
    return pixels


def at_size(images: Sequence[Image], size: Size) -> list[Image]:
    """Pictures at a size (Lanczos), those that have it as they are."""
    return [image if image.size == size else image.resize(size, Resampling.LANCZOS) for image in images]


class Diffusing:
    """A Stable Diffusion in a role. `model` is the loaded pipeline, for who runs its parts in another way."""

    def __init__(self, model: StableDiffusion) -> None:
        self.model = model
        self.uri, self.fingerprint, self.spent = model.uri, model.fingerprint, model.spent


class DiffusionPainter(Diffusing):
    """Text to image."""

    def paint(self, prompts: Sequence[str], seeds: Sequence[int], how: Sampling) -> list[Image]:
        """One RGB picture per prompt, `how.size` pixels a side; `how.strength` means nothing here."""
        require_one_each(prompts, seeds)
        size = square(self.model, how.size)
        generators = generators_of(seeds)
        with naming(self.uri, "paint"):
            schedule = self.model.schedule(how.steps, how.scheduler)
            latents = schedule.begin(self.model.noise(generators, size))
            return self.model.decode(through(self.model, schedule, latents, prompts, how, generators))


def restyled(
    model: StableDiffusion,
    pictures: Sequence[Image],
    size: Size,
    prompts: Sequence[str],
    seeds: Sequence[int],
    how: Sampling,
) -> list[Image]:
    """Image to image (SDEdit), at a size: one variant a prompt and seed, of one picture, which is read once, or of as
    many pictures. Noise is added, as much as `how.strength` says, and taken away again; at strength 1.0 the picture is
    still under the noise, as in diffusers."""
    generators = generators_of(seeds)
    schedule = model.schedule(how.steps, how.scheduler).skip_to_strength(how.strength)
    clean = model.encode(pixels_of(model, pictures, size), generators)
    latents = schedule.noised(clean, model.noise(generators, size), 0)
    return model.decode(through(model, schedule, latents, prompts, how, generators))


def through(
    model: StableDiffusion,
    schedule: Schedule,
    latents: torch.Tensor,
    prompts: Sequence[str],
    how: Sampling,
    generators: Sequence[torch.Generator],
    after: Callable[[Schedule], After | None] | None = None,
    more: torch.Tensor | None = None,
) -> torch.Tensor:
    """Latents at the end of a schedule, guided by `prompts`; its last part is the refiner's where `how` says so, under
    `how.refine_guidance`.

    `after` makes what is done after each step of a schedule; `more` are further channels for the base's UNet.
    Raises ModelError where `how.refine_from` is set and the model has no refiner.
    """
    predict = guided(model, prompts, how.guidance, how.negative, more)
    if how.refine_from is None:
        return denoise(schedule, latents, predict, generators, after(schedule) if after else None)
    if model.refiner is None or not 0 < how.refine_from < 1:
        raise ModelError(
            f"refine_from is {how.refine_from}, and "
            + ("the model has no refiner." if model.refiner is None else "it is to be a share between 0 and 1."),
            where=model.uri,
            remedy="name a refiner (hf:BASE?refiner=REFINER) and the share of the schedule at which it takes over, "
            "or leave refine_from out",
        )
    second = model.refiner.schedule(how.steps, how.scheduler).start_at(how.refine_from)
    schedule.stop_at(how.refine_from)
    latents = denoise(schedule, latents, predict, generators, after(schedule) if after else None)
    scale = how.guidance if how.refine_guidance is None else how.refine_guidance
    predict = guided(model.refiner, prompts, scale, how.negative)
    return denoise(second, latents, predict, generators, after(second) if after else None)


@torch.inference_mode()
def denoise(
    schedule: Schedule,
    latents: torch.Tensor,
    predict: Predict,
    generators: Sequence[torch.Generator],
    after: After | None = None,
) -> torch.Tensor:
    """Run latents through a schedule. `after` may change them after each step (inpainting does), or only look."""
    draws = schedule.draws(generators)
    for number, timestep in enumerate(schedule.timesteps):
        predicted = predict(schedule.scheduler.scale_model_input(latents, timestep), timestep)
        latents = schedule.scheduler.step(predicted, timestep, latents, return_dict=False, **draws)[0]
        if after is not None:
            latents = after(number, latents)
    return latents


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


def guided(
    model: StableDiffusion, prompts: Sequence[str], scale: float, negative: str | None, more: torch.Tensor | None = None
) -> Predict:
    """Classifier-free guidance: two evaluations per image, one where the scale is not above 1.

    `more` holds channels that the UNet sees after the latents (n, c, h, w): the mask of an inpainting model.
    """
    positive, unwanted = model.embed_prompts(prompts), model.embed_negative(negative, len(prompts))
    if scale <= 1:
        return _evaluated(model, [positive], more, lambda found: found)
    channels = None if more is None else torch.cat([more, more])
    return _evaluated(model, [unwanted, positive], channels, lambda without, text: without + scale * (text - without))


def _evaluated(
    model: StableDiffusion,
    conditionings: Sequence[Conditioning],
    channels: torch.Tensor | None,
    put_together: Callable[..., torch.Tensor],
) -> Predict:
    """One UNet evaluation of the latents under each conditioning, all in one batch, and what is made of them.

    `channels` are those that the UNet sees after the latents, for the whole batch.
    """
    times, conditioning = len(conditionings), joined(conditionings)

    def predict(latents: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        batch = torch.cat([latents] * times)
        inputs = batch if channels is None else torch.cat([batch, channels], dim=1)
        return put_together(*model.predict(inputs, timestep, conditioning).chunk(times))

    return predict


def guided_by_image(
    model: StableDiffusion, instructions: Sequence[str], hows: Sequence[Sampling], image: torch.Tensor
) -> Predict:
    """InstructPix2Pix: three evaluations per image (text and image, image alone, neither).

    `image` is the picture's latents (1, 4, h, w), unscaled. Where no text scale is above 1, or no image scale is at
    least 1, diffusers guides by nothing; such a batch is one evaluation per image here, too.
    """
    prompts = model.embed_prompts(instructions)
    negative = joined([model.embed_negative(how.negative, 1) for how in hows])
    image = image.repeat(len(instructions), 1, 1, 1)
    scales = torch.tensor(
        [[how.guidance, how.image_guidance] for how in hows], dtype=torch.float32, device=model.device
    )
    text, picture = scales[:, :, None, None, None].unbind(1)
    on = (text > 1) & (picture >= 1)
    if not on.any():
        return _evaluated(model, [prompts], image, lambda found: found)
    text, picture = torch.where(on, text, 1.0), torch.where(on, picture, 1.0)

    def guide(with_text: torch.Tensor, with_image: torch.Tensor, without: torch.Tensor) -> torch.Tensor:
        return without + text * (with_text - with_image) + picture * (with_image - without)

    channels = torch.cat([image, image, torch.zeros_like(image)])
    return _evaluated(model, [prompts, negative, negative], channels, guide)


def require_one_each(prompts: Sequence[str], *others: Sequence[object]) -> None:
    """Raises ModelError unless there is one seed (or whatever else) for every prompt, and one prompt at least."""
    if not prompts or any(len(other) != len(prompts) for other in others):
        counts = " and ".join(str(len(other)) for other in others)
        raise ModelError(f"{len(prompts)} prompts came with {counts} others.", remedy="give one seed for every prompt")


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
        require_one_each(instructions, seeds, hows)
        if len({(how.steps, how.scheduler, how.size) for how in hows}) > 1:
            raise ModelError(
                "edits of one batch differ in steps, scheduler or size.",
                remedy="edit in one batch per setting; only guidance, image guidance and negative prompts may differ",
            )
        if any(how.refine_from is not None for how in hows):
            raise ModelError(
                "edits are made by one UNet, and no refiner takes over.",
                where=self.uri,
                remedy="leave refine_from out of an editor's sampling",
            )
        model, generators = self.model, generators_of(seeds)
        size = working_size(image.size, model.vae_factor, hows[0].size)
        with naming(self.uri, "edit"):
            picture = model.encode(pixels_of(model, [image], size), scaled=False)
            predict = guided_by_image(model, instructions, hows, picture)
            schedule = model.schedule(hows[0].steps, hows[0].scheduler)
            latents = denoise(schedule, schedule.begin(model.noise(generators, size)), predict, generators)
            made = model.decode(latents)
        return at_size(made, image.size)
