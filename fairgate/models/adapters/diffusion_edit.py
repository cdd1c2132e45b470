"""Editing by instruction (InstructPix2Pix): one picture, many instructions, seeds and guidance scales in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairgate.errors import ModelError
from fairgate.models.adapters.diffusion_loop import denoise, generators_of, guided_by_image
from fairgate.models.adapters.diffusion_parts import joined
from fairgate.models.adapters.diffusion_pictures import at_size, pixels_of, working_size
from fairgate.models.adapters.diffusion_roles import Diffusing, require_one_each
from fairgate.models.making import Sampling

if TYPE_CHECKING:
    from PIL.Image import Image


class DiffusionEditor(Diffusing):
    """Edits a picture as an instruction says, held to the picture by a guidance of its own."""

    def edit(
        self, image: Image, instructions: Sequence[str], seeds: Sequence[int], hows: Sequence[Sampling]
    ) -> list[Image]:
        """One edit per instruction, of the picture's size; the VAE reads the picture once for all of them.

        Guidance scales and negative prompts may differ; steps, scheduler and size are those of the whole batch. It is
        worked on at the picture's size, or with `size` pixels on its longer side, rounded down to what the VAE halves.
        Raises ModelError where the settings cannot share a batch, or ask for a refiner.
        """
        require_one_each(instructions, seeds, hows)
        _require_shared(hows)
        self._require_unrefined(hows)
        model, generators = self.model, generators_of(seeds)
        size = working_size(image.size, model.vae_factor, hows[0].size)
        with self._naming("edit"):
            picture = model.encode(pixels_of(model, [image], size), scaled=False)
            predict = guided_by_image(
                model,
                model.embed_prompts(instructions),
                joined([model.embed_negative(how.negative, 1) for how in hows]),
                picture.repeat(len(instructions), 1, 1, 1),
                [how.guidance for how in hows],
                [how.image_guidance for how in hows],
            )
            schedule = model.schedule(hows[0].steps, hows[0].scheduler)
            latents = denoise(schedule, schedule.begin(model.noise(generators, size)), predict, generators)
            made = model.decode(latents)
        return at_size(made, image.size)

    def _require_unrefined(self, hows: Sequence[Sampling]) -> None:
        if any(how.refine_from is not None for how in hows):
            raise ModelError(
                "edits are made by one UNet, and no refiner takes over.",
                where=self.uri,
                remedy="leave refine_from out of an editor's sampling",
            )


def _require_shared(hows: Sequence[Sampling]) -> None:
    if len({(how.steps, how.scheduler, how.size) for how in hows}) > 1:
        raise ModelError(
            "edits of one batch differ in steps, scheduler or size.",
            remedy="edit in one batch per setting; only guidance, image guidance and negative prompts may differ",
        )
