"""How much memory of a GPU a build needs, and how much less with what spares it. Computed, but for what is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairgate.builds.recipes import Recipe
from fairgate.models.generation import Offload, PublishedModel

CARDS = (8, 12, 16, 24, 40, 80)
"""GB of common GPUs, as makers count them; what a driver takes is about as much as these are larger in 10^9 bytes."""
VAE_PEAK: Mapping[int, Mapping[int, float]] = {
    512: {8: 6.6, 1: 3.5},
    768: {8: 9.6, 1: 7.1},
    1024: {8: 12.6, 1: 12.6},
}
"""GB next to the weights while a VAE decodes in float32, by the side of the pictures and the batch: measured on an H100
at 512 and 1024 pixels, with random weights (docs/evidence/cost.md); 768 is assumed to be between them."""
UNET_PEAK: Mapping[int, Mapping[int, float]] = {
    512: {8: 2.2, 1: 0.3},
    768: {8: 4.9, 1: 0.6},
    1024: {8: 5.3, 1: 0.7},
}
"""GB next to the weights while a UNet computes under guidance: twice what its tensors hold at once, counted from the
architectures (SD 1.5, 2.1 and XL) with attention that holds no scores; twice, for what kernels need to work with."""
VAE, LAYER = 0.3, 0.3
"""GB of a VAE, and of the largest layer there is (the table of a text encoder's tokens)."""
TILE = 512


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a build: in batches of `batch`, its diffusion models lying as `offload` says, with the VAE's
    `tile` in pixels (0: none). `memory` in GB; `card` is the smallest of CARDS that should do, None where none does."""

    batch: int
    offload: Offload
    tile: int
    memory: float

    @property
    def card(self) -> int | None:
        return next((size for size in CARDS if self.memory <= size), None)

    @property
    def settings(self) -> str:
        """What to write for it."""
        said = [f"--offload {self.offload}" if self.offload != "none" else "", f"?vae_tile={self.tile}"]
        words = [f"batches of {self.batch}", *said[: 1 + bool(self.tile)]]
        return ", ".join(filter(None, words))


_WAYS: tuple[tuple[int, Offload, int], ...] = (
    *((8, "none", 0), (1, "none", 0), (8, "model", 0), (1, "model", 0)),
    *((1, "none", TILE), (1, "model", TILE), (1, "sequential", TILE)),
)


def ways_to_fit(recipe: Recipe, sizes: Mapping[str, PublishedModel | None]) -> list[Way]:
    """Of the part that needs most, its models together: as it is first. Empty where a model's size is not known."""
    parts = [
        [size for role, size in sizes.items() if role not in part.ignores and role != "face_reader"]
        for part in recipe.parts()
    ]
    known = [[size for size in part if size is not None] for part in parts]
    if [len(part) for part in parts] != [len(part) for part in known]:
        return []
    sides = {size.side for part in known for size in part if size.side is not None}
    ways = [way for way in _WAYS if sides and (not way[2] or max(sides) > way[2])] or [_WAYS[0]]
    return [Way(*way, max((_needed(part, *way) for part in known), default=0.0)) for way in ways]


def _needed(models: list[PublishedModel], batch: int, offload: Offload, tile: int) -> float:
    """Of models that are open at once: what lies on the device, and the most that one of them needs on top."""
    lying, most = 0.0, 0.0
    for size in models:
        if size.side is None or size.largest is None:
            lying += size.memory
            continue
        unet = UNET_PEAK[size.side][batch]
        vae = VAE_PEAK[min(size.side, tile) if tile else size.side][batch]
        if offload == "none":
            lying += size.memory
            most = max(most, unet, vae)
        elif offload == "model":
            most = max(most, size.largest + unet, VAE + vae)
        else:
            most = max(most, LAYER + max(unet, vae))
    return lying + most
