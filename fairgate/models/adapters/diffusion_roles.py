"""What every diffusion role shares: a loaded model, one way through base and refiner, and its complaints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch

from fairgate.errors import ModelError
from fairgate.models.adapters.diffusion_loop import After, denoise, generators_of, guided
from fairgate.models.adapters.diffusion_parts import StableDiffusion
from fairgate.models.adapters.diffusion_pictures import at_size, pixels_of, square, working_size
from fairgate.models.adapters.diffusion_schedule import Schedule
from fairgate.models.encoder import naming
from fairgate.models.making import Sampling

if TYPE_CHECKING:
    from PIL.Image import Image


class Diffusing:
    """A Stable Diffusion in a role. `model` is the loaded pipeline, for who runs its parts in another way."""

    def __init__(self, model: StableDiffusion) -> None:
        self.model = model

    @property
    def uri(self) -> str:
        return self.model.uri

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint

    @property
    def spent(self) -> Counter[str]:
        return self.model.spent

    def _naming(self, what: str) -> AbstractContextManager[None]:
        """What the libraries raise while a picture is made names the model; memory that runs out is the caller's."""
        return naming(self.uri, what)


class DiffusionPainter(Diffusing):
    """Text to image."""

    def paint(self, prompts: Sequence[str], seeds: Sequence[int], how: Sampling) -> list[Image]:
        """One RGB picture per prompt, `how.size` pixels a side; `how.strength` means nothing here."""
        require_one_each(prompts, seeds)
        size = square(self.model, how.size)
        generators = generators_of(seeds)
        with self._naming("paint"):
            schedule = self.model.schedule(how.steps, how.scheduler)
            latents = schedule.begin(self.model.noise(generators, size))
            return self.model.decode(through(self.model, schedule, latents, prompts, how, generators))


class DiffusionRestyler(Diffusing):
    """Image to image (SDEdit): noise is added to the picture, as much as `how.strength` says, and taken away again."""

    def restyle(self, image: Image, prompts: Sequence[str], seeds: Sequence[int], how: Sampling) -> list[Image]:
        """One variant of the picture per prompt, of its size. The VAE reads it once for all of them.

        It is worked on at its own size, or with `how.size` pixels on its longer side, rounded down to what the VAE
        halves. At strength 1.0 it is still under the noise, as in diffusers.
        """
        require_one_each(prompts, seeds)
        model, generators = self.model, generators_of(seeds)
        size = working_size(image.size, model.vae_factor, how.size)
        with self._naming("restyle a picture"):
            schedule = model.schedule(how.steps, how.scheduler).skip_to_strength(how.strength)
            clean = model.encode(pixels_of(model, [image], size), generators)
            latents = schedule.noised(clean, model.noise(generators, size), 0)
            made = model.decode(through(model, schedule, latents, prompts, how, generators))
        return at_size(made, image.size)


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
    second = _refining(model, how)
    if second is not None and how.refine_from is not None:
        schedule.stop_at(how.refine_from)
    predict = _guided(model, prompts, how.guidance, how.negative, more)
    latents = denoise(schedule, latents, predict, generators, after(schedule) if after else None)
    if second is None or model.refiner is None:
        return latents
    scale = how.guidance if how.refine_guidance is None else how.refine_guidance
    predict = _guided(model.refiner, prompts, scale, how.negative)
    return denoise(second, latents, predict, generators, after(second) if after else None)


def _guided(
    model: StableDiffusion,
    prompts: Sequence[str],
    scale: float,
    negative: str | None,
    more: torch.Tensor | None = None,
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    told, untold = model.embed_prompts(prompts), model.embed_negative(negative, len(prompts))
    return guided(model, told, untold, [scale] * len(prompts), more)


def _refining(model: StableDiffusion, how: Sampling) -> Schedule | None:
    if how.refine_from is None:
        return None
    if model.refiner is None or not 0 < how.refine_from < 1:
        raise ModelError(
            f"refine_from is {how.refine_from}, and "
            + ("the model has no refiner." if model.refiner is None else "it is to be a share between 0 and 1."),
            where=model.uri,
            remedy="name a refiner (hf:BASE?refiner=REFINER) and the share of the schedule at which it takes over, "
            "or leave refine_from out",
        )
    return model.refiner.schedule(how.steps, how.scheduler).start_at(how.refine_from)


def require_one_each(prompts: Sequence[str], *others: Sequence[object]) -> None:
    """Raises ModelError unless there is one seed (or whatever else) for every prompt, and one prompt at least."""
    if not prompts or any(len(other) != len(prompts) for other in others):
        counts = " and ".join(str(len(other)) for other in others)
        raise ModelError(f"{len(prompts)} prompts came with {counts} others.", remedy="give one seed for every prompt")
