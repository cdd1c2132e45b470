"""A Stable Diffusion as painter of prompts (the pictures of diffusers' own text-to-image pipelines) and as editor of a
source's pictures (img2img), made as they are read and cached one by one.

The noise of an edit is a stream of its own by set, member and seed. It is not shared by the members of a set: at a
strength of 1.0 little but the noise is left of a picture, and edits of one noise would be one edit, seen eight times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import torch
from numpy.typing import NDArray
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.ground.randomness import stream
from fairgate.models.cache import EmbeddingCache
from fairgate.models.checkpoints import naming
from fairgate.models.contract import Editing, Generating, ImageSource
from fairgate.models.decoding import decode_rgb, name_of
from fairgate.models.generated import CachedPictures
from fairgate.models.generation.diffusion.paint import (
    at_size,
    generators_of,
    in_fitting_batches,
    pixels_of,
    require_finite_latents,
    square,
    through,
    working_size,
)
from fairgate.models.generation.diffusion.pipeline import StableDiffusion
from fairgate.models.generation.roles import Sampling

LATENTS_AT_ONCE = {"cpu": 1 << 14, "cuda": 1 << 19}
"""Numbers in the latents of one batch: 64 of the embedded world's; of SD 1.5's one on a CPU and 32 on a GPU."""


def seed_of(set_id: str, member: str, seed: int) -> int:
    """What seeds the generator of an edit: the VAE's draw, then the noise, then whatever the scheduler draws."""
    return int(stream(seed, "image editing", set_id, member).integers(2**63))


class ImageEditor:
    """A loaded model that edits pictures as `StableDiffusionImg2ImgPipeline` of diffusers does, many in a batch.

    A picture is worked on with `side` pixels on its longer side (None: the side that the model was trained at), rounded
    down to what the VAE halves, and comes back at its own size.
    """

    def __init__(self, model: StableDiffusion, side: int | None = None) -> None:
        self.model, self.side = model, side or model.size
        if not self.side:
            raise ModelError(
                "the model's config has no size (sample_size) at which pictures are worked on.",
                where=f"{model.where}/unet/config.json",
                remedy="write ?size=512, the side that it was trained at",
            )

    @property
    def rows(self) -> int:
        """Pictures of one batch."""
        latent = self.model.latent_channels * (self.side // self.model.vae_factor) ** 2
        return max(1, LATENTS_AT_ONCE[self.model.device.type] // int(latent))

    def __call__(self, pictures: Sequence[Image.Image], seeds: Sequence[int], prompt: str, how: Editing) -> list[Any]:
        """The edits, of their pictures' sizes. Raises ModelError where latents are not finite, or no step is left."""
        sizes = [working_size(one.size, self.model.vae_factor, self.side) for one in pictures]
        found: list[Any] = [None] * len(pictures)
        for size, same in groupby(sorted(range(len(pictures)), key=lambda at: (sizes[at], at)), key=sizes.__getitem__):
            places = list(same)
            made = self._edit([pictures[at] for at in places], [seeds[at] for at in places], size, prompt, how)
            for at, one in zip(places, made, strict=True):
                found[at] = at_size([one], pictures[at].size)[0]
        return found

    def _edit(
        self, pictures: Sequence[Image.Image], seeds: Sequence[int], size: tuple[int, int], prompt: str, how: Editing
    ) -> list[Image.Image]:
        model, generators = self.model, generators_of(seeds)
        schedule = model.schedule(how.steps).skip_to_strength(how.strength)
        pixels = pixels_of(model, pictures, size)
        clean = torch.cat([model.encode(pixels[at : at + 1], [one]) for at, one in enumerate(generators)])
        latents = schedule.noised(clean, model.noise(generators, size), 0)
        sampling = Sampling(how.steps, how.guidance, how.strength)
        latents = through(model, schedule, latents, [prompt] * len(pictures), sampling, generators)
        require_finite_latents(latents, model.where)
        return model.decode(latents)


class EditedImages(CachedPictures):
    """The edits of a source as a source: PNG pictures, in its order and under its names.

    `loaded` is called when a picture is not in the cache; `key` names the model's files and how it runs. Reading can
    be interrupted at any time: what is made stays in the cache.
    """

    def __init__(
        self,
        source: ImageSource,
        prompt: str,
        how: Editing,
        key: str,
        loaded: Callable[[], ImageEditor],
        cache: EmbeddingCache | None,
    ) -> None:
        super().__init__(source)
        self.prompt, self.how = prompt, how
        edit = [prompt, how.strength, how.seed, how.steps, how.guidance]
        self.fingerprint = digest({"model": key, "edit": edit, "source": source.fingerprint})
        self._loaded, self._cache = loaded, cache

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """Row numbers and PNG bytes of the edits, `batch_size` at most."""
        for rows, blobs in self.source.image_batches(batch_size):
            known = {int(row): self._read(int(row)) for row in rows}
            todo = [(int(row), data) for row, data in zip(rows, blobs, strict=True) if known[int(row)] is None]
            if todo:
                editor = self._loaded()
                for start in range(0, len(todo), editor.rows):
                    known.update(self._made(editor, todo[start : start + editor.rows]))
            yield rows, [data for row in rows if (data := known[int(row)]) is not None]

    def _made(self, editor: ImageEditor, todo: Sequence[tuple[int, bytes]]) -> dict[int, bytes | None]:
        index = self.source.index
        shown = [decode_rgb(data, self.source, row) for row, data in todo]
        seeds = [seed_of(str(index.set_id[row]), str(index.member[row]), self.how.seed) for row, _ in todo]
        with naming(f"{editor.model.uri}: {name_of(self.source, todo[0][0])}", "edit pictures"):
            made = in_fitting_batches(
                lambda some, seeds: editor(some, seeds, self.prompt, self.how), shown, seeds, editor.model.device
            )
        return self._written([row for row, _ in todo], made)

    def _name(self, row: int) -> str:
        return f"edits/{self.fingerprint}/{row:012d}"


class PicturePainter:
    """A loaded model that paints as `StableDiffusionPipeline` of diffusers does, many pictures in a batch.

    They have `side` pixels a side (None: as it was trained).
    """

    def __init__(self, model: StableDiffusion, side: int | None = None) -> None:
        self.model, self.size = model, square(model, side)

    @property
    def rows(self) -> int:
        """Pictures of one batch."""
        latent = self.model.latent_channels * (self.size[0] // self.model.vae_factor) ** 2
        return max(1, LATENTS_AT_ONCE[self.model.device.type] // int(latent))

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], how: Generating) -> Sequence[Any]:
        """A picture of each prompt and seed. Raises ModelError for latents that are not finite, DeviceError for too
        little memory."""
        paint = partial(self._paint, Sampling(how.steps, how.guidance))
        with naming(self.model.uri, "paint"):
            return in_fitting_batches(paint, prompts, seeds, self.model.device)

    def _paint(self, sampling: Sampling, prompts: Sequence[str], seeds: Sequence[int]) -> list[Any]:
        model, generators = self.model, generators_of(seeds)
        schedule = model.schedule(sampling.steps)
        latents = schedule.begin(model.noise(generators, self.size))
        latents = through(model, schedule, latents, prompts, sampling, generators)
        require_finite_latents(latents, model.where)
        return model.decode(latents)
